#!/usr/bin/env bash
# Two builds of ffngen, by different compilers, emit the same bytes: no order is left to the compiler.
#   same_emission.sh FFNGEN OTHER_FFNGEN
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for build in one two; do
    ffngen=$1
    shift
    mkdir "$work/$build"
    for spec in d40-f100-geglu-bias d17-f33-gelu d96-f200-relu-bias_down; do
        for isa in avx2 avx512 neon; do
            for n in 1 3 8 40; do
                for format in ir image; do
                    "$ffngen" emit $spec --format $format --isa $isa --n $n -o "$work/$build/$spec-$isa-$n.$format"
                done
            done
            "$ffngen" emit $spec --format ir --isa $isa --n 40 --plan f_block=16,k_block=16,copy_x=1,hold_y=1 \
                -o "$work/$build/$spec-$isa-blocks.ir"
            "$ffngen" emit $spec --format header --isa $isa,portable --prefix net -o "$work/$build/$spec-$isa.h"
        done
    done
done
diff -r "$work/one" "$work/two"
