# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of the matrix: at which phase, which fault, and what a run under it may come to. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Names of the eight phases, as the play's headings have them.
PHASES = ("preflight", "evidence", "stage", "drain and stop", "switch", "start and prove", "verify", "record")
#: Carried out by the host itself.
ON_HOST = range(4, 8)

OLD, NEW = "the one before", "the new one"


@dataclass(frozen=True)
class Row:
    """One fault at one phase.

    ``kind`` names what `inject` does; ``pin`` is one of the fixtures' pins and ``bad_index`` how the index misbehaves:
    both belong to the run under the fault. ``repeats_pin``: the next run has that pin too, with the index as it should
    be. ``fails``: the run under the fault must say so. ``refreshed``: the model's configuration is not the one that the
    running service has read; with this one it would not start.
    """

    name: str
    phase: int
    kind: str
    told: str
    pin: str = ""
    bad_index: str = ""
    repeats_pin: bool = False
    fails: bool = True
    small_root: bool = False
    refreshed: bool = True
    releases: tuple[str, ...] = field(default=(OLD, NEW))

    @property
    def heading(self) -> str:
        return f"{self.phase} {PHASES[self.phase - 1]}"


def _release_of(phase: int) -> tuple[str, ...]:
    """Before phase 4 nothing may disturb the service; in phase 8 the new release is proven."""
    return (OLD,) if phase < 4 else (NEW,) if phase == 8 else (OLD, NEW)


def _each(kind: str, told: str, phases: range, fails: bool = True, small_root: bool = False) -> list[Row]:
    return [
        Row(
            f"{kind}-{phase}",
            phase,
            kind,
            told,
            fails=fails,
            small_root=small_root,
            # Before phase 4 nobody has begun to mend it: after a reboot such a host does not serve, run or no run.
            refreshed=kind != "reboot" or phase >= 4,
            releases=_release_of(phase),
        )
        for phase in phases
    ]


def _service(pin: str, told: str) -> Row:
    return Row(f"service-{pin}", 6, "nothing", told, pin=pin, releases=(OLD,))


def _index(fault: str, phase: int, told: str) -> Row:
    return Row(f"{fault}-{phase}", phase, "index", told, "cu130", fault, repeats_pin=True, releases=(OLD,))


ROWS = (
    *_each("kill", "the play killed (SIGKILL)", range(1, 9)),
    *_each("cut", "the connection cut", range(1, 9)),
    *_each("full", "the disk full", range(2, 7), small_root=True),
    # Whatever is left to be written then fits into what the switchover had reserved.
    *_each("full", "the disk full", range(7, 9), small_root=True, fails=False),
    *_each("reboot", "the host rebooted", range(3, 8)),
    *_each("die", "the switchover killed (SIGKILL)", range(4, 8)),
    _index("moved", 1, "the index moved"),
    # Wheels are fetched before the scan, which compares with them.
    _index("moved", 2, "the index moved"),
    _index("truncated", 2, "the download truncated"),
    _index("corrupt", 2, "the wheel corrupt"),
    Row("uv-3", 3, "uv", "uv killed (SIGKILL)", releases=(OLD,)),
    _service("broken", "the service fails at import"),
    _service("hangs", "the service hangs before it is ready"),
    _service("mute", "the service answers health and no completion"),
    _service("dies", "the service ends with 0 once ready"),
    _service("fades", "the service ends with 0 at its first completion"),
    _service("orphans", "the service dies and leaves a worker"),
)
#: One for each phase, each fault another: what `make test` runs, one after the other on one host.
CHAIN = ("moved-1", "cut-2", "uv-3", "die-4", "kill-5", "service-orphans", "reboot-7", "full-8")


def chosen(only: str) -> list[Row]:
    """The rows that are named, by name or by how the name begins; all of them without a name.

    :raises ValueError: there is no such row.
    """
    wanted = only.replace(",", " ").split()
    for name in wanted:
        if not any(row.name.startswith(name) for row in ROWS):
            raise ValueError(f"no row is called {name!r}; there are: {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if not wanted or any(row.name.startswith(name) for name in wanted)]
