#!/bin/sh
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Resolves requirements-*.in into requirements-*.txt, with the hashes of every platform's files.
set -eu
cd "$(dirname "$0")/.."
resolve() {
    UV_CUSTOM_COMPILE_COMMAND="make lock" .venv/bin/uv pip compile --quiet --no-config --generate-hashes --universal \
        --python-version "$2" --output-file "requirements-$1.txt" "requirements-$1.in"
}
resolve dev 3.11
resolve 2.21 3.12
