#!/usr/bin/env bash
# What a header of a usual size costs who takes it in: its bytes, and the seconds a compiler spends on it.
#   header_size.sh FFNGEN EXPECT
# Exit status 77: neither gcc nor clang is here.
source "$(dirname "${BASH_SOURCE[0]}")/header_common.sh" "$@"
found=$(compilers)
if [ -z "$found" ]; then
    echo 'neither gcc nor clang is here'
    exit 77
fi
"$ffngen" emit d768-f3072-gelu-bias --format header --isa avx2,avx512 --prefix hm -o "$work/two.h"
"$ffngen" emit d768-f3072-gelu-bias --format header --isa avx2,avx512,portable --prefix hm -o "$work/hm.h"
bytes=$(wc -c <"$work/two.h")
echo "d768-f3072-gelu-bias for avx2,avx512: $bytes bytes, with portable $(wc -c <"$work/hm.h")"
[ "$bytes" -lt 400000 ] || say_failed "$bytes bytes, under 400000 expected"
TIMEFORMAT='%U %S'
for compiler in $found; do
    for flags in '-O2' '-O2 -g'; do
        # Time of the processor, not of the clock: other tests run meanwhile.
        seconds=$({ time $compiler $flags -I"$work" -DHEADER='"hm.h"' -DHM_IMPLEMENTATION -c "$programs/header_unit.c" \
            -o "$work/unit.o" 2>/dev/null; } 2>&1 | awk '{ print $1 + $2 }')
        echo "$compiler $flags: $seconds s"
        awk -v s="$seconds" 'BEGIN { exit !(s < 2) }' || say_failed "$compiler $flags takes $seconds s, under 2 expected"
    done
done
exit $failed
