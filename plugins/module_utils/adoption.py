# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make an environment that others made the first release, without building it again, and undo that.

The directory moves into ``<root>/releases`` and a symlink to ``<root>/current`` takes its place, so that scripts, units
and people that name the old path mean what is live. The two are exchanged in one step, and at each step before and
after it every name leads to the environment: whoever is killed leaves a host that serves, and the next call goes on or
takes back. The steps, with E for the environment and R for ``releases/<id>``:

1. ``E/release.json``; ``current -> E`` where there was none; the symlink ``R -> R``, which nobody goes through
2. the exchange: ``E -> R`` is the symlink now, and R the directory
3. ``current -> R``, then ``E -> current``
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.adoption_access import access_notes
from ansible_collections.pristine.vllm.plugins.module_utils.adoption_plan import (
    LINK,
    MOVE,
    AdoptionPlan,
    adopted_release,
    checked,
    leads_to,
    leftovers,
    link_text,
    mark_of,
    plan_adoption,
    stay,
)
from ansible_collections.pristine.vllm.plugins.module_utils.exchange import IMPOSSIBLE, exchange
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import exclusive, sweep
from ansible_collections.pristine.vllm.plugins.module_utils.files import fsync_directory
from ansible_collections.pristine.vllm.plugins.module_utils.process import readable_files
from ansible_collections.pristine.vllm.plugins.module_utils.release import (
    MARK,
    TEMPORARY,
    Layout,
    Place,
    ReleaseError,
    read_mark,
)
from ansible_collections.pristine.vllm.plugins.module_utils.release_switch import write_link

__all__ = ["Adopted", "AdoptionPlan", "adopt", "expected", "leftovers", "plan_adoption", "plan_undo", "undo_adoption"]


@dataclass(frozen=True)
class Adopted:
    """What was done, or would be: ``place`` is where the environment is, ``note`` what the operator should know."""

    plan: AdoptionPlan
    place: Place
    note: str


def expected(layout: Layout, plan: AdoptionPlan, metadata: dict[str, Any]) -> Adopted:
    """What `adopt` would return."""
    notes = [f"{plan.environment} stays where it is: {plan.why}"] if plan.why else []
    place = layout.release(plan.release) if plan.release else Place(None, plan.environment, None)
    if plan.action == MOVE:
        # As it comes back from the file.
        place = Place(place.id, place.path, json.loads(json.dumps(mark_of(plan, metadata))))
    if plan.release:
        notes += access_notes(plan.environment if plan.action == MOVE else place.path, plan.environment)
    return Adopted(plan, place, ". ".join([*notes, ""]).strip())


def adopt(layout: Layout, plan: AdoptionPlan, metadata: dict[str, Any]) -> Adopted:
    """Make the environment of a plan a release, or where it cannot be moved, let ``current`` lead to it.

    Nothing of the environment is changed but that ``release.json`` is added. The plan is made anew under the lock.

    :param metadata: what ``release.json`` is to say besides, such as ``run_id``. No part of a pin: nobody knows it.
    :raises ReleaseError: refused, nothing was changed.
    :raises BusyError: another run is switching.
    """
    path = checked(plan.environment)
    with readable_files():
        os.makedirs(layout.releases_dir, exist_ok=True)
        with exclusive(layout.root):
            sweep(layout.root, TEMPORARY)
            if plan_adoption(layout, path).action == MOVE:
                _take_back(layout, path)
            done = expected(layout, plan_adoption(layout, path), metadata)
            if done.plan.action == MOVE:
                done = _move_or_stay(layout, done, metadata)
            if done.plan.action == LINK:
                write_link(layout.root, "current", None, path)
            elif done.plan.release:
                _finish(layout, path, done.place)
    return done


def plan_undo(layout: Layout, environment: str) -> Optional[Place]:
    """The release that would become the environment again, None when none was made of it.

    :raises ReleaseError: it is not the live one.
    """
    path = checked(environment)
    place = adopted_release(layout, path)
    linked = layout.link("current")
    if place and linked and linked.path not in (place.path, path):
        raise ReleaseError(
            f"{environment} is not put back: {layout.root}/current leads to {linked.path} and not to {place.path}. "
            f"Nothing was changed. Switch to {place.id} first."
        )
    return place


def undo_adoption(layout: Layout, environment: str) -> bool:
    """Put an adopted environment back where it was, with the links as they were; return whether anything was changed.

    What only a link leads to stays so: that was not moved. A service may run meanwhile, but one that looks a file up in
    the very moment of the exchange can miss it: it has read the link and the directory is gone from where that leads.
    Who cannot have that stops the service first, as the switchover does.

    :raises ReleaseError: it is not the live release, or cannot be exchanged any more; it serves as before.
    :raises BusyError: another run is switching.
    """
    path = checked(environment)
    if not os.path.isdir(layout.root):
        return False
    with readable_files(), exclusive(layout.root):
        sweep(layout.root, TEMPORARY)
        place = plan_undo(layout, path)
        if place is None:
            return _take_back(layout, path)
        # The steps of the adoption, the last one first.
        _retarget(layout, path, place.path)
        if leads_to(layout, "previous", place.path):
            write_link(layout.root, "previous", layout.link_text("previous"), None)
        write_link(layout.root, "current", layout.link_text("current"), path)
        try:
            exchange(path, place.path)
        except OSError as error:
            _finish(layout, path, place)
            raise ReleaseError(
                f"{environment} cannot be put back: {error}. It serves from {place.path}, through the link. "
                "Correct the cause and run again."
            ) from error
        _sync(layout, path)
        _take_back(layout, path)
    return True


def _move_or_stay(layout: Layout, wanted: Adopted, metadata: dict[str, Any]) -> Adopted:
    try:
        _move(layout, wanted.plan, wanted.place)
    except OSError as error:
        path = wanted.plan.environment
        sweep(layout.root, TEMPORARY)
        _take_back(layout, path)
        if error.errno not in IMPOSSIBLE:
            raise
        hint = "; it is on a mount of its own, or in a lower layer of an overlay" if error.errno == errno.EXDEV else ""
        why = f"the system cannot exchange it for a link ({errno.errorcode[error.errno]}: {error.strerror}{hint})"
        return expected(layout, stay(layout, path, why), metadata)
    return wanted


def _move(layout: Layout, plan: AdoptionPlan, place: Place) -> None:
    # In the root until it is whole: what a killed run leaves there is swept.
    temporary = _temporary(layout)
    with open(temporary, "x", encoding="utf-8") as stream:
        stream.write(json.dumps(place.metadata, indent=2, sort_keys=True) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, os.path.join(plan.environment, MARK))
    fsync_directory(plan.environment)
    if plan.current_before is None:
        write_link(layout.root, "current", None, plan.environment)
    os.symlink(place.path, place.path)
    fsync_directory(layout.releases_dir)
    exchange(plan.environment, place.path)


def _finish(layout: Layout, path: str, place: Place) -> None:
    """Bring an environment that was exchanged to where all links are as they are to stay."""
    _sync(layout, path)
    if layout.link_text("current") is None or leads_to(layout, "current", path):
        write_link(layout.root, "current", layout.link_text("current"), f"releases/{place.id}")
    if leads_to(layout, "previous", path):
        write_link(layout.root, "previous", layout.link_text("previous"), f"releases/{place.id}")
    _retarget(layout, path, os.path.join(layout.root, "current"))


def _retarget(layout: Layout, path: str, text: str) -> None:
    """Let the link in an environment's place say something else."""
    if link_text(path) != text:
        temporary = _temporary(layout)
        os.symlink(text, temporary)
        os.replace(temporary, path)
        fsync_directory(os.path.dirname(path))


def _sync(layout: Layout, path: str) -> None:
    """Let an exchange last before anything is built on it."""
    fsync_directory(os.path.dirname(path))
    fsync_directory(layout.releases_dir)


def _temporary(layout: Layout) -> str:
    return os.path.join(layout.root, f"{TEMPORARY}adoption-{os.getpid()}")


def _take_back(layout: Layout, path: str) -> bool:
    """Remove what was prepared for an environment that is in its place: of a killed run, or the end of undoing."""
    found = leftovers(layout, path)
    for left in found:
        if os.path.basename(left) == MARK and leads_to(layout, "current", path):
            before = (read_mark(path) or {}).get("current_before")
            write_link(layout.root, "current", layout.link_text("current"), before or None)
        # The mark, which says what there was before, is the last of them.
        os.unlink(left)
        fsync_directory(os.path.dirname(left))
    return bool(found)
