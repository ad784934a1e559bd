#!/usr/bin/env bash
# Every activation and function of the formula language over all 2^32 floats against the exact value: about a minute each
# on two cores. What it prints: docs/accuracy.md.
# Usage: scripts/exhaustive_activations.sh [BUILD] [OPTION...]    BUILD: a configured build tree (default build/release);
#        options are those of tests/programs/exhaustive_activations.c, as --functions gelu,silu or --threads 8
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
    build=$1
    shift
fi
[ -f "$build/build.ninja" ] || { echo "exhaustive_activations.sh: no build tree at '$build': run scripts/test.sh first" >&2; exit 2; }
cmake --build "$build" --target exhaustive_activations
"$build/exhaustive_activations" "$@"
