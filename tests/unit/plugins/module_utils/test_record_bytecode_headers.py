# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytecode that Python runs although it is not its source's, made by Python itself and by who wants to deceive."""

from __future__ import annotations

import importlib.util
import marshal
import os
import pathlib
import py_compile
import shutil
import subprocess
import sys

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record.bytecode import cached_of, magic_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError
from ansible_collections.pristine.vllm.plugins.module_utils.record.siphash import siphash
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import Env
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import PYTHON

SOURCE = b"def answer():\n    return 42\n"
FORGED = b"def answer():\n    return 41\n"
TAG = sys.implementation.cache_tag
CACHED = f"m/__pycache__/x.{TAG}.pyc"
UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
CHECKED = py_compile.PycInvalidationMode.CHECKED_HASH
TIMESTAMP = py_compile.PycInvalidationMode.TIMESTAMP


@pytest.fixture
def own(tmp_path: pathlib.Path) -> Env:
    """An environment of the Python that runs the tests, with one module."""
    root = tmp_path / "env"
    (root / f"lib/python3.{sys.version_info.minor}/site-packages").mkdir(parents=True)
    (root / "bin").mkdir()
    (root / "pyvenv.cfg").write_text(f"home = {os.path.dirname(PYTHON)}\nversion = {sys.version.split()[0]}\n")
    env = Env(root)
    env.install("m", {"m/x.py": SOURCE})
    return env


def compiled(
    env: Env, mode: py_compile.PycInvalidationMode = TIMESTAMP, source: bytes = SOURCE, level: int = 0
) -> pathlib.Path:
    """Bytecode of some source in place of that of m/x.py, with a header that Python accepts (for a timestamp)."""
    real = env.site / "m/x.py"
    other = env.root.parent / "x.py"
    other.write_bytes(source)
    info = real.stat()
    os.utime(other, ns=(info.st_atime_ns, info.st_mtime_ns))
    opt = f".opt-{level}" if level else ""
    target = env.site / f"m/__pycache__/x.{TAG}{opt}.pyc"
    py_compile.compile(
        str(other), cfile=str(target), dfile=str(real), doraise=True, optimize=level, invalidation_mode=mode
    )
    return target


def runs(env: Env) -> int:
    """What the module answers when Python itself imports it."""
    code = f"import sys; sys.path.insert(0, {str(env.site)!r}); import m.x; print(m.x.answer())"
    done = subprocess.run([PYTHON, "-B", "-I", "-c", code], check=True, capture_output=True, text=True)
    return int(done.stdout)


@pytest.mark.parametrize("mode", [TIMESTAMP, CHECKED, UNCHECKED])
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("recompile", [False, True])
def test_bytecode_of_its_source(own: Env, mode: py_compile.PycInvalidationMode, level: int, recompile: bool) -> None:
    compiled(own, mode, level=level)
    assert own.found(recompile=recompile) == {}


def test_unchecked_bytecode_of_another_source_is_found_by_its_header(own: Env) -> None:
    compiled(own, UNCHECKED, FORGED)
    assert runs(own) == 41
    finding = own.one()
    assert (finding.path, finding.status, finding.distribution) == (CACHED, "bytecode", "m")
    assert "PEP 552" in finding.detail
    assert finding.counts
    assert own.found(files=["m/x.py"]) == own.found(distributions=["m"]) == {CACHED: "bytecode"}


def test_bytecode_of_a_module_at_the_top(own: Env) -> None:
    own.install("six", {"six.py": SOURCE})
    forged = own.root.parent / "six.py"
    forged.write_bytes(FORGED)
    cached = f"__pycache__/six.{TAG}.pyc"
    py_compile.compile(str(forged), cfile=str(own.site / cached), doraise=True, invalidation_mode=UNCHECKED)
    for options in ({}, {"distributions": ["six"]}, {"files": ["six.py"]}):
        assert own.found(**options) == {cached: "bytecode"}
    assert own.found(distributions=["m"]) == {}


def test_bytecode_behind_a_link_out_of_the_environment_is_not_opened(own: Env, tmp_path: pathlib.Path) -> None:
    compiled(own, UNCHECKED, FORGED)
    shutil.move(own.site / "m", tmp_path / "m")
    (own.site / "m").symlink_to(tmp_path / "m")
    assert set(own.found(files=["m/x.py"]).values()) == {"redirected"}
    (own.site / "m").unlink()
    (own.site / "m").mkdir()
    shutil.copy(tmp_path / "m/x.py", own.site / "m/x.py")
    (own.site / "m/__pycache__").symlink_to(tmp_path / "m/__pycache__")
    assert own.found(files=["m/x.py"]) == own.found() == {"m/__pycache__": "redirected"}


@pytest.mark.parametrize("mode", [TIMESTAMP, CHECKED, UNCHECKED])
def test_forged_bytecode_behind_a_right_header_takes_a_recompilation(
    own: Env, mode: py_compile.PycInvalidationMode
) -> None:
    path = compiled(own, mode, FORGED)
    right = compiled(own, mode).read_bytes()
    path.write_bytes(right[:16] + compiled(own, TIMESTAMP, FORGED).read_bytes()[16:])
    assert runs(own) == 41
    assert own.found() == {}
    finding = own.one(recompile=True)
    assert (finding.path, finding.status) == (CACHED, "bytecode")
    assert finding.detail == "its header is its source's, but it does not do what its source does: answer"
    assert own.found(recompile=True, files=["m/x.py"]) == {CACHED: "bytecode"}


@pytest.mark.parametrize("mode", [TIMESTAMP, CHECKED])
@pytest.mark.parametrize("recompile", [False, True])
def test_stale_bytecode_that_python_ignores(own: Env, mode: py_compile.PycInvalidationMode, recompile: bool) -> None:
    path = compiled(own, mode, FORGED)
    os.utime(own.site / "m/x.py", (1, 1))
    assert runs(own) == 42
    assert own.found(recompile=recompile) == {}
    header = path.read_bytes()[:16]
    for broken in (b"", header[:12], header, b"\x00" * 16, header[:4] + b"\x04" + header[5:], os.urandom(64)):
        path.write_bytes(broken)
        assert own.found(recompile=recompile) == {}


def test_bytecode_for_another_python_is_ignored(own: Env) -> None:
    path = compiled(own, UNCHECKED, FORGED)
    path.rename(path.with_name("x.cpython-37.pyc"))
    assert runs(own) == 42
    assert own.found() == {}
    path.write_bytes((3394).to_bytes(2, "little") + b"\r\n" + path.with_name("x.cpython-37.pyc").read_bytes()[4:])
    assert runs(own) == 42
    assert own.found() == {}


def test_bytecode_whose_source_is_gone_is_ignored(own: Env) -> None:
    compiled(own, UNCHECKED, FORGED)
    (own.site / "m/x.py").unlink()
    assert own.found(recompile=True) == {"m/x.py": "missing"}


def test_moved_bytecode_names_another_file_and_is_the_same(own: Env) -> None:
    path = compiled(own)
    py_compile.compile(str(own.site / "m/x.py"), cfile=str(path), dfile="/elsewhere/x.py", doraise=True)
    assert own.found(recompile=True) == {}


def test_written_by_an_import(own: Env) -> None:
    """The import system's bytecode differs from the compiler's in bytes where objects are shared."""
    source = b"X = ('a', 1, 1.0, -0.0, 1j, b'', None, ..., frozenset((1, 2)))\ndef f(a=X, *, b: 'int' = 2):\n"
    source += b"    'doc'\n    return a in {1, 'x', 2.0, (3, 4)}, [i for i in a if i not in (0, -0.0)], lambda: b\n"
    own.install("m", {"m/x.py": source})
    code = f"import sys; sys.path.insert(0, {str(own.site)!r}); import m.x"
    subprocess.run([PYTHON, "-I", "-c", code], check=True)
    assert len(cached_of(str(own.site / "m/x.py"))) == 1
    assert own.found(recompile=True) == {}


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "cannot be loaded"),
        (b"\xff" * 40, "cannot be loaded"),
        (marshal.dumps("text"), "holds a str"),
        (marshal.dumps(compile("x = 1.0", "x", "exec")), "<module>"),
    ],
)
def test_what_is_no_code_of_its_source(own: Env, payload: bytes, said: str) -> None:
    path = compiled(own)
    path.write_bytes(path.read_bytes()[:16] + payload)
    assert said in own.one(recompile=True).detail


def test_bytecode_that_kills_the_interpreter_is_one_finding_and_the_rest_goes_on(own: Env) -> None:
    own.install("m", {"m/x.py": SOURCE, "m/y.py": SOURCE})
    path = compiled(own)
    own.install("other", {"m/deep.py": b"x = " + b"-" * 100_000 + b"1\n"})
    py_compile.compile(str(own.site / "m/y.py"), doraise=True)
    good = (own.site / f"m/__pycache__/y.{TAG}.pyc").read_bytes()
    info = (own.site / "m/deep.py").stat()
    stamp = int(info.st_mtime).to_bytes(4, "little") + info.st_size.to_bytes(4, "little")
    (own.site / f"m/__pycache__/deep.{TAG}.pyc").write_bytes(good[:8] + stamp + good[16:])
    path.write_bytes(path.read_bytes()[:16] + compiled(own, TIMESTAMP, FORGED).read_bytes()[16:])
    found = own.found(recompile=True, workers=1)
    assert found.pop(f"m/__pycache__/deep.{TAG}.pyc") in ("bytecode", "unverifiable")
    assert found == {CACHED: "bytecode"}


def test_nothing_of_the_environment_runs_for_a_recompilation(own: Env, tmp_path: pathlib.Path) -> None:
    compiled(own)
    mark = tmp_path / "ran"
    run = f"open({str(mark)!r}, 'w')\n".encode()
    (own.site / "evil.pth").write_bytes(b"import os; " + run)
    for name in ("sitecustomize.py", "usercustomize.py", "json.py", "marshal.py", "types.py"):
        (own.site / name).write_bytes(run)
        (own.root / "bin" / name).write_bytes(run)
    own.scan(recompile=True)
    assert not mark.exists()


def test_a_python_in_the_environment_or_from_others_is_not_run(own: Env) -> None:
    compiled(own)
    shutil.copy("/bin/true", own.root / "bin/python3")
    (own.root / "pyvenv.cfg").write_text(f"home = {own.root}/bin\nversion = {sys.version.split()[0]}\n")
    with pytest.raises(ScanError, match="is in the environment itself"):
        own.scan(recompile=True)
    theirs = own.root.parent / "theirs"
    theirs.mkdir()
    shutil.copy("/bin/true", theirs / "python3")
    (own.root / "pyvenv.cfg").write_text(f"home = {theirs}\nversion = {sys.version.split()[0]}\n")
    with pytest.raises(ScanError, match=r"is not the CPython 3\.\d+ that the environment needs"):
        own.scan(recompile=True)
    (theirs / "python3").chmod(0o777)
    with pytest.raises(ScanError, match="others may write to"):
        own.scan(recompile=True)
    (own.root / "pyvenv.cfg").unlink()
    with pytest.raises(ScanError, match="names no home"):
        own.scan(recompile=True)


@pytest.mark.parametrize("beside", [True, False])
def test_bytecode_where_a_source_could_be(own: Env, beside: bool) -> None:
    stem = "x" if beside else "y"
    shutil.move(compiled(own, source=FORGED), own.site / f"m/{stem}.pyc")
    finding = own.one()
    assert (finding.path, finding.status) == (f"m/{stem}.pyc", "bytecode")
    assert ("beside its source" if beside else "without a source") in finding.detail


def test_links_and_what_is_no_file(own: Env, tmp_path: pathlib.Path) -> None:
    path = compiled(own)
    shutil.move(path, tmp_path / "outside.pyc")
    path.symlink_to(tmp_path / "outside.pyc")
    assert own.found() == {CACHED: "redirected"}
    path.unlink()
    shutil.copy(tmp_path / "outside.pyc", own.site / "m/data")
    path.symlink_to("../data")
    assert own.found() == {CACHED: "bytecode"}
    path.unlink()
    os.mkfifo(path)
    assert own.found(recompile=True) == {}
    path.unlink()
    path.mkdir()
    assert own.found(recompile=True) == {}


def test_what_pip_and_compileall_made(env: Env) -> None:
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-o", "0", "-o", "1", str(env.site)], check=True)
    assert env.found(recompile=True) == {}


def test_siphash_and_magic_of_this_python() -> None:
    magic = magic_of(sys.version_info[:2])
    assert magic == importlib.util.MAGIC_NUMBER
    rounds = (1, 3) if sys.version_info >= (3, 11) else (2, 4)
    for source in (b"", b"x", b"12345678", bytes(range(256)) * 9 + b"123"):
        own_hash = siphash(int.from_bytes(magic, "little"), source, *rounds).to_bytes(8, "little")
        assert own_hash == importlib.util.source_hash(source)
    # https://www.aumasson.jp/siphash/siphash.pdf, with a key of 0.
    assert siphash(0, b"", 2, 4) == 0x1E924B9D737700D7
