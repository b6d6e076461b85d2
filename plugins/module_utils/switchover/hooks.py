# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's commands round a switchover, such as taking the host out of a load balancer and putting it back."""

from __future__ import annotations

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run
from ansible_collections.pristine.vllm.plugins.module_utils.switchover import service
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import Journal
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import Drain


class Hooks:
    """Runs them. Only the first time before the drain one that fails is a reason to go no further."""

    def __init__(self, drain: Drain, journal: Journal, run_command: Run) -> None:
        self._drain = drain
        self._journal = journal
        self._run = run_command
        self.any = bool(drain.before or drain.after)

    def before(self) -> None:
        """
        :raises ServiceError: one failed.
        """
        service.hooks(self._drain.before, self._drain.command_timeout, "before the drain", self._run)

    def before_again(self) -> None:
        """On the way back from one that may be answering requests by now."""
        if self._journal.hooked and self._journal.serving_at is not None:
            try:
                self.before()
            except Exception as error:  # noqa: BLE001 (nothing may keep the host from going back)
                self._journal.cautions.append(told(error))

    def after(self) -> None:
        """A load balancer that does not take the host back is told, and is no reason to stop a good service."""
        if self._journal.hooked:
            try:
                service.hooks(self._drain.after, self._drain.command_timeout, "after the start", self._run)
            except Exception as error:  # noqa: BLE001 (as it says)
                self._journal.cautions.append(told(error))


def told(error: Exception) -> str:
    """An exception's text, with its kind where the text alone says little."""
    text = str(error)
    return text if text and not isinstance(error, (KeyError, TypeError)) else f"{type(error).__name__}: {error!r}"
