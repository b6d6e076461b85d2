#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: dev/venv.sh FOLDER LOCK PYTHON
# A virtual environment that holds exactly what the lock names, every download checked against its hash.
# Does nothing where it already stands; a changed lock, another Python or an interrupted run makes it anew.
set -eu
folder=$1
lock=$2
python=$3

wanted="$python $(sha256sum "$lock" | cut -d' ' -f1)"
stamp=$folder/.made-from
if [ -x "$folder/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi

log=build/$(basename "$lock" .txt).log
echo "Installing $lock into $folder with $python (about a minute; log: $log)"
rm -rf "$folder"
"$python" -m venv "$folder"
# pip's own settings on this machine (PIP_*, pip.conf) apply; the hashes decide what is taken.
# Most of what is installed is never imported, so Python compiles what it needs when it needs it.
if ! "$folder/bin/python" -m pip install --no-compile --require-hashes --requirement "$lock" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "pip could not install $lock; the whole output is in $log. Run the command again once the cause is gone." >&2
    exit 1
fi
echo "$wanted" >"$stamp"
