# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wheel for each oddity of RECORD that is found in published wheels, and what a scan has to say of it."""

from __future__ import annotations

import base64
import hashlib
import pathlib
from dataclasses import dataclass, field

from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import (
    INFO,
    MEMBERS,
    Env,
    Kept,
    build_wheel,
    encoded,
    make_environment,
    record_text,
)

# Content whose digests have both signs that the two alphabets of base64 differ in.
BODY = next(
    body
    for body in (b"x = %d\n" % number for number in range(1000))
    if {"-", "_"} <= set(base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode())
)
_DIGEST = hashlib.sha256(BODY).digest()
_SIZE = len(BODY)
_GOOD = f"{encoded(BODY)},{_SIZE}"
_OTHER = encoded(b"something else")


@dataclass(frozen=True)
class Odd:
    """One oddity. ``{p}`` stands for the package's name in ``rows`` (of the module; None: as a builder writes them).

    ``alone`` and ``wheel`` are the findings without and with the wheel: path -> status; ``alone`` by installer where
    they differ. ``uv`` refuses some.
    """

    rows: object = None
    members: dict[str, bytes] = field(default_factory=lambda: {"{p}/m.py": BODY})
    alone: dict[str, str] = field(default_factory=dict)
    wheel: dict[str, str] = field(default_factory=dict)
    alone_uv: object = None
    uv: bool = True
    line_end: str = "\n"


MODULE = "{p}/m.py"
UNVERIFIABLE = {MODULE: "unverifiable"}
MODIFIED = {MODULE: "modified"}
ODDITIES: dict[str, Odd] = {
    "crlf": Odd(line_end="\r\n"),
    "quoted_commas_and_brackets": Odd(members={"{p}/E=8,[x],N=1.py": BODY, "{p}/[a].json": b"{}"}),
    "quotes": Odd(members={'{p}/say "hi", you.py': BODY}),
    "unquoted_commas_that_pip_cuts_the_row_at": Odd(
        f"{{p}}/E=8,N=1,M=2.py,{_GOOD}\n",
        {"{p}/E=8,N=1,M=2.py": BODY},
        alone={"{p}-1.0.dist-info/RECORD": "unverifiable", "{p}/E=8,N=1,M=2.py": "unverifiable"},
        wheel={"{p}-1.0.dist-info/RECORD": "unverifiable"},
        uv=False,
    ),
    "unquoted_commas": Odd(
        f"{{p}}/E=8,N=1.py,{_GOOD}\n",
        {"{p}/E=8,N=1.py": BODY},
        alone={"{p}-1.0.dist-info/RECORD": "unverifiable"},
        wheel={"{p}-1.0.dist-info/RECORD": "unverifiable"},
        uv=False,
    ),
    "padded": Odd(f"{{p}}/m.py,sha256={base64.urlsafe_b64encode(_DIGEST).decode()},{_SIZE}\n"),
    "hex": Odd(f"{{p}}/m.py,sha256={_DIGEST.hex()},{_SIZE}\n"),
    "wrong_alphabet": Odd(f"{{p}}/m.py,sha256={base64.b64encode(_DIGEST).decode().rstrip('=')},{_SIZE}\n"),
    "unknown_algorithm": Odd(f"{{p}}/m.py,blake9={encoded(BODY)[7:]},{_SIZE}\n", alone=UNVERIFIABLE),
    "weak_algorithm": Odd(f"{{p}}/m.py,{encoded(BODY, 'md5')},{_SIZE}\n", alone=UNVERIFIABLE),
    "undecodable": Odd(f"{{p}}/m.py,sha256=!,{_SIZE}\n", alone=UNVERIFIABLE),
    "sha384": Odd(f"{{p}}/m.py,{encoded(BODY, 'sha384')},{_SIZE}\n"),
    "sha512": Odd(f"{{p}}/m.py,{encoded(BODY, 'sha512')},{_SIZE}\n"),
    "no_hash": Odd("{p}/m.py,,\n", alone=UNVERIFIABLE),
    "no_size": Odd(f"{{p}}/m.py,{encoded(BODY)},\n"),
    "size_of_5000_digits": Odd(f"{{p}}/m.py,{encoded(BODY)},{'9' * 5000}\n", uv=False),
    "wrong_size": Odd(f"{{p}}/m.py,{encoded(BODY)},{_SIZE + 1}\n", alone=MODIFIED, wheel=UNVERIFIABLE),
    "wrong_hash": Odd(f"{{p}}/m.py,{_OTHER},{_SIZE}\n", alone=MODIFIED, wheel=UNVERIFIABLE),
    "repeated": Odd(f"{{p}}/m.py,{_GOOD}\n" * 3),
    # uv keeps only the first.
    "repeated_without_a_hash": Odd(f"{{p}}/m.py,,\n{{p}}/m.py,{_GOOD}\n", alone_uv=UNVERIFIABLE),
    "contradictory": Odd(f"{{p}}/m.py,{_GOOD}\n{{p}}/m.py,{_OTHER},{_SIZE}\n", wheel=UNVERIFIABLE),
    "directory": Odd(f"{{p}}/,,\n{{p}}/m.py,{_GOOD}\n"),
    "directory_with_a_hash": Odd(f"{{p}}/,{encoded(b'')},0\n{{p}}/m.py,{_GOOD}\n"),
    "directory_without_a_slash": Odd(f"{{p}},,\n{{p}}/m.py,{_GOOD}\n"),
    "directory_without_a_slash_with_a_hash": Odd(f"{{p}},{encoded(b'')},0\n{{p}}/m.py,{_GOOD}\n"),
    "dot_slash": Odd(f"./{{p}}/m.py,{_GOOD}\n"),
    "detour": Odd(f"{{p}}/../{{p}}//./m.py,{_GOOD}\n"),
    "backslashes": Odd(f"{{p}}\\m.py,{_GOOD}\n", alone_uv=UNVERIFIABLE),
    "not_listed": Odd("", alone=UNVERIFIABLE, wheel=UNVERIFIABLE),
    "ghost": Odd(
        f"{{p}}/m.py,{_GOOD}\n{{p}}/ghost.py,{_GOOD}\n",
        alone={"{p}/ghost.py": "missing"},
        wheel={"{p}/ghost.py": "unverifiable"},
        alone_uv={},
    ),
    "signatures": Odd(
        f"{{p}}/m.py,{_GOOD}\n{{p}}-1.0.dist-info/RECORD.jws,,\n{{p}}-1.0.dist-info/RECORD.p7s,,\n",
        {MODULE: BODY, "{p}-1.0.dist-info/RECORD.jws": b"{}", "{p}-1.0.dist-info/RECORD.p7s": b"\x30\x80"},
    ),
    "own_hash": Odd(f"{{p}}/m.py,{_GOOD}\n{{p}}-1.0.dist-info/RECORD,{_OTHER},{_SIZE}\n"),
    "names_in_two_cases": Odd(members={"{p}/Mod.py": BODY, "{p}/mod.py": b"other", "{p}/MOD/x.py": b""}),
    "names_that_are_not_ascii": Odd(members={"{p}/m\xfc\u4e2d.py": BODY, "{p}/\U0001f40d.txt": b""}),
    "data": Odd(
        members={
            "{p}-1.0.data/scripts/{p}-run": b"#!python\nprint()\n",
            "{p}-1.0.data/scripts/{p}-gui": b"#!pythonw\nprint()\n",
            "{p}-1.0.data/scripts/{p}-perl": b"#!/usr/bin/perl\n",
            "{p}-1.0.data/purelib/{p}/pure.py": BODY,
            "{p}-1.0.data/platlib/{p}/plat.py": BODY,
            "{p}-1.0.data/data/share/{p}/data.txt": b"x",
            "{p}-1.0.data/headers/{p}.h": b"int x;\n",
        },
    ),
    "generated": Odd(
        members={
            MODULE: BODY,
            "{p}-1.0.dist-info/entry_points.txt": b"[console_scripts]\n{p}-a={p}.m:f\n{p}-b = {p}.m:C.f [extra]\n"
            b"[gui_scripts]\n{p}-c = {p}.m:f\n[other]\nx = y\n",
        },
    ),
    "entry_points_of_others": Odd(
        members={MODULE: BODY, "{p}-1.0.dist-info/entry_points.txt": b"[other]\nx = y.z\n"}, uv=False
    ),
    "namespace": Odd(members={"odd_shared/{p}/m.py": BODY, "{p}-nspkg.pth": b"# nothing\n"}),
    "shared": Odd(members={"odd_owners/__init__.py": b"", "odd_owners/{p}.py": BODY}),
    "shared_too": Odd(members={"odd_owners/__init__.py": b"\n", "odd_owners/{p}.py": BODY}),
    "bytecode": Odd(members={MODULE: BODY, "{p}/__pycache__/m.cpython-38.pyc": b"old"}),
}


def package(name: str) -> str:
    """The name of an oddity's distribution and package."""
    return f"odd_{name}"


def named(name: str, text: str) -> str:
    """With the package's name put in."""
    return text.replace("{p}", package(name))


def build(folder: pathlib.Path, name: str) -> pathlib.Path:
    """The wheel of an oddity."""
    odd, own = ODDITIES[name], package(name)
    info = f"{own}-1.0.dist-info"
    members = {named(name, path): data.replace(b"{p}", own.encode()) for path, data in odd.members.items()}
    rest = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {own}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": MEMBERS[f"{INFO}/WHEEL"],
    }
    listed = {**members, **rest} if odd.rows is None else rest
    text = record_text(listed, odd.line_end)
    if odd.rows is not None:
        text += named(name, str(odd.rows))
    if f"{info}/RECORD," not in text:
        text += f"{info}/RECORD,,{odd.line_end}"
    return build_wheel(folder, {**members, **rest}, text, info)


class OddTemplates:
    """The wheels, and an environment that holds them all for each installer."""

    def __init__(self) -> None:
        files = (pathlib.Path(__file__), pathlib.Path(__file__).with_name("record_support.py"))
        self._kept = Kept(*(file.read_text(encoding="utf-8") for file in files))
        self.wheels = self._kept.get("wheels", lambda folder: [build(folder, name) for name in ODDITIES])

    def wheel(self, name: str) -> pathlib.Path:
        return self.wheels / f"{package(name)}-1.0-py3-none-any.whl"

    def env(self, installer: str) -> Env:
        """Shared by all tests: copy it before a change."""
        names = [name for name, odd in ODDITIES.items() if odd.uv or installer == "pip"]
        wheels = [self.wheel(name) for name in names]
        return Env(self._kept.get(installer, lambda folder: make_environment(folder, installer, *wheels)))
