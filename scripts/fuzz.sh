#!/usr/bin/env bash
# Builds the fuzz targets (tests/fuzz/fuzz_*.c; clang with libFuzzer, AddressSanitizer, UndefinedBehaviorSanitizer) and
# runs them one after the other:
#   fuzz.sh [SECONDS [TARGET...]]     300 seconds each and all targets by default; 0 runs the kept corpus alone
# Findings are written to FFN_FUZZ_DIR (default: build/fuzz) and make the exit status 1. So does a build that fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-300}
shift $(($# > 0))
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    for source in tests/fuzz/fuzz_*.c; do
        targets+=("$(basename "$source" .c | sed 's/^fuzz_//')")
    done
fi
folder=${FFN_FUZZ_DIR:-build/fuzz}
mkdir -p "$folder"

compiler=
for candidate in clang-19 clang-18 clang-17 clang-16 clang clang-14; do
    if command -v "$candidate" >/dev/null &&
        echo 'int LLVMFuzzerTestOneInput(const unsigned char *, unsigned long);
              int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d != 0 && n == ~0ul; }' |
        "$candidate" -fsanitize=fuzzer,address,undefined -x c - -o "$folder/probe" 2>/dev/null; then
        compiler=$candidate
        break
    fi
done
[ -n "$compiler" ] || {
    echo 'no clang with libFuzzer found (Debian: apt-get install clang)' >&2
    exit 1
}

# The library under test, built with the same sanitizers: objects once, for all targets.
flags=(-std=gnu17 -g -O1 -ffp-contract=off -fno-omit-frame-pointer -Wall -Wextra -Werror -Iruntime -iquote gen
    -Itests/fuzz -fsanitize=address,undefined -fno-sanitize-recover=all)
objects=()
for source in $(ls runtime/*.c | grep -vE '/(blas|pool)\.c$') gen/{file,half,npy,safetensors,safetensors_tensor}.c \
    gen/weights{,_names,_select,_stream}.c; do
    object=$folder/$(echo "$source" | tr / _).o
    "$compiler" "${flags[@]}" -fsanitize=fuzzer-no-link -c "$source" -o "$object"
    objects+=("$object")
done

failed=0
for target in "${targets[@]}"; do
    program=$folder/fuzz_$target
    "$compiler" "${flags[@]}" -fsanitize=fuzzer "tests/fuzz/fuzz_$target.c" "${objects[@]}" -lcjson -lm -lpthread \
        -o "$program"
    kept=tests/fuzz/corpus/$target found=$folder/corpus_$target log=$folder/$target.log
    mkdir -p "$found"
    limit=(-max_total_time="$seconds")
    [ "$seconds" != 0 ] || limit=(-runs=0)
    words=()
    [ ! -e "tests/fuzz/$target.dict" ] || words=(-dict="tests/fuzz/$target.dict")
    if "$program" "${limit[@]}" "${words[@]}" -max_len=4096 -timeout=120 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$folder/finding_${target}_" "$found" "$kept" >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        cover=$(grep -oE 'cov: [0-9]+' "$log" | tail -n 1)
        printf '%-12s %12s runs, %s, no finding\n' "$target" "$runs" "${cover:-cov: ?}"
    else
        failed=1
        printf '%-12s FINDING, see %s\n' "$target" "$log"
        grep -E 'does not hold|ERROR|SUMMARY|runtime error' "$log" | head -n 5
    fi
done
exit $failed
