#!/usr/bin/env bash
# Every shape 1 .. 67 x 1 .. 67 against the double oracle, on each ISA this machine can run: an hour of one core at most.
# Usage: scripts/exhaustive.sh [BUILD]     BUILD: a configured build tree (default build/release)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
[ -f "$build/build.ninja" ] || { echo "exhaustive.sh: no build tree at '$build': run scripts/test.sh first" >&2; exit 2; }
cmake --build "$build" --target test_shapes
FFN_EXHAUSTIVE=1 "$build/test_shapes" --filter 'shapes/exhaustive_*' -j2
