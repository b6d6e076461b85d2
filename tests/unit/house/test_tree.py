# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may and what must stand in the files that git keeps."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from .house import ROOT, git_files

# Written with [.], so that this file does not hold what it looks for.
REGISTRIES = re.compile(
    r"pypi[.]org|pythonhosted[.]org|registry[.]npmjs[.]org|galaxy[.]ansible[.]com|download[.]pytorch[.]org|deb[.]debian[.]org"
)
GENERATED = ("requirements-", "LICENSE")
LICENCE = "SPDX-License-Identifier: GPL-3.0-or-later"


def texts() -> Iterator[tuple[str, str]]:
    for name in git_files():
        data = (ROOT / name).read_bytes()
        if b"\0" not in data:
            yield name, data.decode("utf-8")


def places_of_this_machine() -> list[str]:
    """Where this checkout is, and what this machine's pip is told: paths and addresses that are nobody else's."""
    settings = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    ).stdout
    places = re.findall(r"(?:https?|file)://[^\s']+|/[\w./-]{8,}", settings)
    # Certificates of the system lie in the same place everywhere.
    return [str(ROOT), *(place for place in places if not place.startswith("/etc/"))]


def test_no_registry_is_named() -> None:
    named = {(name, host) for name, text in texts() for host in REGISTRIES.findall(text)}
    assert named == set()


def test_no_path_or_address_of_this_machine() -> None:
    places = places_of_this_machine()
    named = {(name, place) for name, text in texts() for place in places if place in text}
    assert named == set()


def test_code_carries_its_licence() -> None:
    code = [(name, text) for name, text in texts() if name.endswith((".py", ".sh")) and text.strip()]
    assert [name for name, text in code if LICENCE not in text[:600]] == []


@pytest.mark.parametrize("lock", ["requirements-dev.txt", "requirements-2.21.txt"])
def test_every_row_of_a_lock_has_a_hash_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    rows = re.split(r"\n(?=\S)", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    assert len(rows) > 5
    assert [row.splitlines()[0] for row in rows if "==" not in row or "--hash=sha256:" not in row] == []
    assert "://" not in text
    assert "index-url" not in text
