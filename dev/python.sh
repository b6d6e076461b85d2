#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Prints the path of the first Python of the wanted versions (3.11 3.12 ...) that is on this machine.
# Exit code 3: there is none. $PYTHON, where set, is the only candidate.
set -eu

# A pyenv shim is on PATH for versions that it then refuses to run, so each candidate is started.
real_path() {
    "$1" -c 'import sys; print(sys._base_executable if sys.version_info[:2] == tuple(map(int, sys.argv[1].split("."))) else "")' "$2" 2>/dev/null
}

# A distribution's comes first: it is built with profile-guided optimisation, which those that people build seldom are:
# a twelfth of the processor time of the units.
for version in "$@"; do
    for candidate in ${PYTHON:-"/usr/bin/python$version" "python$version" "$HOME"/.pyenv/versions/"$version".*/bin/python python3}; do
        found=$(real_path "$candidate" "$version" || true)
        if [ -n "$found" ]; then
            echo "$found"
            exit 0
        fi
    done
done
exit 3
