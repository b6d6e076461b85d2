# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking secrets out of text that goes into messages, results and records."""

from __future__ import annotations

import re
from collections.abc import Iterable

_HIDDEN = "********"
# A name that tells of a secret, then what follows it: `--api-key X`, `VLLM_API_KEY=X`, `'api_key': ['X']`.
_NAMES = r"(?:api[-_]?key|hf[-_]?token|auth[-_]?token|access[-_]?token|password|secret)"
_NAMED = re.compile(rf"""(--{_NAMES}\s+|{_NAMES}['"]?\s*[=:]\s*[\[('"]*)([^\s'"\]),;]+)""", re.IGNORECASE)
_BEARER = re.compile(r"\b(Bearer\s+)[^\s'\",]+", re.IGNORECASE)
_SHAPED = re.compile(r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,})")


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` with the given secrets, and what looks like one, replaced by asterisks."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, _HIDDEN)
    text = _NAMED.sub(rf"\1{_HIDDEN}", text)
    text = _BEARER.sub(rf"\1{_HIDDEN}", text)
    return _SHAPED.sub(_HIDDEN, text)
