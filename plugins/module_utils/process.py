# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a program in bounded time, with an environment of our choice, so that it does not outlive us."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# What a program may need to find the network and its certificates; nothing that changes what Python or uv do.
NETWORK = (
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC"),
)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class CommandError(Exception):
    """The program could not be started or did not end in time. The text says which and is for the operator."""


@dataclass(frozen=True)
class Completed:
    """How a program ended, what it wrote and how many seconds it took."""

    returncode: int
    stdout: str
    stderr: str
    seconds: float


def clean_environment(home: str, temporary: str, keep: Sequence[str] = ()) -> dict[str, str]:
    """An environment without anything that was set for somebody else, plus the inherited variables in ``keep``."""
    environment = {"PATH": _PATH, "HOME": home, "TMPDIR": temporary, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    return {**environment, **{name: os.environ[name] for name in keep if name in os.environ}}


def run(
    argv: Sequence[str], environment: dict[str, str], timeout: float, cwd: str = "/", hold: Sequence[int] = ()
) -> Completed:
    """Run a program to its end.

    :param timeout: seconds until it is killed, with all that it started.
    :param hold: descriptors that it inherits: a lock among them stays held until the last of its children is gone.
    :raises CommandError: it could not be started or was killed for its time.
    """
    start = time.monotonic()
    # A module that is killed must not leave an installer that goes on writing behind the next run's back.
    setpriv = shutil.which("setpriv", path=_PATH)
    prefix = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
    try:
        process = subprocess.Popen(
            [*prefix, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=cwd,
            pass_fds=tuple(hold),
            start_new_session=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise CommandError(f"{argv[0]} cannot be started: {error.strerror}") from error
    with process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            _kill(process)
            said = process.communicate()
            last = (said[1] or said[0]).strip()[-1500:]
            raise CommandError(
                f"{argv[0]} had not ended after {timeout:.0f} s and was killed. {last}".strip()
            ) from error
        except BaseException:
            _kill(process)
            raise
    return Completed(process.returncode, stdout, stderr, time.monotonic() - start)


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def readable_files() -> Iterator[None]:
    """Let everybody read what is created: the service has a user of its own, and a host's umask may be 077."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)
