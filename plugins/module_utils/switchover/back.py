# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back: what the journal kept is put back, started and proven."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.adoption import undo_adoption
from ansible_collections.pristine.vllm.plugins.module_utils.adoption_plan import adopted_release
from ansible_collections.pristine.vllm.plugins.module_utils.command import Run
from ansible_collections.pristine.vllm.plugins.module_utils.drain import StopError
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import BusyError, exclusive
from ansible_collections.pristine.vllm.plugins.module_utils.files import TEMPORARY, atomic_write, read_file
from ansible_collections.pristine.vllm.plugins.module_utils.model_config import ModelConfigError
from ansible_collections.pristine.vllm.plugins.module_utils.release import TEMPORARY as TEMPORARY_LINK
from ansible_collections.pristine.vllm.plugins.module_utils.release import Layout, ReleaseError
from ansible_collections.pristine.vllm.plugins.module_utils.release_switch import switch
from ansible_collections.pristine.vllm.plugins.module_utils.switchover import changes, service, snapshot
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import Journal
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import Order
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.places import unit_file
from ansible_collections.pristine.vllm.plugins.module_utils.unit import UnitError

#: Beside the order, for root alone, and removed with it: the key that the server had before.
KEY = "key-before"


class Back:
    """Knows how to make the host what it was. One step that fails keeps none of the others from being taken."""

    def __init__(self, order: Order, journal: Journal, run_command: Run) -> None:
        self._order = order
        self._journal = journal
        self._run = run_command
        self._made = time.time()
        self._key_file = os.path.join(order.root, "switchover", order.run_id, KEY)

    def remember_key(self) -> None:
        """Keep the API key of the server that runs: on the way back it is asked with that one."""
        key = service.key_of(self._journal.before["main_pid"], self._order.serving.api_key)
        if key is not None:
            os.makedirs(os.path.dirname(self._key_file), mode=0o700, exist_ok=True)
            atomic_write(self._key_file, os.fsencode(key), mode=0o600)

    def key(self) -> Optional[str]:
        """The key that was kept; None where there was none."""
        try:
            return os.fsdecode(read_file(self._key_file))
        except OSError:
            return None

    def sweep(self) -> None:
        """Remove what one that was killed before us was just writing, beside what it was to replace."""
        order = self._order
        places = {os.path.dirname(path) for path in changes.paths_of(order)}
        places |= {os.path.dirname(str(entry["path"])) for entry in self._journal.saved}
        for directory in (*places, order.root, os.path.join(order.root, "current")):
            with contextlib.suppress(OSError):
                names = [name for name in os.listdir(directory) if name.startswith((TEMPORARY, TEMPORARY_LINK))]
                for path in (os.path.join(directory, name) for name in names):
                    info = os.lstat(path)
                    # A younger one is of somebody who lives.
                    if not stat.S_ISDIR(info.st_mode) and info.st_ctime < self._made:
                        os.unlink(path)

    def go(self) -> None:
        """Put everything back and prove it.

        Where the version that served before needs the adapted configuration too, it gets that: a host that was found
        with a refreshed one served only because its process had read the old one. To the letter where it does not
        start so.

        :raises Exception: something could not be put back, or it does not serve.
        """
        self._journal.completion = None
        adapted = self._order.keep_config and bool(self._order.configs)
        try:
            self._once(adapted)
        except (service.ServiceError, ModelConfigError):
            if not adapted:
                raise
            self._once(adapted=False)

    def _once(self, adapted: bool) -> None:
        order, before = self._order, self._journal.before
        running = self._stop() if order.restart else None
        problem = self._restore(adapted)
        if problem is not None and str(problem) not in self._journal.cautions:
            # Told whatever becomes of the start.
            self._journal.cautions.append(str(problem))
        self._try(["daemon-reload"])
        if running is not None:
            # What hangs in the driver ends with a reboot, and what comes up then is what was.
            raise running
        if order.restart and before["known"]:
            service.start(order, order.serving.timeout, self._run)
            serving = service.serving_before(order, before, self.key())
            self._journal.completion = service.prove(order, serving, None, self._run).completion
        elif order.restart and before["active"]:
            raise service.ServiceError(
                f"{order.unit} ran without a unit that systemd could load, so nothing can start it again. "
                f"Write {unit_file(order.unit)} as it was, or run the provision."
            )
        if problem is not None:
            raise problem

    def _stop(self) -> Optional[Exception]:
        """Stop the new one, which may be answering requests by now; returns why it cannot be."""
        order = self._order
        problem: Optional[Exception] = None
        drain = order.drain if self._journal.serving_at is not None else None
        try:
            service.stop(order, order.serving.url if drain else "", drain, self._run)
        except (StopError, UnitError, OSError) as error:
            problem = error
        if not self._journal.before["enabled"] and os.path.exists(unit_file(order.unit)):
            # While the new unit is there: the old one may not say where it had been linked.
            self._try(["disable", "--", order.unit])
        return problem

    def _restore(self, adapted: bool) -> Optional[Exception]:
        """Put back files, links and caches; returns what could not be."""
        configs = {entry.path for entry in self._order.configs if adapted and os.path.lexists(entry.path)}
        saved = [snapshot.Saved(**entry) for entry in self._journal.saved]
        problem: Optional[Exception] = None
        try:
            self._undo_adoption()
        except (ReleaseError, BusyError, OSError) as error:
            problem, saved = error, self._as_release(saved)
        with contextlib.ExitStack() as stack:
            # Waited for, but nobody who holds it for long is worth a service that stays down.
            with contextlib.suppress(BusyError, OSError):
                stack.enter_context(exclusive(self._order.root))
            changes.put_back_wiped(self._order, self._journal)
            try:
                snapshot.restore(entry for entry in saved if entry.path not in configs)
            except OSError as error:
                problem = problem or error
            if adapted:
                changes.adapt(self._order, self._journal)
        return problem

    def _as_release(self, saved: list[snapshot.Saved]) -> list[snapshot.Saved]:
        """What to put back where an adoption cannot be undone: the environment serves from its release, by the link."""
        place = None
        with contextlib.suppress(ReleaseError, OSError):
            place = adopted_release(Layout(self._order.root), self._order.adopt)
        if place is None:
            return saved
        current = snapshot.Saved(os.path.join(self._order.root, "current"), target=f"releases/{place.id}")
        return [current if entry.path == current.path else entry for entry in saved]

    def _undo_adoption(self) -> None:
        """Put an environment of others back where it was; its links first lead to it again."""
        layout, path = Layout(self._order.root), self._order.adopt
        if not path:
            return
        place, live = adopted_release(layout, path), layout.link("current")
        if place and place.id and live and live.path != place.path:
            switch(layout, place.id, None)
        undo_adoption(layout, path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(path, changes.SERVED_UNIT))

    def _try(self, words: list[str]) -> None:
        """Have systemd do what the start that follows may well do without."""
        try:
            service.systemctl(words, self._run)
        except service.ServiceError as error:
            self._journal.cautions.append(str(error))
