# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a switchover one by one: order, journal, snapshot, caches, the look at the service."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import subprocess
import sys
from typing import Any, Optional

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.main_process import command_words
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine
from ansible_collections.pristine.vllm.plugins.module_utils.switchover import changes, service
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import (
    Journal,
    JournalError,
    load_journal,
)
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import (
    Order,
    OrderError,
    load_order,
    order_of,
)
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.snapshot import Saved, restore, take
from ansible_collections.pristine.vllm.tests.unit.plugins.service_support import wait_until

DATA: dict[str, Any] = {
    "run_id": "20261130T020000Z",
    "root": "/opt/vllm",
    "unit": "vllm",
    "quarantine": "/opt/vllm/quarantine/x",
    "serving": {"url": "http://127.0.0.1:8000", "model": "kimi-k2.5", "api_key": "s3cret"},
    "drain": {"before": [["lb", "out"]], "gpu_command": ""},
    "files": [{"path": "/etc/x", "content": "é\n", "mode": 0o600}, {"path": "/etc/y"}],
    "configs": [{"path": "/m/config.json", "edits": [{"path": ["a", "b"], "state": "absent"}]}],
    "artifacts": {"globs": ["/tmp/x*"]},
    "wipe": ["/var/cache/x"],
    "verify": {"environment": "/opt/vllm/current"},
}


def test_an_order_comes_back_as_it_was(tmp_path: pathlib.Path) -> None:
    order = order_of(DATA)
    order.save(str(tmp_path))
    assert load_order(str(tmp_path)) == order
    assert (tmp_path / "order.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"root": "opt"}, "path 'opt' of the switchover is not absolute"),
        ({"wipe": ["cache"]}, "path 'cache'"),
        ({"adopt": "env"}, "path 'env'"),
        ({"files": [{"path": "x"}]}, "path 'x'"),
        ({"configs": [{"path": "x"}]}, "path 'x'"),
        ({"run_id": "../up"}, "run id '../up' is no name"),
        ({"run_id": ""}, "run id '' is no name"),
        ({"drain": {"before": [[]]}}, r"command \[\] of the drain"),
        ({"drain": {"after": [["x", 1]]}}, "command .* of the drain"),
        ({"files": [{"path": "/x", "content": "", "source": "/y"}]}, "file /x has both"),
    ],
)
def test_an_order_that_means_nothing(more: dict[str, Any], reason: str) -> None:
    with pytest.raises(OrderError, match=reason):
        order_of({**DATA, **more})


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"serving": 1}', json.dumps({**DATA, "what": 1})])
def test_a_damaged_order(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "order.json").write_text(text)
    with pytest.raises(OrderError, match=f"order.json is damaged .*Next: .*remove {tmp_path}"):
        load_order(str(tmp_path))


def test_a_journal_comes_back_as_it_was(tmp_path: pathlib.Path) -> None:
    assert load_journal(str(tmp_path)) is None
    journal = Journal("x")
    assert not journal.past("switch")
    journal.begin("switch")
    assert not journal.past("switch")
    journal.begin("verify")
    assert journal.past("switch")
    assert journal.phase == "verify"
    journal.save(str(tmp_path))
    assert load_journal(str(tmp_path)) == journal


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", "{}", '{"run_id": "x", "what": 1}', '{"run_id": "x", "phases": 1}'),
        *('{"run_id": "x", "phases": [{}]}', '{"run_id": "x", "before": []}', '{"run_id": "x", "saved": ["x"]}'),
    ],
)
def test_a_damaged_journal(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "journal.json").write_text(text)
    with pytest.raises(JournalError, match=f"journal.json is damaged .*Next: .*remove {tmp_path}"):
        load_journal(str(tmp_path))


def test_secrets_are_taken_out_of_a_journal() -> None:
    journal = Journal("x", failure="it said s3cret", completion="s3cret", cautions=["s3cret", "Bearer abc"])
    journal.hide(["s3cret"])
    text = repr(journal)
    assert "s3cret" not in text
    assert "abc" not in text


class Place:
    """A file, a link and a path with nothing, each kept."""

    def __init__(self, path: pathlib.Path) -> None:
        self.quarantine = Quarantine(str(path / "quarantine"))
        self.file, self.link, self.nothing = path / "file", path / "link", path / "nothing"
        self.file.write_bytes(b"before\n")
        self.file.chmod(0o640)
        self.link.symlink_to("elsewhere")
        self.saved = take([str(one) for one in (self.file, self.link, self.nothing)], self.quarantine)

    def assert_as_before(self) -> None:
        assert self.file.read_bytes() == b"before\n"
        assert not self.file.is_symlink()
        assert self.file.stat().st_mode & 0o7777 == 0o640
        assert os.readlink(self.link) == "elsewhere"
        assert not os.path.lexists(self.nothing)


@pytest.fixture
def place(tmp_path: pathlib.Path) -> Place:
    return Place(tmp_path)


def test_all_kinds_are_put_back(place: Place) -> None:
    place.file.write_bytes(b"after\n")
    place.link.unlink()
    place.link.write_text("a file now")
    place.nothing.write_text("something now")
    restore(place.saved)
    place.assert_as_before()
    times = os.lstat(place.file).st_ino, os.lstat(place.link).st_ino
    restore(place.saved)
    place.assert_as_before()
    assert times == (os.lstat(place.file).st_ino, os.lstat(place.link).st_ino), "what is as it was is left alone"


def test_all_is_gone(place: Place) -> None:
    place.file.unlink()
    place.link.unlink()
    restore(place.saved)
    place.assert_as_before()


def test_the_folder_is_gone_too(tmp_path: pathlib.Path) -> None:
    link = tmp_path / "wants" / "link"
    link.parent.mkdir()
    link.symlink_to("elsewhere")
    saved = take([str(link)], Quarantine(str(tmp_path / "quarantine")))
    link.unlink()
    link.parent.rmdir()
    restore(saved)
    assert os.readlink(link) == "elsewhere"


def test_a_file_became_a_link(place: Place, tmp_path: pathlib.Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("not ours")
    place.file.unlink()
    place.file.symlink_to(precious)
    place.nothing.symlink_to(precious)
    restore(place.saved)
    place.assert_as_before()
    assert precious.read_text() == "not ours"


def test_directories_are_moved_aside_and_kept(place: Place, tmp_path: pathlib.Path) -> None:
    for _again in range(2):
        for path in (place.file, place.link, place.nothing):
            if os.path.lexists(path):
                path.unlink()
            path.mkdir()
            (path / "inside").touch()
        restore(place.saved)
        place.assert_as_before()
    assert sorted(path.name for path in tmp_path.glob("*.displaced*") if (path / "inside").exists()) == [
        *("file.displaced", "file.displaced.1", "link.displaced"),
        *("link.displaced.1", "nothing.displaced", "nothing.displaced.1"),
    ]


def test_the_mode_is_the_files_own_though_the_quarantine_had_the_content_before(tmp_path: pathlib.Path) -> None:
    file, quarantine = tmp_path / "file", Quarantine(str(tmp_path / "quarantine"))
    file.write_text("same")
    file.chmod(0o600)
    quarantine.keep(str(file))
    file.chmod(0o644)
    saved = take([str(file)], quarantine)
    file.write_text("other")
    file.chmod(0o755)
    restore(saved)
    assert file.read_text() == "same"
    assert file.stat().st_mode & 0o7777 == 0o644


def test_owner_is_put_back(place: Place) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(place.file, 12, 34)
    place.saved = take([str(place.file)], place.quarantine)
    os.chown(place.file, 0, 0)
    restore(place.saved)
    assert (place.file.stat().st_uid, place.file.stat().st_gid) == (12, 34)


def test_one_that_cannot_be_put_back_keeps_no_other(place: Place) -> None:
    broken = Saved("/proc/version", target="elsewhere")
    place.file.write_bytes(b"after\n")
    place.nothing.touch()
    with pytest.raises(OSError, match="version"):
        restore([broken, *place.saved])
    place.assert_as_before()


def test_a_link_that_was_left_half_made(place: Place) -> None:
    place.link.unlink()
    (place.link.parent / ".pristine-link").symlink_to("of a process that was killed")
    restore(place.saved)
    place.assert_as_before()
    assert not os.path.lexists(place.link.parent / ".pristine-link")


def test_a_directory_is_nothing_to_keep(tmp_path: pathlib.Path) -> None:
    with pytest.raises(OSError, match="neither a regular file nor a symlink"):
        take([str(tmp_path)], Quarantine(str(tmp_path / "quarantine")))


def wiping(path: pathlib.Path) -> Order:
    return order_of({**DATA, "wipe": [str(path)], "files": [], "configs": [], "release": "", "root": str(path.parent)})


def test_a_cache_is_put_aside_and_back(tmp_path: pathlib.Path) -> None:
    cache, journal = tmp_path / "cache", Journal("x")
    order = wiping(cache)
    cache.mkdir()
    (cache / "old").touch()
    assert not changes.apply(order, changes.Changes(), journal)
    assert not cache.exists()
    cache.mkdir()
    (cache / "new").touch()
    changes.put_back_wiped(order, journal)
    changes.put_back_wiped(order, journal)
    assert [path.name for path in cache.iterdir()] == ["old"]
    changes.discard_wiped(order, journal)
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    assert not journal.cautions


def test_a_cache_that_is_not_there(tmp_path: pathlib.Path) -> None:
    order = wiping(tmp_path / "cache")
    changes.apply(order, changes.Changes(), Journal("x"))
    changes.put_back_wiped(order, Journal("x"))
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_cleaned_up_is_told(tmp_path: pathlib.Path) -> None:
    journal = Journal("x")
    order = order_of({**DATA, "artifacts": {"globs": [f"{tmp_path}/dump_tp*.pt"]}, "quarantine": f"{tmp_path}/file/q"})
    (tmp_path / "file").touch()
    (tmp_path / "dump_tp1.pt").write_text("tensor")
    changes.clear(order, journal)
    assert (tmp_path / "dump_tp1.pt").exists()
    assert f"dump_tp1.pt cannot be moved to {tmp_path}/file/q" in journal.cautions[0]


@pytest.mark.parametrize(
    ("words", "variable", "key"),
    [
        (["--api-key", "k1"], None, "k1"),
        (["--api-key=k1"], "k2", "k1"),
        (["--api_key", "k1"], None, "k1"),
        ([], "k2", "k2"),
        ([], None, "of the order"),
    ],
)
def test_the_key_of_a_running_server(words: list[str], variable: Optional[str], key: str) -> None:
    environment = {**os.environ, **({"VLLM_API_KEY": variable} if variable else {})}
    argv = [sys.executable, "-c", "input()", *words]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env=environment) as process:
        # For a moment a program that has just been started has no words.
        assert wait_until(lambda: bool(command_words(process.pid)))
        found = service.key_of(process.pid, "of the order")
        process.communicate(b"\n")
    assert found == key


def test_a_server_that_does_not_run_has_no_key() -> None:
    assert service.key_of(0, "of the order") == "of the order"


@pytest.mark.parametrize(
    ("before", "url"),
    [
        ({"port": 9000, "host": None}, "http://127.0.0.1:9000"),
        ({"port": 9000, "host": "0.0.0.0"}, "http://127.0.0.1:9000"),
        ({"port": 9000, "host": "::1"}, "http://[::1]:9000"),
        ({"port": 9000, "host": "10.0.0.7"}, "http://10.0.0.7:9000"),
        ({"port": None}, "http://127.0.0.1:8000"),
    ],
)
def test_where_it_served_before(before: dict[str, Any], url: str) -> None:
    serving = service.serving_before(order_of(DATA), {**before, "model": "old"}, "old key")
    assert (serving.url, serving.model, serving.api_key) == (url, "old", "old key")


def test_a_command_that_fails_tells_no_token() -> None:
    words = ["sh", "-c", "sleep 5", "Bearer", "t0ken"]
    with pytest.raises(service.ServiceError, match="the command afterwards, sh, failed") as caught:
        service.hooks([words], 0.1, "afterwards")
    assert "t0ken" not in str(caught.value)


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EXDEV])
def test_a_cache_that_cannot_be_renamed_is_emptied(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    cache = tmp_path / "cache"
    (cache / "kernels").mkdir(parents=True)
    (cache / "kernels" / "one").write_text("compiled")
    (cache / "two").symlink_to("kernels")

    def refuse(path: str, place: str) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "rename", refuse)
    changes.apply(wiping(cache), changes.Changes(), Journal("x"))
    assert list(cache.iterdir()) == []
