# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the units of a switchover lie on the host."""

from __future__ import annotations

import os

#: Read at every use, so that a test can name a folder of its own.
UNITS = "/etc/systemd/system"


def unit_file(unit: str) -> str:
    """Where the unit's own file lies."""
    return os.path.join(UNITS, f"{unit.removesuffix('.service')}.service")


def wants_link(unit: str) -> str:
    """What enabling a unit that is wanted by multi-user.target makes."""
    return os.path.join(UNITS, "multi-user.target.wants", f"{unit.removesuffix('.service')}.service")


def service_name(unit: str) -> str:
    """The name of the service that switches a unit over."""
    return f"{unit.removesuffix('.service')}-switchover.service"
