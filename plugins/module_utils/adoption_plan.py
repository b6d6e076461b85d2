# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what adopting an environment that others made would do, from what is on the disk; nothing is changed here."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.release import (
    MARK,
    Layout,
    Place,
    ReleaseError,
    describe_environment,
    environment_problem,
    read_mark,
)

# What a plan says is to be done.
MOVE, FINISH, LINK, NOTHING = "move", "finish", "link", "nothing"


@dataclass(frozen=True)
class AdoptionPlan:
    """What would happen to an environment.

    ``action`` is ``move`` (it becomes release ``release``), ``finish`` (as a killed run left it), ``link`` (it stays
    where it is, and ``current`` leads to it) or ``nothing``. ``why`` says why it is not moved. The others are what the
    names mean: texts of links, None for what is no link.
    """

    environment: str
    action: str
    release: Optional[str]
    why: str
    environment_before: Optional[str]
    environment_link: Optional[str]
    current_before: Optional[str]
    current: Optional[str]

    @property
    def changed(self) -> bool:
        """Whether there is anything to do."""
        return self.action != NOTHING


def plan_adoption(layout: Layout, environment: str) -> AdoptionPlan:
    """Decide whether an environment can become a release, and which.

    :param environment: its absolute path, now and afterwards.
    :raises ReleaseError: there is no environment.
    """
    path = checked(environment)
    current = layout.link_text("current")
    now = link_text(path)
    place = adopted_release(layout, path)
    if place is not None:
        live = current is None or leads_to(layout, "current", path)
        text = f"releases/{place.id}" if live else current
        final = os.path.join(layout.root, "current")
        action = FINISH if (now, current) != (final, text) else NOTHING
        return AdoptionPlan(path, action, place.id, "", now, final, current, text)
    why = _not_what_serves(layout, path)
    if why:
        return AdoptionPlan(path, NOTHING, None, why, now, now, current, current)
    problem = environment_problem(path)
    if problem:
        raise ReleaseError(
            f"{environment} cannot be adopted: {problem}. Nothing was changed. "
            "Set vllm_environment to the environment that serves, or leave it out where there is none."
        )
    why = _immovable(layout, path)
    if why:
        return stay(layout, path, why)
    release = _next_id(layout, path)
    final = os.path.join(layout.root, "current")
    return AdoptionPlan(path, MOVE, release, "", now, final, current, f"releases/{release}")


def stay(layout: Layout, path: str, why: str) -> AdoptionPlan:
    """The plan for an environment that is where it must stay: ``current`` leads to it."""
    current, now = layout.link_text("current"), link_text(path)
    action = LINK if current is None else NOTHING
    return AdoptionPlan(path, action, None, why, now, now, current, path if current is None else current)


def checked(environment: str) -> str:
    """An environment's path without anything superfluous.

    :raises ReleaseError: it is not absolute.
    """
    if not os.path.isabs(environment):
        raise ReleaseError(f"environment {environment!r} is not an absolute path. Set vllm_environment to one.")
    return os.path.normpath(environment)


def link_text(path: str) -> Optional[str]:
    """What a symlink says, None for anything else."""
    return os.readlink(path) if os.path.islink(path) else None


def leads_to(layout: Layout, name: str, path: str) -> bool:
    """Whether ``current`` or ``previous`` says this path, whatever that is."""
    text = layout.link_text(name)
    return text is not None and os.path.normpath(os.path.join(layout.root, text)) == path


def is_ours(mark: Optional[dict[str, Any]], path: str) -> bool:
    """Whether a ``release.json`` is that of this environment's adoption."""
    return mark is not None and mark.get("adopted_from") == path


def adopted_release(layout: Layout, path: str) -> Optional[Place]:
    """The release that the environment of this path has become, None when it has not."""
    text = link_text(path)
    places = [place for place in layout.releases() if is_ours(place.metadata, path)]
    if text == os.path.join(layout.root, "current"):
        # Of several, an earlier one was replaced by a directory that was adopted in its turn.
        live = [place for place in places if layout.live(place) == "current"]
        return next(reversed(live or places), None)
    return next((place for place in places if place.path == text), None)


def leftovers(layout: Layout, path: str) -> list[str]:
    """What was prepared for an environment that is still, or again, in its place."""
    releases = layout.releases_dir
    names = sorted(os.listdir(releases)) if os.path.isdir(releases) else []
    # Nobody else makes links that lead to themselves.
    found = [link for link in (os.path.join(releases, name) for name in names) if link_text(link) == link]
    if not os.path.islink(path) and is_ours(read_mark(path), path):
        found.append(os.path.join(path, MARK))
    return found


def mark_of(plan: AdoptionPlan, metadata: dict[str, Any]) -> dict[str, Any]:
    """What the ``release.json`` of an environment that is still to be moved will say.

    ``created_at`` is when it was made and not when it was adopted: to pruning, it is as old as it is.
    """
    made = datetime.fromtimestamp(os.stat(os.path.join(plan.environment, "pyvenv.cfg")).st_mtime, timezone.utc)
    return {
        **metadata,
        "version": describe_environment(plan.environment)["version"] or metadata.get("version"),
        "created_at": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "adopted_from": plan.environment,
        "current_before": plan.current_before,
    }


def _not_what_serves(layout: Layout, path: str) -> str:
    current = os.path.join(layout.root, "current")
    if path == current:
        return f"{path} is the link to what serves, and no environment of others"
    if layout.link_text("current") is None or leads_to(layout, "current", path):
        return ""
    linked = layout.link("current")
    return f"{current} leads to {linked.path if linked else 'something else'} already, so {path} is not what serves"


def _immovable(layout: Layout, path: str) -> str:
    """Why a directory cannot be exchanged for a link into the root, as far as that can be seen before trying."""
    if os.path.islink(path):
        return f"it is itself a symlink, to {os.readlink(path)}"
    real, root = os.path.realpath(path) + os.sep, os.path.realpath(layout.root) + os.sep
    if real.startswith(root) or root.startswith(real):
        return f"it and {layout.root} lie in each other"
    if os.path.ismount(path):
        return "it is a mount point"
    if os.stat(path).st_dev != os.stat(_existing(layout.releases_dir)).st_dev:
        return f"it is on another file system than {layout.root} (EXDEV)"
    if os.path.lexists(os.path.join(path, MARK)) and not is_ours(read_mark(path), path):
        return f"it has a {MARK} that is not ours to replace"
    return ""


def _existing(path: str) -> str:
    """A path or the nearest directory above it that is there."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _next_id(layout: Layout, path: str) -> str:
    stem = "adopted-" + (re.sub(r"[^A-Za-z0-9._-]", ".", os.path.basename(path))[:150] or "environment")
    taken = [0]
    for place in layout.releases():
        head, _dash, number = (place.id or "").rpartition("-")
        if head == stem and number.isdigit():
            taken.append(int(number))
    return f"{stem}-{max(taken) + 1}"
