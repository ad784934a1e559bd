#!/usr/bin/env bash
# test_preset.sh PRESET: configures, builds and tests one preset of CMakePresets.json, from its test preset's selection.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Randomised addresses that an older ThreadSanitizer does not expect.
fixed_addresses=()
if [ "$1" = tsan ] && setarch -R true 2>/dev/null; then
    fixed_addresses=(setarch -R)
fi
cmake --preset "$1"
cmake --build --preset "$1"
exec "${fixed_addresses[@]}" ctest --preset "$1" -j "$(nproc)" </dev/null
