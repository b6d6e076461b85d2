#!/bin/sh
# Resolves requirements-*.in into requirements-*.txt, with the hashes of every platform's files.
set -eu
cd "$(dirname "$0")/.."
resolve() {
    UV_CUSTOM_COMPILE_COMMAND="make lock" .venv/bin/uv pip compile --quiet --no-config --generate-hashes --universal \
        --python-version "$2" --output-file "requirements-$1.txt" "requirements-$1.in"
}
resolve dev 3.11
resolve 2.21 3.12
