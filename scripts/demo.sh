#!/usr/bin/env bash
# The main job, end to end on a fresh Debian 12: installs what is missing (as root), builds the command, and runs one layer of
# a real model: compile, verify, run on real token vectors, compare with the stored outputs, time.
# The weights are use_lite_layer0.safetensors in FFN_DATA_DIR (default: ../shared/data beside the repository;
# examples/fetch_weights.sh makes the file). Without it the demo runs a preset with generated weights.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

packages_install build
cmake --preset release -B build/demo -D FFN_BUILD_TESTS=OFF --log-level=WARNING
cmake --build build/demo --target ffngen_command -- --quiet

weights=${FFN_DATA_DIR:-../shared/data}/use_lite_layer0.safetensors
if [ -f "$weights" ]; then
    exec build/demo/ffngen demo --weights "$weights" "$@"
fi
echo "No $weights: a preset with generated weights takes its place (examples/fetch_weights.sh gets the real ones)."
exec build/demo/ffngen demo "$@"
