#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# This checkout as Ansible's tools look for it: ansible_collections/pristine/vllm, by one link.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd -P)
folder=$root/.cache/collections/ansible_collections/pristine
# Whoever may only read a checkout in which this was done can use it.
[ "$(readlink "$folder/vllm" 2>/dev/null)" != ../../../.. ] || exit 0
mkdir -p "$folder"
# Relative, so that a checkout may be moved; -n, so that a link that stands is replaced and not followed.
ln -sfn ../../../.. "$folder/vllm"
