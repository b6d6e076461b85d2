# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell who runs Ansible, and where."""

from __future__ import annotations

DOCUMENTATION = r"""
name: operator
short_description: Tell who runs Ansible, and where
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns C(user@host) of the controller. Under sudo, the user who called it.
options:
  _terms:
    description: Takes none.
"""

EXAMPLES = r"""
- name: Show who runs this
  ansible.builtin.debug:
    msg: "{{ lookup('pristine.vllm.operator') }}"
"""

RETURN = r"""
_raw:
  description: One element, such as C(ada@control01).
  type: list
  elements: str
"""

import getpass
import os
import socket
from typing import Any, Optional

from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    """The lookup."""

    def run(self, _terms: list[str], variables: Optional[dict[str, Any]] = None, **kwargs: Any) -> list[str]:
        self.set_options(var_options=variables, direct=kwargs)
        return [f"{user()}@{socket.gethostname()}"]


def user() -> str:
    """The name of the user; in a container there may be none for the number."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
