#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Removes what make set up here: this checkout's containers and networks, the images of the test hosts, and the folders
# that .gitignore names. Told by labels, never by a name alone. --docker leaves the folders.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
checkout=$(printf %s "$(cd "$root" && pwd -P)" | sha256sum | cut -c1-8)

say() { printf 'clean: %s\n' "$*"; }

# Objects of one kind that carry a label: remove KIND LABEL LIST-COMMAND...
remove_labelled() {
    kind=$1
    shift
    "$@" | sort -u | while read -r id; do
        if docker "$kind" rm --force "$id" >/dev/null 2>&1 || docker "$kind" rm "$id" >/dev/null 2>&1; then
            say "removed $kind $id"
        else
            say "kept $kind $id: something else uses it ('docker $kind rm $id' says what)"
        fi
    done
}

clean_docker() {
    if ! docker info >/dev/null 2>&1; then
        say "no Docker engine answers: nothing to remove there"
        return
    fi
    remove_labelled container docker ps --all --quiet --filter "label=pristine.vllm.checkout=$checkout"
    remove_labelled network docker network ls --quiet --filter "label=pristine.vllm.checkout=$checkout"
    remove_images "label=pristine.vllm.checkout=$checkout"
    # Another checkout's hosts keep the image that they run: it stays.
    others=$(docker ps --all --quiet --filter label=pristine.vllm | wc -l)
    if [ "$others" -gt 0 ]; then
        say "kept the images: $others containers of another checkout run them"
        return
    fi
    remove_images label=pristine.vllm
}

# By id, the ones built on top first: docker lists the newest first. Untagged ones are steps of older builds.
remove_images() {
    ids=$(docker image ls --all --quiet --filter "$1" | awk '!seen[$0]++')
    for id in $ids; do
        docker image inspect "$id" >/dev/null 2>&1 || continue
        if docker image rm "$id" >/dev/null 2>&1; then
            say "removed image $id"
        else
            say "kept image $id: something else uses it"
        fi
    done
}

clean_folders() {
    for folder in .venv .cache .ansible build tests/output .hypothesis .mypy_cache .pytest_cache .ruff_cache; do
        [ -e "$root/$folder" ] || continue
        rm -rf --one-file-system "${root:?}/$folder"
        say "removed $folder"
    done
    find "$root" -xdev -name __pycache__ -type d -prune -exec rm -rf {} +
}

clean_docker
if [ -e "$root/.cache/dockerd.log" ]; then
    say "the Docker engine that dev/engine.sh started goes on running: end it with 'kill \$(cat /var/run/docker.pid)'"
fi
[ "${1:-}" = --docker ] || clean_folders
