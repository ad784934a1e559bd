#!/usr/bin/env bash
# One digest a spec: the same rows through everything that computes a spec, on this machine and on emulated ones. What a
# row must be comes from the contract written out in C (programs/same_bits.c rows) and is compared with the digests of
# record, tests/golden/same_bits.txt, which the portable kernel gave under qemu-aarch64. What is missing here is skipped.
#   same_bits.sh FFNGEN SAME_BITS [CMAKE]            checks
#   same_bits.sh FFNGEN SAME_BITS CMAKE --record     writes the digests of record anew: after a change of the contract
set -euo pipefail
ffngen=$1
same_bits=$2
cmake=${3:-cmake}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
golden=$root/tests/golden/same_bits.txt
programs=$root/tests/programs
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mapfile -t specs < <("$same_bits" specs)
mapfile -t header_specs < <("$same_bits" header)
source "$root/scripts/cross.sh"
skip() {
    echo "skipped: $*"
}
# say COMMAND...: what it prints, also kept for the table
say() {
    "$@" | tee -a "$work/said" | grep -v '^combinations' || [ "${PIPESTATUS[0]}" = 0 ]
}

# ---- libffn for AArch64, and its program; the machine that the digests of record come from ----

arm=$(emulator aarch64)
arm_cc=$cross_cc
lacks=$(cross_lacks)
xxhash=
for folder in $(pkg-config --variable=includedir libxxhash || true) /usr/include /usr/local/include; do
    [ -z "$xxhash" ] && [ -e "$folder/xxhash.h" ] && xxhash=$folder
done
arm_program=
if [ -n "$arm" ] && [ -z "$lacks" ] && [ -n "$xxhash" ]; then
    arm_program=$work/arm_images
    "$cmake" -S "$root" -B "$work/build" -D CMAKE_TOOLCHAIN_FILE="$root/cmake/aarch64-linux-gnu.cmake" \
        -D FFN_XXHASH="$xxhash" -D FFN_BUILD_RUNTIME_ONLY=ON -D CMAKE_C_FLAGS_RELEASE=-O0 >"$work/log" 2>&1 &&
        "$cmake" --build "$work/build" -j 2 --target ffn_internal >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    $arm_cc -std=gnu17 -O1 -ffp-contract=off -Wall -Wextra -Werror -I"$root/runtime" -static \
        "$programs/same_bits_images.c" "$work/build/libffn_internal.a" -lm -lpthread -o "$arm_program" 2>"$work/log" || { cat "$work/log"; exit 1; }
fi
if [ "${4:-}" = --record ]; then
    [ -n "$arm_program" ] || { echo "needed: qemu-aarch64, ${lacks:-$arm_cc}, xxhash.h"; exit 77; }
    "$arm" "$arm_program" - >"$work/record"
    cp "$work/record" "$golden"
    exit
fi

# ---- This process: the contract written out, then every kernel of libffn and libffngen ----

"$same_bits" rows "$work/rows" "$golden" >"$work/digests" || { cat "$work/digests"; exit 1; }
mkdir -m 700 "$work/store"
say "$same_bits" check "$work/rows" "$work/store"

# ---- Emitted headers ----

# emit FILE ISAS: few and small tiles, so that compilers of all this have little to read; other plans are tried above
emit() {
    "$ffngen" emit "${header_specs[@]}" --format header --isa "$2" --prefix sb \
        --plan unroll=1,prefetch=1,tiles=4x1/2x1/1x2/1x1 -o "$work/$1"
}
# build PROGRAM HEADER COMPILER...
build() {
    local program=$1 header=$2
    shift 2
    "$@" -I"$work" -DHEADER="\"$header\"" "$programs/same_bits_header.c" -o "$work/$program"
}
if [ "$(uname -m)" = x86_64 ]; then
    isas=avx2,portable
    if grep -qw avx512f /proc/cpuinfo; then
        isas=avx512,$isas
    fi
    emit x86.h $isas
    for compiler in gcc clang; do
        command -v $compiler >/dev/null || { skip "headers by $compiler: it is not here"; continue; }
        for options in -O0 -O2 '-O3 -march=native'; do
            build x86 x86.h $compiler $options
            say "$work/x86" "$compiler $options" "$work/rows"
        done
    done
    x86=$(emulator x86_64)
    if [ -n "$x86" ] && command -v gcc >/dev/null && build x86_static x86.h gcc -O2 -static 2>"$work/log"; then
        for cpu in Haswell max; do
            say "$x86" -cpu $cpu "$work/x86_static" "qemu-x86_64 -cpu $cpu" "$work/rows" few 2>"$work/log"
        done
    else
        skip 'headers under qemu-x86_64: no emulator, no gcc or no static libraries'
    fi
else
    skip 'headers for x86-64: this is another machine'
fi

# ---- AArch64 under the emulator ----

if [ -n "$arm_program" ]; then
    images=()
    for i in "${!header_specs[@]}"; do
        rows=(1 4 16 17)
        images+=("$work/${header_specs[i]%%=*}.image")
        "$ffngen" emit "${header_specs[i]#*=}" --format image --isa neon -n "${rows[i % 4]}" -o "${images[-1]}"
    done
    say "$arm" "$arm_program" "$work/rows" qemu-aarch64 "${images[@]}"
    emit arm.h neon,portable
    build arm arm.h $arm_cc -O2 -static
    say "$arm" -cpu cortex-a57 "$work/arm" qemu-aarch64 "$work/rows" few
else
    skip "NEON and the portable kernel: needed: qemu-aarch64, ${lacks:-$arm_cc}, xxhash.h"
fi

# ---- What came of it ----

sed 's/^digest //' "$work/digests"
grep '^combinations' "$work/said" | cut -d' ' -f2- | sort -t" " -k2 | while read -r count kind; do
    printf '%6d  %s\n' "$count" "$kind"
done
awk -v specs="${#specs[@]}" -v digests="$(sort -u "$work/digests" | wc -l)" '/^combinations/ { sum += $2 }
    END { printf "%d combinations, %d specs, %d digests\n", sum, specs, digests }' "$work/said"
