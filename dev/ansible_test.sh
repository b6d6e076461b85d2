#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: dev/ansible_test.sh VERSION sanity|units [ARGUMENT ...]
# ansible-test on a copy of the checkout and that version of Python (3.9; controller: the one of .venv), in virtual
# environments that it makes and keeps in .cache. Exit code 77: this machine has no such Python.
set -eu
cd "$(dirname "$0")/.."
bin=$(pwd -P)/.venv/bin
home=$(pwd -P)/.cache/ansible-test

version=$1
shift
if [ "$version" = controller ]; then
    version=$("$bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    PATH=$bin:$PATH
elif python=$(dev/python.sh "$version"); then
    PATH=$bin:$(dirname "$python"):$PATH
else
    echo "needs Python $version and this machine has none"
    exit 77
fi

# A home of its own: its caches stay in this checkout, and our stand-in for get-pip reaches no other project.
"$bin/python" dev/ansible_test_home.py "$home"
copy=$(dev/stage.sh .cache/stage)

cd "$copy"
# Below .cache, which ansible-test does not look at: tests that start Python by themselves import through it.
dev/link.sh
unset PYTHONPATH ANSIBLE_CONFIG
command=$1
shift
export PATH HOME="$home"
exec ansible-test "$command" --venv --python "$version" --color no "$@"
