#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What meets Ansible, the modules' units and the playbooks' syntax, on ansible-core 2.21, in an environment of its own.
# Exit code 77: this machine has no Python that it runs on.
set -eu
cd "$(dirname "$0")/.."
folder=.cache/venv-2.21

if ! python=$(dev/python.sh 3.13 3.12); then
    echo "ansible-core 2.21 needs Python 3.12 or 3.13 and this machine has neither"
    exit 77
fi
dev/venv.sh "$folder" requirements-2.21.txt "$python"
# In front: the tests call ansible's commands by name.
PATH=$(pwd)/$folder/bin:$PATH
export PATH
ansible --version
# The utilities know no Ansible: that is one of the tests. Nor does it matter to pip and uv, at which these spend their time.
exec python -m pytest tests/unit/plugins/modules tests/unit/house --ignore-glob '*/test_lock_info.py' \
    --ignore-glob '*/test_wheelhouse.py' --ignore-glob '*/test_wheel_record.py'
