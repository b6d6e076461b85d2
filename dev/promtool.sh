#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Prints the path of a promtool. Where there is none, takes the one of Debian's package prometheus into .cache, and says so;
# the package itself, which would start a server, is not installed. PRISTINE_NO_INSTALL=1 forbids that.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
folder=$root/.cache/promtool
log=$root/.cache/promtool-apt.log

say() { printf 'promtool: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

download() {
    "$root/dev/apt.sh" download prometheus >>"$log" 2>&1
}

update() {
    [ "$(id -u)" = 0 ] || return 0
    "$root/dev/apt.sh" update >>"$log" 2>&1 || say "apt-get update failed: see $log"
}

if command -v promtool; then
    exit 0
fi
if [ ! -x "$folder/usr/bin/promtool" ]; then
    [ "${PRISTINE_NO_INSTALL:-0}" != 1 ] || die "there is none, and PRISTINE_NO_INSTALL=1 forbids fetching one. Put promtool on PATH, or unset PRISTINE_NO_INSTALL."
    command -v apt-get >/dev/null 2>&1 || die "there is none, and no apt-get to fetch one with. Put promtool (of Prometheus 2.40 or newer) on PATH."
    say "none on this machine: taking that of Debian's package prometheus into .cache"
    mkdir -p "$root/.cache"
    : >"$log"
    # Of this process alone, and renamed when whole: two tests may ask at once.
    mine=$(mktemp -d "$root/.cache/promtool.XXXXXX")
    trap 'rm -rf "$mine"' EXIT
    cd "$mine"
    download || { update && download; } || { tail -n 20 "$log" >&2; die "apt-get download prometheus failed, see above and $log."; }
    dpkg-deb --extract prometheus_*.deb "$mine/whole"
    mv -T "$mine/whole" "$folder" 2>/dev/null || [ -x "$folder/usr/bin/promtool" ] || die "$folder cannot be written."
fi
printf '%s\n' "$folder/usr/bin/promtool"
