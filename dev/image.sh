#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The image of the test hosts, pristine-vllm-host:<suite>, from the recipe in molecule/shared/image.
# Base: a Debian image that is already there, else docker pull, else debootstrap from this machine's own apt mirror.
# Nothing is done, or said, where the image was built from this very recipe.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
recipe=$root/molecule/shared/image
suite=bookworm
image=pristine-vllm-host:$suite
base_image=pristine-vllm-base:$suite
pull_seconds=${PRISTINE_PULL_SECONDS:-300}
cache=$root/.cache/image

say() { printf 'image: %s\n' "$*"; }
die() { printf 'image: %s\n' "$*" >&2; exit 1; }
have() { docker image inspect "$1" >/dev/null 2>&1; }
label() { docker image inspect --format "{{ index .Config.Labels \"$2\" }}" "$1" 2>/dev/null || true; }
packages() { sed '/^#/d' "$recipe/packages"; }

# The mirrors that apt itself uses here, from one-line and deb822 sources.
mirror_candidates() {
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -f "$file" ] || continue
        sed -n 's/^[[:space:]]*deb[[:space:]]\{1,\}\(\[[^]]*\][[:space:]]*\)\{0,1\}\([^[:space:]]*\).*/\2/p' "$file"
    done
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] || continue
        sed -n 's/^URIs:[[:space:]]*//p' "$file" | tr ' ' '\n'
    done
}

# The first of them that serves the suite; mirrors of other things (a vendor's repository) do not.
mirror() {
    mirror_candidates | awk 'NF && !seen[$0]++' | while read -r uri; do
        uri=${uri%/}
        case $uri in
            http://* | https://* | file:*) ;;
            *) continue ;;
        esac
        python3 - "$uri/dists/$suite/Release" "$suite" <<'PY' || continue
import sys
import urllib.request

try:
    with urllib.request.urlopen(sys.argv[1], timeout=10) as answer:
        head = answer.read(2000).decode("utf-8", "replace")
except OSError:
    sys.exit(1)
lines = head.splitlines()
# Not the security archive, which calls itself Debian-Security and holds a few packages only.
sys.exit(0 if "Origin: Debian" in lines and f"Codename: {sys.argv[2]}" in lines and "Label: Debian" in lines else 1)
PY
        echo "$uri"
        break
    done
}

ensure_debootstrap() {
    [ "$(id -u)" = 0 ] || die "no Debian image, no registry, and only root can run debootstrap: run as root, or bring one ('docker pull debian:$suite-slim')."
    command -v debootstrap >/dev/null 2>&1 && return
    [ "${PRISTINE_NO_INSTALL:-0}" != 1 ] || die "debootstrap is missing, and PRISTINE_NO_INSTALL=1 forbids installing it. Install it, or bring an image debian:$suite-slim."
    command -v apt-get >/dev/null 2>&1 || die "no Debian image, no registry, and no apt-get to install debootstrap with: bring an image debian:$suite-slim."
    say "installing debootstrap (PRISTINE_NO_INSTALL=1 refuses)"
    { "$root/dev/apt.sh" update && "$root/dev/apt.sh" install debootstrap; } >"$cache/apt.log" 2>&1 || { tail -n 20 "$cache/apt.log" >&2; die "debootstrap cannot be installed, see above and $cache/apt.log."; }
}

# All packages at once: a second pass with apt would cost another minute.
bootstrap_base() {
    [ -n "$mirror" ] || die "no Debian image, no registry, and no mirror of $suite in /etc/apt answers: bring an image ('docker pull debian:$suite-slim'), or name a mirror there."
    ensure_debootstrap
    say "debootstrap $suite from $mirror (a minute or two, once)"
    rootfs=$(mktemp -d "$cache/rootfs.XXXXXX")
    include=$(packages | paste -sd, -)
    if ! debootstrap --variant=minbase --include="$include" "$suite" "$rootfs" "$mirror" >"$cache/debootstrap.log" 2>&1; then
        tail -n 20 "$cache/debootstrap.log" >&2
        rm -rf --one-file-system "$rootfs"
        die "debootstrap failed, see above and $cache/debootstrap.log."
    fi
    rm -rf "$rootfs"/var/cache/apt/archives/*.deb "$rootfs"/var/lib/apt/lists/* "$rootfs"/usr/share/doc/* "$rootfs"/usr/share/man/*
    tar -C "$rootfs" --numeric-owner -c . \
        | docker import --change "LABEL pristine.vllm=base" - "$base_image" >/dev/null
    rm -rf --one-file-system "$rootfs"
}

# Sets base, and pulled where we brought it and are to take its name away again.
find_base() {
    for candidate in "debian:$suite-slim" "debian:$suite"; do
        if have "$candidate"; then
            base=$candidate
            return
        fi
    done
    # Made for an older list of packages, it is a base all the same: the build adds what is missing.
    if have "$base_image"; then
        base=$base_image
        return
    fi
    say "docker pull debian:$suite-slim"
    if timeout "$pull_seconds" docker pull --quiet "debian:$suite-slim" >"$cache/pull.log" 2>&1; then
        base=debian:$suite-slim
        pulled=$base
        return
    fi
    say "no registry answers ($(tail -n 1 "$cache/pull.log"))"
    bootstrap_base
    base=$base_image
}

build() {
    say "building $image from $base"
    # The host's network: a fresh engine's bridge may have no way out, and this machine's apt mirror is known to be near.
    if ! docker build --network=host --tag "$image" --build-arg "BASE=$base" --build-arg "MIRROR=$mirror" --build-arg "SUITE=$suite" \
        --label pristine.vllm=image --label "pristine.vllm.recipe=$recipe_hash" "$recipe" >"$cache/build.log" 2>&1; then
        tail -n 30 "$cache/build.log" >&2
        die "docker build failed, see above and $cache/build.log."
    fi
}

recipe_hash=$(cd "$recipe" && sha256sum Dockerfile init packages | sha256sum | cut -c1-16)
[ "$(label "$image" pristine.vllm.recipe)" != "$recipe_hash" ] || exit 0

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
# Another run may have built it while this one waited.
[ "$(label "$image" pristine.vllm.recipe)" != "$recipe_hash" ] || exit 0
mirror=$(mirror)
pulled=
find_base
build
# What the name stood for before; what a container still runs stays.
docker image prune --force --filter label=pristine.vllm=image >/dev/null
[ -z "$pulled" ] || docker image rm "$pulled" >/dev/null
