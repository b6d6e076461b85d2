#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: dev/setup.sh [hosts]
# What every target of the Makefile needs first: the pinned tools in .venv, and the collection link. Instant where they stand.
# With `hosts`, meanwhile, what the test hosts need: a Docker engine and their image.
set -eu
cd "$(dirname "$0")/.."
mkdir -p .cache build

hosts=
if [ "${1:-}" = hosts ]; then
    { dev/engine.sh && dev/image.sh; } &
    hosts=$!
fi

# Two targets started at once must not build the same environment.
exec 9>.cache/setup.lock
flock 9

if ! python=$(dev/python.sh 3.11 3.12 3.13); then
    echo "No Python 3.11, 3.12 or 3.13 is on this machine (ansible-core 2.19 runs on these). Install one, or name it: PYTHON=/path make setup" >&2
    exit 1
fi

# Debian ships venv without ensurepip until python3-venv is installed.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [ "${PRISTINE_NO_INSTALL:-0}" = 1 ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "$python cannot make virtual environments: install $package (apt-get install $package) and run this again, or name another Python: PYTHON=/path make setup." >&2
        exit 1
    fi
    echo "Installing Debian's $package ($python lacks ensurepip)"
    dev/apt.sh update
    dev/apt.sh install "$package" >/dev/null
fi

dev/venv.sh .venv requirements-dev.txt "$python"
dev/link.sh
# What needs no host can go on; what does will say the same again.
[ -z "$hosts" ] || wait "$hosts" || echo "Going on without test hosts, see above." >&2
