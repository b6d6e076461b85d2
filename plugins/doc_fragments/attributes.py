# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each attribute means, said once; a module adds only how far it supports it."""

from __future__ import annotations


class ModuleDocFragment:
    """Used as C(extends_documentation_fragment: [pristine.vllm.attributes])."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return the changed status prediction without modifying the target.
  diff_mode:
    description: Returns details on what has changed (or would change in C(check_mode)), when in diff mode.
  platform:
    description: Target systems that the module can be operated against.
    support: full
    platforms: linux
"""
