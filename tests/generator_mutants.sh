#!/usr/bin/env bash
# A generator with one constant or one index wrong makes kernels that fail verification: each mutant below is built and
# must be found out, by status and by a verdict. Exit status 77: this machine runs no generated code.
#   generator_mutants.sh CC INCLUDES LINK...     INCLUDES: folders, ended by ':' each; LINK: what the command is made of
set -euo pipefail
cc=$1 includes=$2
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=gnu17 -O1 -ffp-contract=off -Igen)
while IFS= read -r -d : folder; do flags+=("-I$folder"); done <<<"$includes"

# Sums of one chain, of two and of four, gated and not, blocks of every stage, tails of every kind.
verify() {
    timeout 60 "$work/ffngen" verify d21-f61-swiglu-bias d100-f1100-gelu-bias -n 1,23 --isa "$isa" >"$work/out" 2>&1
}
build() { "$cc" -o "$work/ffngen" "$@" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }; }

build "$@"
isa=$("$work/ffngen" list isas | sed -n 's/^in use: *//p')
[ "$isa" != portable ] || exit 77
verify || { cat "$work/out"; exit 1; }

failed=0 count=0
while IFS='|' read -r name file edit; do
    sed "$edit" "gen/$file" >"$work/mutant.c"
    if [ "$(diff "gen/$file" "$work/mutant.c" | grep -c '^>')" != 1 ]; then
        echo "$name: not one line of $file is changed"
        failed=1
        continue
    fi
    "$cc" "${flags[@]}" -c "$work/mutant.c" -o "$work/mutant.o"
    build "$work/mutant.o" "$@"
    status=0
    verify || status=$?
    if [ $status != 1 ] || ! grep -q ' verification (' "$work/out"; then
        echo "$name: status $status"
        cat "$work/out"
        failed=1
    fi
    count=$((count + 1))
done <<'END'
weights of the neighbouring lane|tile.c|s/v % t->per_panel \* t->g->lanes;/(v + 1) % t->per_panel * t->g->lanes;/
weights of the next term|tile.c|s/at->b, term \* FFN_PANEL +/at->b, (term + 1) * FFN_PANEL +/
last terms left out|tile.c|s/if (!shape->whole_turns)/if (0)/
one term of a chain too few|tile.c|s/ir_less(g, ir_int(g, c), t->p\[TILE_TAIL\])/ir_less(g, ir_int(g, c + 1), t->p[TILE_TAIL])/
chains summed in another order|nest_blocks.c|s/c\[2 \* i\], c\[2 \* i + 1\]/c[i], c[i + half]/
sums that start at the bias in every block|nest_blocks.c|s/\[SWEEP_INIT\] = ir_select(g, starts, ir_at(g, start, column), arguments\[SWEEP_C\])/[SWEEP_INIT] = ir_at(g, start, column)/
two roundings for one|formula_ir.c|s/v = ir_fma(g, x, y, z);/v = LLVMBuildFAdd(b, LLVMBuildFMul(b, x, y, ""), z, "");/
one bit of a constant|formula_ir.c|s/v = ir_splat_bits(g, n->bits);/v = ir_splat_bits(g, n->bits ^ (n->bits == 0x3f800000));/
gate and up exchanged|formula_ir.c|s/n->bits == 0 ? gate : up/n->bits != 0 || !up ? gate : up/
a row left out|nest.c|s/ir_less(g, i, cut->extra), g->i64/ir_less(g, i, ir_int(g, 0)), g->i64/
first of the tail left out|nest.c|s/ir_loop_begin(g, whole, count, one, "tail")/ir_loop_begin(g, ir_add(g, whole, one), count, one, "tail")/
END
echo "$count mutants"
exit $failed
