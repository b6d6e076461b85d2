# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a switchover changes on the host between stop and start. Everything is decided before the stop."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils import debug_artifacts, model_config
from ansible_collections.pristine.vllm.plugins.module_utils.adoption import adopt, plan_adoption
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import discard
from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write, fsync_directory, read_file
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine
from ansible_collections.pristine.vllm.plugins.module_utils.record.change import Plan as RestorePlan
from ansible_collections.pristine.vllm.plugins.module_utils.record.options import scan_options
from ansible_collections.pristine.vllm.plugins.module_utils.release import Layout
from ansible_collections.pristine.vllm.plugins.module_utils.release_switch import plan_switch, switch
from ansible_collections.pristine.vllm.plugins.module_utils.switchover import restoring, snapshot
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import Journal
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import Config, File, Order
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.places import unit_file, wants_link
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.snapshot import Saved

_UNIT_LIMIT = 1024 * 1024
#: In a release's own folder: the unit with which it served, for a later way back to it.
SERVED_UNIT = "unit.service"
_ROOT = (0, 0)


class ChangeError(Exception):
    """A change cannot be made. The text says what, where, why and what to do next."""


@dataclass
class Changes:
    """The changes of one order, decided: contents of files by path (None: no file), with their modes; the plans."""

    files: dict[str, tuple[Optional[bytes], int]] = field(default_factory=dict)
    configs: list[model_config.ConfigPlan] = field(default_factory=list)
    restore: Optional[RestorePlan] = None


def paths_of(order: Order) -> list[str]:
    """Every path that the order changes, links included: what must be kept for the way back."""
    links = [os.path.join(order.root, name) for name in ("current", "previous")] if order.release else []
    # Enabling the unit makes one more.
    links += [wants_link(order.unit)] if order.restart else []
    return links + [entry.path for entry in order.files] + [entry.path for entry in order.configs]


def keep(order: Order, decided: Changes) -> list[Saved]:
    """Keep all that the order changes, for the way back.

    :raises OSError: something cannot be kept.
    """
    saved = snapshot.take(paths_of(order), Quarantine(order.quarantine))
    return saved if decided.restore is None else saved + restoring.keep(decided.restore, order.quarantine)


def decide(order: Order, held: contextlib.ExitStack) -> Changes:
    """Read what is there and decide; changes nothing.

    :param held: holds what has to stay open until the changes are made.
    :raises ChangeError: a source or configuration cannot be read, or a file not be written where it belongs.
    :raises ReleaseError: there is no such release.
    :raises RestoreError, RestoringError: a byte that is needed is not to be had, or it would not end pristine.
    :raises ScanError: what is to be restored or verified means nothing.
    """
    changes = Changes()
    if order.release:
        plan_switch(Layout(order.root), order.release, None)
        if order.adopt:
            plan_adoption(Layout(order.root), order.adopt)
    for entry in order.files:
        changes.files[entry.path] = (_content(entry), entry.mode)
    if order.verify:
        scan_options(order.verify)
    for config in order.configs:
        plan = config_plan(config)
        if plan is not None:
            changes.configs.append(plan)
    if order.restore is not None:
        changes.restore = held.enter_context(restoring.planned(order.restore, order.quarantine))
    return changes


def _content(entry: File) -> Optional[bytes]:
    """
    :raises ChangeError: it cannot be read, or there is no place for it.
    """
    content = entry.content.encode() if entry.content is not None else None
    if entry.source is not None:
        try:
            content = read_file(entry.source, _UNIT_LIMIT + 1)
        except OSError as error:
            raise ChangeError(f"{entry.source} cannot be read: {error.strerror}. Nothing was stopped.") from error
        if len(content) > _UNIT_LIMIT:
            raise ChangeError(f"{entry.source} has more than {_UNIT_LIMIT} bytes: it is no unit. Nothing was stopped.")
    directory = os.path.dirname(entry.path)
    if content is not None and not os.access(directory, os.W_OK):
        why = "cannot be written" if os.path.isdir(directory) else "is no directory"
        raise ChangeError(f"{entry.path} has no place: {directory} {why}. Nothing was stopped. Make it, and run again.")
    return content


def config_plan(config: Config) -> Optional[model_config.ConfigPlan]:
    """What a configuration's edits come to; None where there is no such file.

    :raises ModelConfigError: it cannot be read or edited.
    """
    edits = [
        model_config.Edit(
            tuple(edit["path"]), edit.get("state") == "present", edit.get("value"), edit.get("reason", "")
        )
        for edit in config.edits
    ]
    return model_config.plan(config.path, edits)


def apply(order: Order, changes: Changes, journal: Journal) -> bool:
    """Make the changes; whether systemd has to read its units again.

    :raises OSError, ReleaseError, ModelConfigError, ScanError: one could not be made; the way back undoes those before
        it.
    """
    quarantine = Quarantine(order.quarantine)
    if changes.restore is not None:
        restoring.apply(changes.restore, order.quarantine, journal)
    if order.release:
        _adopt(order, journal)
        _keep_served_unit(order)
    for path in order.wipe:
        _put_aside(path)
    for plan in changes.configs:
        _edit(plan, quarantine, journal)
    reload = _write_files(changes)
    if order.release:
        switch(Layout(order.root), order.release, None)
    return reload


def adapt(order: Order, journal: Journal) -> None:
    """Have the configurations edited, whatever they hold now: what served before needs it as well.

    :raises ModelConfigError: one cannot be.
    """
    for config in order.configs:
        plan = config_plan(config)
        if plan is not None:
            _edit(plan, Quarantine(order.quarantine), journal)


def _edit(plan: model_config.ConfigPlan, quarantine: Quarantine, journal: Journal) -> None:
    if plan.changes:
        kept = model_config.apply(plan, quarantine)
        removed = [".".join(outcome.path) for outcome in plan.outcomes if outcome.outcome != "unchanged"]
        journal.config.append({"path": plan.path, "changed": removed, **dataclasses.asdict(kept)})


def clear(order: Order, journal: Journal) -> None:
    """Move debug artifacts to the quarantine: while the model loads.

    What cannot be moved stays and is told: a stray file is no reason to go back.
    """
    quarantine = Quarantine(order.quarantine)
    wanted = order.artifacts
    if wanted.globs or wanted.suggested_globs:
        moved: tuple[debug_artifacts.Artifact, ...] = ()
        try:
            found = debug_artifacts.plan(wanted.globs, wanted.suggested_globs, [*wanted.protect, quarantine.directory])
            journal.cautions += [f"{entry.path} is left: {entry.reason}" for entry in found.left]
            moved = debug_artifacts.apply(found, quarantine)
        except debug_artifacts.MoveError as error:
            moved = error.moved
            journal.cautions.append(str(error))
        journal.artifacts = [dataclasses.asdict(entry) for entry in moved]


def discard_wiped(order: Order, journal: Journal) -> None:
    """Remove what was put aside: when there is no way back to it any more, and before there is one."""
    for path in order.wipe:
        for place in (_aside(path), _discarded(path)):
            try:
                discard(place)
            except OSError as error:
                journal.cautions.append(f"{place} cannot be removed: {error.strerror}. Remove it by hand.")


def put_back_wiped(order: Order, journal: Journal) -> None:
    """Put back what was put aside: what served before would have to compile it again."""
    for path in order.wipe:
        try:
            if os.path.lexists(_aside(path)):
                discard(_discarded(path))
                with contextlib.suppress(FileNotFoundError):
                    os.rename(path, _discarded(path))
                os.rename(_aside(path), path)
        except OSError as error:
            journal.cautions.append(f"{path} is not what it was: {error.strerror}. It is in {_aside(path)}.")


def _adopt(order: Order, journal: Journal) -> None:
    """Make an environment of others the way back, where one is to be; only now, for nothing may run from it."""
    if order.adopt:
        layout = Layout(order.root)
        note = adopt(layout, plan_adoption(layout, order.adopt), {"run_id": order.run_id}).note
        if note:
            journal.cautions.append(note)


def _keep_served_unit(order: Order) -> None:
    """Keep the unit with the release that served until now: a way back that is taken later needs it."""
    place, path = Layout(order.root).link("current"), unit_file(order.unit)
    # Either may be gone: then there is no way back to it anyhow.
    if place and place.id != order.release and os.path.isdir(place.path) and os.path.isfile(path):
        text = read_file(os.path.realpath(path), _UNIT_LIMIT)
        # For root alone: a unit written by hand may hold a key on its command line.
        atomic_write(os.path.join(place.path, SERVED_UNIT), text, mode=0o600, owner=_ROOT)


def _write_files(changes: Changes) -> bool:
    written = False
    for path, (content, mode) in changes.files.items():
        if content is None:
            if os.path.lexists(path):
                os.unlink(path)
                fsync_directory(os.path.dirname(path))
                written = True
        elif not _holds(path, content, mode):
            atomic_write(path, content, mode=mode, owner=_ROOT)
            written = True
    return written


def _holds(path: str, content: bytes, mode: int) -> bool:
    try:
        info = os.lstat(path)
        return (info.st_mode & 0o7777, info.st_uid, info.st_gid) == (mode, *_ROOT) and read_file(path) == content
    except OSError:
        return False


def _aside(path: str) -> str:
    return f"{os.path.normpath(path)}.removed"


def _discarded(path: str) -> str:
    return f"{os.path.normpath(path)}.discarded"


def _put_aside(path: str) -> None:
    """A rename; removing gigabytes of compiled kernels would cost downtime, and they may be wanted again."""
    discard(_aside(path))
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, _aside(path))
