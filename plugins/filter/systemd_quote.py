# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quote a word for a systemd unit file."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.pristine.vllm.plugins.module_utils.systemd_text import quote_argument

DOCUMENTATION = r"""
name: systemd_quote
short_description: Quote a word for a systemd unit file
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns the value as one word of C(ExecStart=) or C(Environment=).
  - Specifiers and variables are escaped as systemd.service(5) says.
positional: expand_variables
options:
  _input:
    description: The word.
    type: str
    required: true
  expand_variables:
    description: Whether systemd would replace C($), as in C(ExecStart=) and not in C(Environment=).
    type: bool
    default: true
"""

EXAMPLES = r"""
# ExecStart={{ arguments | map('pristine.vllm.systemd_quote') | join(' ') }}
"""

RETURN = r"""
_value:
  description: The quoted word.
  type: str
"""


def systemd_quote(value: Any, expand_variables: bool = True) -> str:
    """Return :func:`systemd_text.quote_argument` of the value's text: YAML makes numbers of some arguments."""
    return quote_argument(str(value), expand_variables)


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"systemd_quote": systemd_quote}
