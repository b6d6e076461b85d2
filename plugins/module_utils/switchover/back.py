# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back: what the journal kept is put back, started and proven."""

from __future__ import annotations

import contextlib
import os
from typing import Callable, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.adoption import undo_adoption
from ansible_collections.pristine.vllm.plugins.module_utils.adoption_plan import adopted_release
from ansible_collections.pristine.vllm.plugins.module_utils.command import Run
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import exclusive
from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write, read_file
from ansible_collections.pristine.vllm.plugins.module_utils.release import Layout
from ansible_collections.pristine.vllm.plugins.module_utils.release_switch import switch
from ansible_collections.pristine.vllm.plugins.module_utils.switchover import service, snapshot
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.changes import SERVED_UNIT, unit_file
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import Journal
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import Order

#: Beside the order, for root alone, and removed with it: the key that the server had before.
KEY = "key-before"


class Back:
    """Knows how to make the host what it was."""

    def __init__(self, order: Order, journal: Journal, save: Callable[[], None], run_command: Run) -> None:
        """
        :param save: writes the journal.
        """
        self._order = order
        self._journal = journal
        self._save = save
        self._run = run_command
        self._key_file = os.path.join(order.root, "switchover", order.run_id, KEY)

    def remember_key(self) -> None:
        """Keep the API key of the server that runs: on the way back it is asked with that one."""
        key = service.key_of(self._journal.before["main_pid"], self._order.serving.api_key)
        if key is not None:
            os.makedirs(os.path.dirname(self._key_file), mode=0o700, exist_ok=True)
            atomic_write(self._key_file, key.encode(), mode=0o600)

    def go(self) -> None:
        """Put everything back and prove it.

        Where the version that served before needs the adapted configuration too, that stays: a host that was found with
        a refreshed one served only because its process had read the old one. To the letter where it does not start so.

        :raises Exception: it cannot be put back, or does not serve.
        """
        kept = self._order.keep_config and bool(self._journal.config)
        try:
            self._once(to_the_letter=not kept)
        except service.ServiceError:
            if not kept:
                raise
            self._once(to_the_letter=True)

    def _once(self, to_the_letter: bool) -> None:
        order, before = self._order, self._journal.before
        if order.restart:
            service.stop(order, "", None, self._run)
            if not before["enabled"] and os.path.exists(unit_file(order.unit)):
                # While the new unit is there: the old one may not say where it had been linked.
                service.systemctl(["disable", "--", order.unit], self._run)
        self._restore(to_the_letter)
        service.systemctl(["daemon-reload"], self._run)
        if order.restart and before["known"]:
            service.start(order, order.serving.timeout, self._run)
            serving = service.serving_before(order, before, self._key())
            self._journal.completion = service.prove(order, serving, None, self._run).completion

    def _restore(self, to_the_letter: bool) -> None:
        if self._order.adopt:
            self._undo_adoption()
        configs = {entry.path for entry in self._order.configs}
        saved = [snapshot.Saved(**entry) for entry in self._journal.saved]
        with exclusive(self._order.root):
            snapshot.restore(entry for entry in saved if to_the_letter or entry.path not in configs)

    def _undo_adoption(self) -> None:
        """Put an environment of others back where it was; its links first lead to it again."""
        layout, path = Layout(self._order.root), self._order.adopt
        place, live = adopted_release(layout, path), layout.link("current")
        if place and place.id and live and live.path != place.path:
            switch(layout, place.id, None)
        undo_adoption(layout, path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(path, SERVED_UNIT))

    def _key(self) -> Optional[str]:
        try:
            return os.fsdecode(read_file(self._key_file))
        except FileNotFoundError:
            return None
