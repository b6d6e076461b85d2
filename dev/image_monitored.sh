#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The image of test hosts with Debian's Prometheus and node exporter, pristine-vllm-monitored:<suite>, on top of that of dev/image.sh.
# Nothing is done, or said, where it was built from this very recipe on that very image.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
recipe=$root/molecule/shared/image-monitored
suite=bookworm
base=pristine-vllm-host:$suite
image=pristine-vllm-monitored:$suite
log=$root/.cache/image/build-monitored.log

label() { docker image inspect --format '{{ index .Config.Labels "pristine.vllm.recipe" }}' "$image" 2>/dev/null || true; }

"$root/dev/image.sh"
wanted=$({ docker image inspect --format '{{ .Id }}' "$base"; cat "$recipe/Dockerfile"; } | sha256sum | cut -c1-16)
[ "$(label)" != "$wanted" ] || exit 0

mkdir -p "$root/.cache/image"
printf 'image: building %s from %s\n' "$image" "$base"
# The host's network, as in dev/image.sh.
if ! docker build --network=host --tag "$image" --build-arg "BASE=$base" \
    --label pristine.vllm=image --label "pristine.vllm.recipe=$wanted" "$recipe" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    printf 'image: docker build failed, see above and %s.\n' "$log" >&2
    exit 1
fi
