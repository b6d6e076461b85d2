#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A Docker engine that answers. Where one does, nothing is touched and nothing is said.
# Where none does: installs Debian's docker.io, starts dockerd, and says so. PRISTINE_NO_INSTALL=1 forbids both.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
log=$root/.cache/dockerd.log
wait_seconds=60

say() { printf 'engine: %s\n' "$*"; }
die() { printf 'engine: %s\n' "$*" >&2; exit 1; }
answers() { docker info >/dev/null 2>&1; }

refuse_unless_ours_to_start() {
    if command -v docker >/dev/null 2>&1; then
        reason=$(docker info 2>&1 >/dev/null || true)
        case $reason in
            *"permission denied"*)
                die "the engine refuses $(id -un): $reason. Join the group docker (usermod -aG docker $(id -un), then log in again) or run as root." ;;
        esac
    fi
    [ -z "${DOCKER_HOST:-}" ] || die "no engine answers at DOCKER_HOST=$DOCKER_HOST. Start it, or unset DOCKER_HOST to use this machine's."
    [ "${PRISTINE_NO_INSTALL:-0}" != 1 ] || die "no Docker engine answers, and PRISTINE_NO_INSTALL=1 forbids installing or starting one. Start one (then 'docker info' succeeds), or unset PRISTINE_NO_INSTALL."
    [ "$(id -u)" = 0 ] || die "no Docker engine answers, and only root can install or start one. Run as root, or start an engine that $(id -un) may use."
}

install_engine() {
    command -v apt-get >/dev/null 2>&1 || die "no Docker engine answers and this machine has no apt-get to install one with. Install Docker 20.10 or newer, then call again."
    say "no Docker engine on this machine: installing Debian's docker.io (PRISTINE_NO_INSTALL=1 refuses)"
    apt_get update
    apt_get install docker.io
    # Since Debian 13 the client is a package of its own.
    command -v docker >/dev/null 2>&1 || apt_get install docker-cli
}

apt_get() {
    "$root/dev/apt.sh" "$@" >"$root/.cache/engine-apt.log" 2>&1 || {
        tail -n 20 "$root/.cache/engine-apt.log" >&2
        die "apt-get $* failed, see above and $root/.cache/engine-apt.log."
    }
}

# An engine that was killed, or whose machine was, leaves its pid behind. Once another process has that pid,
# dockerd refuses to start ("pid file found") and waits for a containerd that is none.
forget_dead() {
    [ -f "$1" ] || return 0
    pid=$(tr -cd 0-9 <"$1")
    [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] && return 0
    say "removing $1: no $2 has that pid"
    rm -f "$1"
}

start_engine() {
    if [ -d /run/systemd/system ]; then
        say "starting docker.service"
        systemctl start docker.service || die "docker.service does not start: see 'journalctl -u docker.service'."
        return
    fi
    mkdir -p "$root/.cache"
    forget_dead /var/run/docker.pid dockerd
    forget_dead /var/run/docker/containerd/containerd.pid containerd
    say "starting dockerd (log: $log)"
    # In a session of its own, so that it outlasts the terminal and make; without our lock, or it would hold that for good.
    setsid dockerd >"$log" 2>&1 </dev/null 8>&- &
    engine_pid=$!
}

wait_for_engine() {
    waited=0
    until answers; do
        if [ -n "${engine_pid:-}" ] && ! kill -0 "$engine_pid" 2>/dev/null; then
            tail -n 15 "$log" >&2
            die "dockerd ended while starting, see above and $log."
        fi
        [ "$waited" -lt "$wait_seconds" ] || die "the engine does not answer after $wait_seconds s: see $log, or 'docker info'."
        sleep 1
        waited=$((waited + 1))
    done
    say "Docker $(docker version --format '{{.Server.Version}}') answers"
}

if answers; then
    exit 0
fi
# Two that start at once must not both install or start one.
mkdir -p "$root/.cache"
exec 8>"$root/.cache/engine.lock"
flock 8
if answers; then
    exit 0
fi
refuse_unless_ours_to_start
if ! { command -v dockerd >/dev/null 2>&1 && command -v docker >/dev/null 2>&1; }; then
    install_engine
fi
# The package may have started it.
answers || start_engine
wait_for_engine
