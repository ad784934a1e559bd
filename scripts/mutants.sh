#!/usr/bin/env bash
# Every mutant of tests/generator_mutants.txt at both sizes, two at a time, by hand: 7 minutes of processor time -> docs/mutants.md
#   mutants.sh [BUILD]     a build folder, build/release where none is named
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The arguments are those that ctest has.
mapfile -t arguments < <(ctest --test-dir "$build" -N -V -R '^generator_mutants$' |
    sed -n 's/^.*Test command: //p' | xargs -n 1 | tail -n +2)
[ ${#arguments[@]} -gt 3 ] || { echo "$build: no test generator_mutants: configure it without sanitizers" >&2; exit 2; }
tests/generator_mutants.sh --half 1 "$work/second" "${arguments[@]}" &
status=0
tests/generator_mutants.sh --half 0 "$work/first" "${arguments[@]}" || status=$?
wait $! || status=$?
paste -d '\n' "$work/first" "$work/second" | sed '/^$/d' >"$work/rows"
[ $status = 0 ] || { cat "$work/rows"; exit $status; }
count() { grep -c "$@" "$work/rows"; }
{
    cat <<'PAGE'
# Mutants of the generator

Is verification any good? Each row below is one line of the generator changed in one place: an index, a constant, a sign, a stride, a bias, a
block, an order. The mutant is built into the command, and `ffngen verify` must fail with a verdict; where a mutant computes the same values, a test must fail. Rows, edits and the specs and plans
of both sizes stand in `tests/generator_mutants.txt`. `scripts/mutants.sh` runs all of them and wrote this page; the tests run every twentieth.
They run on AVX2 where the machine has it: where a vector fills a panel, as with AVX-512, some of the rows change nothing.

"Small" is a set of shapes below 100x303 that meets every kind of block, tail and chain. "Large" is 4096x14336, with or without gate and biases, or a shape
with one side that large where the changed line serves no other (chains need a side of at most 64, tails one that is no multiple of 16). The letter is the
check of [verification.md](verification.md) that found it first, the word what was run: (a) equal bits with the portable kernel, (b) libm, (c) the product; `ffngen verify` always has (c).

**Would a worst-case bound have found it?** "Share" is the largest error of y, against sums in double, as a share of the textbook bound: gamma_m = m u / (1 - m u), u = 2^-24,
times the sum of the absolute products, for both stages, plus the activation's own bound (`worst_case_share` of `ffngen verify --json`, worked out in
`runtime/verify_product.c`). At most 1 passes. Where what is wrong is an entry that y of the fused nest does not come from, or a block of another pass, the share is that of
plain rounding, far below 1: no bound on y finds those. The others are far above 1 here because most columns of the sampled weights have few terms. On weights filled in full at
4096x14336 (swiglu, uniform in -1 .. 1) the same bound is 99 where y is 52 (root of the mean of squares): a kernel that gives nothing but zeros stays within it in 243 of 256 columns.

PAGE
    echo "$(count '') mutants, $(count -v '| | |$') at a large size: a worst-case bound would have passed $(count 'passes |$') of those."
    echo
    echo '| mutant | file | small | large | share | |'
    echo '|---|---|---|---|---|---|'
    cat "$work/rows"
} >docs/mutants.md
