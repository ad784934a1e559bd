#!/usr/bin/env bash
# NEON kernels, run: libffn is built for AArch64, ffngen emits images on this machine, and under the emulator each gives
# the bits of the portable kernel, wherever its pages lie. Exit status 77: no cross compiler or no emulator here.
#   aarch64.sh FFNGEN
set -euo pipefail
ffngen=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cc=aarch64-linux-gnu-gcc
emulator=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) && command -v $cc >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# xxHash is headers alone and the same for every machine; the cross compiler's own headers come first.
flags=(-std=gnu17 -ffp-contract=off -idirafter /usr/include -I"$root/runtime" -I"$root/tests")
sources=()
for source in "$root"/runtime/*.c "$root"/tests/support_data.c "$root"/tests/programs/aarch64_kernels.c; do
    case $source in */blas.c | */pool.c) ;; *) sources+=("$source") ;; esac
done
(cd "$work" && printf '%s\0' "${sources[@]}" | xargs -0 -P 2 -n 20 $cc "${flags[@]}" -O0 -c)
$cc -static -Wl,--wrap=mmap,--wrap=__clear_cache "$work"/*.o -lm -lpthread -o "$work"/aarch64_kernels

images=()
while read -r n spec; do
    images+=("$work/$n-$spec.image")
    "$ffngen" emit "$spec" --format image --isa neon -n "$n" -o "${images[-1]}"
done <<'END'
1 d33-f61-gelu-bias
1 d64-f96-swiglu
4 d48-f35-geglu_tanh-bias_up
13 d17-f130-silu-bias_down
13 d65-f20-relu2
37 d40-f100-gelu_tanh-bias
37 d23-f47-geglu-bias
37 d5-f3-mish
END
"$emulator" "$work"/aarch64_kernels "${images[@]}"
