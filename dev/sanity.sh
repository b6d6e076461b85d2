#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# ansible-test sanity on a copy of the checkout, in a virtual environment that ansible-test makes and keeps in .cache.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd -P)
bin=$root/.venv/bin
home=$root/.cache/ansible-test

# A home of its own: its caches stay in this checkout, and ours (below) reaches no other project's ansible-test.
"$bin/python" dev/ansible_test_home.py "$home"
copy=$(dev/stage.sh .cache/sanity)

cd "$copy"
version=$("$bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
unset PYTHONPATH
HOME=$home PATH=$bin:$PATH exec ansible-test sanity --venv --python "$version" --color no "$@"
