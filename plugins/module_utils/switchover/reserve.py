# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room on the disk that is taken before the stop, for the way back: a disk that fills up meanwhile must not end it.

The way back writes little (its journal, the model's configuration, which is kept before it is edited), but without that
little the version that served before may not start.
"""

from __future__ import annotations

import contextlib
import os

from ansible_collections.pristine.vllm.plugins.module_utils.files import fsync_directory

RESERVE = "reserve"
_BYTES = 4 * 1024 * 1024


def take(directory: str) -> None:
    """Take it.

    :raises OSError: there is not so much room.
    """
    # Written rather than allocated: not every filesystem keeps what it promised.
    with open(os.open(os.path.join(directory, RESERVE), os.O_WRONLY | os.O_CREAT, 0o600), "wb") as stream:
        # No filesystem compresses that away.
        stream.write(os.urandom(_BYTES))
        stream.flush()
        os.fsync(stream.fileno())
    fsync_directory(directory)


def give(directory: str) -> None:
    """Give it to whoever writes next; again without effect."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(directory, RESERVE))
