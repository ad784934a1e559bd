#!/usr/bin/env bash
# Random kernels, data and calls (tests/programs/fuzz_kernels.c) under AddressSanitizer and UndefinedBehaviorSanitizer,
# with guard pages for the generated code, which no sanitizer sees:
#   fuzz_kernels.sh [SECONDS [SEED]]     300 seconds from a seed that the clock gives, by default
# The program is that of the preset asan-ubsan, built in build/asan-ubsan. Findings, each with the seed that repeats it,
# go to FFN_FUZZ_DIR/kernels.log too (default: build/fuzz) and make the exit status 1. docs/fuzzing.md says how to go on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-300} seed=${2:-$(date +%s)000000}
case $seconds$seed in *[!0-9]*) echo "fuzz_kernels.sh: SECONDS and SEED are whole numbers" >&2; exit 2 ;; esac
folder=${FFN_FUZZ_DIR:-build/fuzz}
mkdir -p "$folder"
cmake --preset asan-ubsan >"$folder/kernels_build.log"
cmake --build --preset asan-ubsan --target fuzz_kernels >>"$folder/kernels_build.log"
echo "fuzz_kernels --seeds tests/fuzz/kernel_seeds.txt --seed $seed --seconds $seconds"
LSAN_OPTIONS=suppressions=tests/lsan.supp:print_suppressions=0 build/asan-ubsan/fuzz_kernels \
    --seeds tests/fuzz/kernel_seeds.txt --seed "$seed" --seconds "$seconds" 2>&1 | tee "$folder/kernels.log"
