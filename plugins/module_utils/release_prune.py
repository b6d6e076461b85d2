# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove releases, never one that is live, is the way back, or is being run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import discard, exclusive, sweep
from ansible_collections.pristine.vllm.plugins.module_utils.files import fsync_directory
from ansible_collections.pristine.vllm.plugins.module_utils.release import (
    MARK,
    REMOVED,
    TEMPORARY,
    Layout,
    Place,
    ReleaseError,
)


def plan_absent(layout: Layout, release_id: str) -> list[Place]:
    """The release to remove, or nothing when it is not there.

    :raises ReleaseError: it is in use.
    """
    place = layout.release(release_id)
    if not os.path.lexists(place.path):
        return []
    refuse_if_used(layout, place)
    return [place]


def plan_pruned(layout: Layout, keep: int) -> list[Place]:
    """The releases to remove: all but the ``keep`` newest finished ones, the live, the previous and running ones."""
    places = layout.releases()
    finished = [place for place in places if place.metadata is not None]
    newest = {place.id for place in finished[max(len(finished) - keep, 0) :]}
    candidates = [place for place in places if place.id not in newest and not layout.live(place)]
    return [place for place in candidates if not processes_of(place)]


def plan_unfinished(layout: Layout, but: Optional[str]) -> list[Place]:
    """What killed builds left of releases: nobody takes it up, and its room is wanted. Never what is in use.

    :param but: the id that is going to be built, which is made room for in any case.
    """
    # One whose mark is there and cannot be read was whole once, and may have been adopted.
    places = [place for place in layout.releases() if not os.path.lexists(os.path.join(place.path, MARK))]
    return [place for place in places if place.id != but and not layout.live(place) and not processes_of(place)]


def remove(layout: Layout, release_id: str = "", keep: int = 0) -> list[Place]:
    """Remove one release (``release_id``) or prune (without it); return what was removed.

    :raises ReleaseError: it is in use; nothing was removed.
    :raises BusyError: another run is building or switching.
    """
    if not os.path.isdir(layout.releases_dir):
        return []
    with exclusive(layout.releases_dir), exclusive(layout.root):
        sweep(layout.releases_dir, TEMPORARY, REMOVED)
        places = plan_absent(layout, release_id) if release_id else plan_pruned(layout, keep)
        for place in places:
            remove_tree(layout, place)
    return places


def remove_tree(layout: Layout, place: Place) -> None:
    """Remove a release's directory: at once as far as its name goes, so that no half of it is ever taken for whole."""
    aside = os.path.join(layout.releases_dir, f"{REMOVED}{place.id}-{os.getpid()}")
    os.rename(place.path, aside)
    fsync_directory(layout.releases_dir)
    discard(aside)


def refuse_if_used(layout: Layout, place: Place) -> None:
    """
    :raises ReleaseError: the release is live, is the way back, or processes run from it.
    """
    link = layout.live(place)
    if link:
        why = f"{layout.root}/{link} leads to it"
        raise ReleaseError(
            f"release {place.id} is not removed: {why}. Nothing was changed. Switch to another release first, or build "
            "under another id."
        )
    pids = processes_of(place)
    if pids:
        shown = ", ".join(map(str, pids[:5]))
        raise ReleaseError(
            f"release {place.id} is not removed: processes {shown} run from {place.path}. Nothing was changed. "
            "Stop them, or wait until they end."
        )


def processes_of(place: Place) -> list[int]:
    """The pids of processes that run from a release.

    One that was started by the name that an adopted environment had may still be in it, or in what that name led to
    since. Nothing tells, so it counts.
    """
    former = (place.metadata or {}).get("adopted_from")
    return processes_in(place.path, *([former] if isinstance(former, str) else []))


def processes_in(path: str, *names: str) -> list[int]:
    """The pids of processes that were started from a directory, by any of its names, or map one of its files."""
    needle = os.fsencode(os.path.realpath(path) + os.sep)
    given = [os.fsencode(os.path.normpath(name) + os.sep) for name in (path, *names)]
    own = os.getpid()
    return [
        pid
        for pid in _pids()
        if pid != own and (_mentions(pid, "maps", needle) or any(_mentions(pid, "cmdline", name) for name in given))
    ]


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _mentions(pid: int, name: str, needle: bytes) -> bool:
    # A process that is gone, or that only root may look at, says nothing.
    with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as stream:
        return needle in stream.read()
    return False
