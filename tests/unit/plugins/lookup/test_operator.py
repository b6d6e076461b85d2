# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.pristine.vllm.plugins.lookup import operator


def test_the_operator_is_a_user_on_a_host() -> None:
    user, host = operator.LookupModule().run([])[0].split("@")
    assert user
    assert host
