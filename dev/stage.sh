#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: dev/stage.sh FOLDER
# Copies what git knows or would add to FOLDER/ansible_collections/pristine/vllm and prints that path:
# ansible-test resolves the link of dev/link.sh and refuses what it then sees.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd -P)
mkdir -p "$1/ansible_collections/pristine/vllm"
copy=$(cd "$1/ansible_collections/pristine/vllm" && pwd -P)

# Clears an earlier copy, all but what .gitignore names: tests/output, where ansible-test keeps its environments.
git -C "$copy" init -q
cp "$root/.gitignore" "$copy"
git -C "$copy" clean -ffdq

cd "$root"
# git also lists a file that was deleted and not yet committed.
# shellcheck disable=SC2016  # the inner shell expands $file
git ls-files -z --cached --others --exclude-standard |
    xargs -0 sh -c 'for file; do if [ -e "$file" ]; then printf "%s\0" "$file"; fi; done' sh |
    xargs -0 cp -a --parents -t "$copy"
echo "$copy"
