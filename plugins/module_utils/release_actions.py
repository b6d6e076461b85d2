# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states of `env_release`: decide, act unless it is a check, and report both in the same words."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Callable, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.adoption import (
    AdoptionPlan,
    adopt,
    expected,
    leftovers,
    plan_adoption,
    plan_undo,
    undo_adoption,
)
from ansible_collections.pristine.vllm.plugins.module_utils.adoption_plan import LINK, MOVE
from ansible_collections.pristine.vllm.plugins.module_utils.lock import parse_lock, read_lock
from ansible_collections.pristine.vllm.plugins.module_utils.release import Layout, Place
from ansible_collections.pristine.vllm.plugins.module_utils.release_build import Built, Decision, Request, build, decide
from ansible_collections.pristine.vllm.plugins.module_utils.release_prune import (
    plan_absent,
    plan_pruned,
    plan_unfinished,
    remove,
)
from ansible_collections.pristine.vllm.plugins.module_utils.release_switch import plan_switch, switch


class Actions:
    """One method for each state; each returns what the module returns."""

    def __init__(
        self, layout: Layout, options: Mapping[str, Any], check: bool, warn: Callable[[str], None] = lambda _text: None
    ) -> None:
        """
        :param options: the module's options, see its documentation.
        :param check: decide and report only.
        """
        self._layout = layout
        self._options = options
        self._check = check
        self._warn = warn

    def run(self, state: str) -> dict[str, Any]:
        """Bring about ``built``, ``adopted``, ``unadopted``, ``current``, ``absent`` or ``pruned``.

        :raises ReleaseError: refused or failed.
        :raises LockError: the lock is not complete.
        :raises BusyError: another run is at it.
        :raises OSError: the system refused something else.
        """
        states = {
            "built": self._built,
            "adopted": self._adopted,
            "unadopted": self._unadopted,
            "current": self._current,
            "absent": self._absent,
            "pruned": self._pruned,
        }
        return states[state]()

    def _built(self) -> dict[str, Any]:
        options = self._options
        request = Request(
            release=options["release"],
            python=options["python"],
            lock=options["lock"],
            wheels=options["wheels"],
            builder=options["builder"] or "",
            metadata=options["metadata"],
            import_check=options["import_check"],
            spare=options["spare_bytes"],
            build_timeout=options["build_timeout"],
            import_timeout=options["import_timeout"],
        )
        if not self._check:
            built = build(self._layout, request)
        elif not os.path.lexists(request.lock):
            self._warn(f"lock {request.lock} is not there yet: checked as if the release were built from it")
            place = self._layout.release(request.release)
            built = Built(Decision(True, place, request.metadata), request.metadata)
        else:
            read_lock(request.lock)
            if request.builder:
                parse_lock(request.builder, "builder")
            decision = decide(self._layout, request)
            gone = plan_unfinished(self._layout, but=request.release) if decision.changed else []
            built = Built(decision, decision.wanted if decision.changed else decision.place.metadata, gone)
        before = built.decision.place.metadata
        diff = {"before": _text(before), "after": _text(built.decision.wanted if built.decision.changed else before)}
        place = Place(built.decision.place.id, built.decision.place.path, built.metadata)
        removed = [gone.id for gone in built.removed]
        return self._result(built.decision.changed, place, diff, conflicts=built.conflicts, removed=removed)

    def _current(self) -> dict[str, Any]:
        layout = self._layout
        target = self._options["release"] or self._options["environment"]
        previous = self._options["previous"]
        if not self._check:
            decided = switch(layout, target, previous)
        else:
            absent = not os.path.isabs(target) and not os.path.lexists(layout.release(target).path)
            if absent:
                self._warn(f"release {target} is not there yet: checked as if it were")
            decided = plan_switch(layout, target, previous, must_exist=not absent)
        current, back = layout.place(decided.current), layout.place(decided.previous)
        diff = {
            "before": _text({"current": decided.current_before, "previous": decided.previous_before}),
            "after": _text({"current": decided.current, "previous": decided.previous}),
        }
        result = self._result(decided.changed, current, diff)
        return {**result, "current": _describe(current), "previous": _describe(back)}

    def _adopted(self) -> dict[str, Any]:
        layout, metadata = self._layout, self._options["metadata"]
        plan = plan_adoption(layout, self._options["environment"])
        done = expected(layout, plan, metadata) if self._check else adopt(layout, plan, metadata)
        current = done.place if done.plan.action in (MOVE, LINK) else layout.place(done.plan.current)
        result = self._result(done.plan.changed, done.place, _links(done.plan), note=done.note)
        return {**result, "current": _describe(current)}

    def _unadopted(self) -> dict[str, Any]:
        layout = self._layout
        environment = os.path.normpath(self._options["environment"])
        place = plan_undo(layout, environment)
        there = Place(None, environment, None)
        links = {name: layout.link(name) for name in ("current", "previous")}
        if place:
            links["current"] = there if (place.metadata or {}).get("current_before") else None
            links["previous"] = None if links["previous"] == place else links["previous"]
        moved = [place.path] if place else leftovers(layout, environment)
        diff = {"before": "".join(f"{path}\n" for path in moved), "after": f"{environment}\n" if place else ""}
        changed = bool(moved) if self._check else undo_adoption(layout, environment)
        return self._result(changed, there, diff, **{name: _describe(link) for name, link in links.items()})

    def _absent(self) -> dict[str, Any]:
        layout = self._layout
        release = self._options["release"]
        places = plan_absent(layout, release) if self._check else remove(layout, release)
        return self._removed(layout.release(release), places)

    def _pruned(self) -> dict[str, Any]:
        keep = self._options["keep"]
        places = plan_pruned(self._layout, keep) if self._check else remove(self._layout, keep=keep)
        return self._removed(None, places)

    def _removed(self, place: Optional[Place], places: list[Place]) -> dict[str, Any]:
        ids = [gone.id or "" for gone in places]
        diff = {"before": "".join(f"{name}\n" for name in ids), "after": ""}
        return self._result(bool(ids), place, diff, removed=ids)

    def _result(self, changed: bool, place: Optional[Place], diff: dict[str, str], **more: Any) -> dict[str, Any]:
        described = _describe(place) or {"id": None, "path": None, "metadata": None}
        return {
            "changed": changed,
            "release": described["id"],
            "path": described["path"],
            "metadata": described["metadata"],
            "current": _describe(self._layout.link("current")),
            "previous": _describe(self._layout.link("previous")),
            "removed": [],
            "conflicts": [],
            "note": "",
            "diff": diff,
            **more,
        }


def _describe(place: Optional[Place]) -> Optional[dict[str, Any]]:
    return place.describe() if place else None


def _links(plan: AdoptionPlan) -> dict[str, str]:
    """The difference that an adoption makes; what is no link is a directory."""
    before = {"environment": plan.environment_before or "a directory", "current": plan.current_before}
    after = {"environment": plan.environment_link or "a directory", "current": plan.current}
    return {"before": _text(before), "after": _text(after)}


def _text(data: Optional[dict[str, Any]]) -> str:
    return json.dumps(data, indent=2, sort_keys=True) + "\n" if data else ""
