#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# An ssh client, with which the runs under faults reach their hosts. Nothing is done, or said, where there is one.
set -eu
command -v ssh >/dev/null 2>&1 && command -v ssh-keygen >/dev/null 2>&1 && exit 0
if [ "${PRISTINE_NO_INSTALL:-0}" = 1 ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "ssh and ssh-keygen are missing: install them (Debian: apt-get install openssh-client) and run this again." >&2
    exit 1
fi
echo "Installing Debian's openssh-client (PRISTINE_NO_INSTALL=1 refuses)"
apt=$(cd "$(dirname "$0")/../.." && pwd)/dev/apt.sh
"$apt" update
"$apt" install openssh-client >/dev/null
