# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switch the ``current`` link, atomically and so that the way back is known at every moment."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import exclusive, sweep
from ansible_collections.pristine.vllm.plugins.module_utils.files import fsync_directory
from ansible_collections.pristine.vllm.plugins.module_utils.process import readable_files
from ansible_collections.pristine.vllm.plugins.module_utils.release import (
    TEMPORARY,
    Layout,
    Place,
    ReleaseError,
    environment_problem,
)


@dataclass(frozen=True)
class Switch:
    """What the links say and what they are to say: texts of symlinks, None for no link."""

    current_before: Optional[str]
    current: str
    previous_before: Optional[str]
    previous: Optional[str]

    @property
    def changed(self) -> bool:
        """Whether a link has to be written."""
        return (self.current_before, self.previous_before) != (self.current, self.previous)


def plan_switch(layout: Layout, target: str, previous: Optional[str], must_exist: bool = True) -> Switch:
    """Decide what the links are to say.

    :param target: a release's id, or the absolute path of an environment.
    :param previous: the same, for the way back; "" for none; None for what ``current`` leads to before a switch.
    :param must_exist: False when the target is yet to be built, as in check mode.
    :raises ReleaseError: the target is no finished release and no environment, or a link is something else.
    """
    text = _link_text(layout, target)
    before = layout.link_text("current")
    previous_before = layout.link_text("previous")
    place = layout.place(text)
    if must_exist and place:
        problem = environment_problem(place.path)
        if not problem and place.id and place.metadata is None:
            problem = f"{place.path} was never finished"
        if problem:
            now = f"current stays {before}" if before else "there is no current, as before"
            raise ReleaseError(
                f"cannot switch to {target}: {problem}. Nothing was changed, {now}. Build the release, or name another."
            )
    if previous is not None:
        back = _link_text(layout, previous) if previous else None
    elif layout.place(before) == place:
        back = previous_before
    else:
        # What is gone or damaged is no way back; an older one that is whole is.
        linked, older = layout.place(before), layout.place(previous_before)
        back = previous_before
        if linked and os.path.isdir(linked.path) and not (_whole(older, place) and environment_problem(linked.path)):
            back = _text_of(linked) if linked.id else before
    # The same place in other words, such as an absolute path into releases, is not worth a new link.
    current = before if before is not None and layout.place(before) == place else text
    return Switch(before, current, previous_before, back)


def switch(layout: Layout, target: str, previous: Optional[str]) -> Switch:
    """Make ``current`` lead to the target; see `plan_switch`. A reader sees the old link or the new one, never none.

    :raises ReleaseError: refused, nothing was changed.
    :raises BusyError: another run is switching.
    """
    with readable_files():
        os.makedirs(layout.root, exist_ok=True)
        with exclusive(layout.root):
            sweep(layout.root, TEMPORARY)
            decided = plan_switch(layout, target, previous)
            # The way back first: killed in between, the next call still sees the old current and decides the same.
            write_link(layout.root, "previous", decided.previous_before, decided.previous)
            write_link(layout.root, "current", decided.current_before, decided.current)
    return decided


def _whole(older: Optional[Place], target: Optional[Place]) -> bool:
    """Whether the way back that there is will do for one from the target."""
    return older is not None and older != target and environment_problem(older.path) is None


def _link_text(layout: Layout, target: str) -> str:
    """A target as a link in the root says it.

    :raises ReleaseError: it is neither an id nor a usable path.
    """
    if not os.path.isabs(target):
        return _text_of(layout.release(target))
    path = os.path.normpath(target)
    links = (os.path.join(layout.root, "current"), os.path.join(layout.root, "previous"))
    if path in links:
        raise ReleaseError(f"{path} is one of the links themselves: name the release or the environment it leads to.")
    if os.path.islink(path) and os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path))) in links:
        raise ReleaseError(
            f"{path} leads to {os.readlink(path)}, which is one of the links themselves: name the release. "
            "Of an adopted environment, adopted_from in release.json tells which it became."
        )
    place = layout.place(path)
    return _text_of(place) if place and place.id else path


def _text_of(place: Place) -> str:
    """A release as a link in the root says it."""
    return os.path.join("releases", place.id or "")


def write_link(root: str, name: str, before: Optional[str], text: Optional[str]) -> None:
    """Let a link in the root say ``text``, or take it away (None). Only the holder of the root's lock may."""
    if before == text:
        return
    path = os.path.join(root, name)
    if text is None:
        os.unlink(path)
    else:
        temporary = os.path.join(root, f"{TEMPORARY}{name}-{os.getpid()}")
        os.symlink(text, temporary)
        try:
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
    fsync_directory(root)
