#!/usr/bin/env bash
# NEON kernels, run: libffn is cross-built for AArch64, images are made on this machine, and under the emulator
#   - each gives the bits of the portable kernel, wherever its pages lie (programs/aarch64_kernels.c);
#   - each activation has the edge values of docs/edges.md, in every lane (programs/aarch64_edges.c);
#   - a tenth of all shapes up to 67 x 67 gives the bits that this machine's own kernels gave (programs/neon_images.c).
# Exit status 77: no cross compiler with its C library, no emulator or no xxHash here.
#   aarch64.sh FFNGEN NEON_IMAGES [CMAKE]
set -euo pipefail
ffngen=$1
neon_images=$2
cmake=${3:-cmake}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/cross.sh"
cc=$cross_cc
lacks=$(cross_lacks)
emulator=$(emulator aarch64)
xxhash=
for folder in $(pkg-config --variable=includedir libxxhash || true) /usr/include /usr/local/include; do
    [ -z "$xxhash" ] && [ -e "$folder/xxhash.h" ] && xxhash=$folder
done
if [ -n "$lacks" ] || [ -z "$emulator" ] || [ -z "$xxhash" ]; then
    echo "needed: ${lacks:-$cc with its C library}, qemu-aarch64, xxhash.h"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Both parts at once; the emulator and the cross compiler need little beside them.
parts=(0 1)
for part in "${parts[@]}"; do
    "$neon_images" "$part" ${#parts[@]} "$work/shapes$part" &
done
makers=$(jobs -p)

"$cmake" -S "$root" -B "$work"/build -D CMAKE_TOOLCHAIN_FILE="$root"/cmake/aarch64-linux-gnu.cmake \
    -D FFN_XXHASH="$xxhash" -D FFN_BUILD_RUNTIME_ONLY=ON -D CMAKE_C_FLAGS_RELEASE=-O1 >"$work"/log 2>&1 &&
    "$cmake" --build "$work"/build -j 2 --target ffn ffn_internal >>"$work"/log 2>&1 || { cat "$work"/log; exit 1; }
flags=(-std=gnu17 -O1 -ffp-contract=off -Wall -Wextra -Werror -I"$root"/runtime -I"$root"/tests)
support=$root/tests/support_data.c

# Everything but the flush and mmap is libffn's: static, with its private names.
$cc "${flags[@]}" -static -Wl,--wrap=mmap,--wrap=__clear_cache "$root"/tests/programs/aarch64_kernels.c "$support" \
    "$work"/build/libffn_internal.a -lm -lpthread -o "$work"/aarch64_kernels
images=()
while read -r n spec; do
    images+=("$work/$n-$spec.image")
    "$ffngen" emit "$spec" --format image --isa neon -n "$n" -o "${images[-1]}"
done <<'END_OF_IMAGES'
1 d33-f61-gelu-bias
1 d64-f96-swiglu
4 d48-f35-geglu_tanh-bias_up
13 d17-f130-silu-bias_down
13 d65-f20-relu2
37 d40-f100-gelu_tanh-bias
37 d23-f47-geglu-bias
37 d5-f3-mish
END_OF_IMAGES
"$emulator" "$work"/aarch64_kernels "${images[@]}"

"$neon_images" edges "$work"/edges
edges=("$root"/tests/support_edges.c "$root"/tests/support_edges_kernel.c)
$cc "${flags[@]}" -static "$root"/tests/programs/aarch64_edges.c "${edges[@]}" "$support" \
    "$work"/build/libffn_internal.a -lm -lpthread -o "$work"/aarch64_edges
"$emulator" "$work"/aarch64_edges "$root"/docs/edges.md "$work"/edges

# The shared library, as a program links it.
$cc "${flags[@]}" "$root"/tests/programs/aarch64_shapes.c "$support" -L"$work"/build -lffn -Wl,-rpath,"$work"/build \
    -lm -o "$work"/aarch64_shapes
for maker in $makers; do
    wait "$maker"
done
for part in "${parts[@]}"; do
    "$emulator" -L /usr/aarch64-linux-gnu "$work"/aarch64_shapes "$work/shapes$part" &
done
for runner in $(jobs -p); do
    wait "$runner"
done
