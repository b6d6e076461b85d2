#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Usage: dev/apt.sh COMMAND [ARGUMENT ...]
# apt-get without questions, one at a time: it waits for dpkg, but not for another one that reads the package lists.
set -eu
cache=$(cd "$(dirname "$0")/.." && pwd)/.cache
mkdir -p "$cache"
exec 7>"$cache/apt.lock"
flock 7
# What a package starts must not hold the lock.
DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=120 -o APT::Install-Recommends=false "$@" 7>&-
