#!/usr/bin/env bash
# From a model file to one header to a program (examples/aot.c), as the README has it, by each compiler: the program's y
# has the bits that the command computes, and libffn is not needed. Exit status 77: no trained weights here.
#   example_aot.sh FFNGEN
set -euo pipefail
export LC_ALL=C
ffngen=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
model=${FFN_DATA_DIR:-$root/../shared/data}/use_lite_layer0.safetensors
if [ ! -f "$model" ]; then
    echo "skipped: $model is not there; FFN_DATA_DIR names its folder"
    exit 77
fi
case $(uname -m) in
x86_64) isas=avx2,avx512,portable ;;
aarch64) isas=neon,portable ;;
*) exit 77 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# The file's own token vectors, bare and as an .npy file.
head_bytes=$(od -An -tu8 -N8 "$model")
range=$(head -c $((8 + head_bytes)) "$model" | sed 's/.*"x":{[^}]*"data_offsets":\[\([0-9]*\),\([0-9]*\)\].*/\1 \2/')
read -r begin end <<<"$range"
head -c $((8 + head_bytes + end)) "$model" | tail -c $((end - begin)) >x.f32
shape="{'descr': '<f4', 'fortran_order': False, 'shape': ($(((end - begin) / 2048)), 512), }"
{ printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$shape" && cat x.f32; } >x.npy
"$ffngen" run d512-f1536-relu-bias --weights "$model" --input x.npy --output y.npy >/dev/null
tail -c $((end - begin)) y.npy >expected.f32

"$ffngen" emit d512-f1536-relu-bias --format header --isa $isas --weights "$model" -o layer.h
mkdir beside
"$ffngen" emit d512-f1536-relu-bias --format header --isa $isas --weights "$model" --weights-out beside/layer.ffnw \
    -o beside/layer.h
for cc in ${CC:-cc} gcc clang; do
    command -v "$cc" >/dev/null || continue
    for folder in . beside; do
        "$cc" -O2 -I$folder "$root"/examples/aot.c -o aot
        ./aot <x.f32 >y.f32
        cmp y.f32 expected.f32
    done
done
if ./aot <x.f32 >/dev/full 2>full.txt; then
    echo 'a full disk was no failure' && exit 1
fi
grep -q 'standard output' full.txt
