/* interleave.c: see interleave.h
 *
 * A vector of each of 8 or 16 rows makes a vector's lanes of terms. Seen as one sequence, row after row, a perfect
 * shuffle moves every element from place i to 2 i (mod its length): the number of a row is three or four bits, and
 * after as many shuffles it has gone from the highest bits of a place to the lowest. */
#include "interleave.h"

enum { FEW_ROWS = 8, ROWS_MAX = 16, LANES_MAX = 16 };

/* One half of the perfect shuffle of two vectors. */
static LLVMValueRef zip(ir *g, LLVMValueRef a, LLVMValueRef b, bool high) {
    LLVMValueRef lanes[LANES_MAX];
    for (int32_t i = 0; i < g->lanes; i++) {
        const int32_t lane = i / 2 + (high ? g->lanes / 2 : 0) + (i % 2 ? g->lanes : 0);
        lanes[i] = LLVMConstInt(g->i32, (unsigned long long)lane, 0);
    }
    return LLVMBuildShuffleVector(g->builder, a, b, LLVMConstVector(lanes, (unsigned)g->lanes), "");
}

static void perfect_shuffle(ir *g, LLVMValueRef *rows, int32_t count) {
    LLVMValueRef out[ROWS_MAX];
    for (int32_t i = 0; i < count / 2; i++) {
        out[2 * i] = zip(g, rows[i], rows[i + count / 2], false);
        out[2 * i + 1] = zip(g, rows[i], rows[i + count / 2], true);
    }
    for (int32_t i = 0; i < count; i++)
        rows[i] = out[i];
}

/* `count` lanes from `first` on. */
static LLVMValueRef part_of(ir *g, LLVMValueRef vector, int32_t first, int32_t count) {
    LLVMValueRef lanes[LANES_MAX];
    if (count == g->lanes)
        return vector;
    for (int32_t i = 0; i < count; i++)
        lanes[i] = LLVMConstInt(g->i32, (unsigned long long)(first + i), 0);
    return LLVMBuildShuffleVector(g->builder, vector, vector, LLVMConstVector(lanes, (unsigned)count), "");
}

/* The whole vectors of a row tile of at most `wide` rows. Its last row stands for those that it has not; what comes of
 * them is written over by the next term. */
static void vectors(ir *g, LLVMValueRef from, LLVMValueRef ld, LLVMValueRef to, LLVMValueRef mr, LLVMValueRef terms,
                    int32_t wide) {
    LLVMValueRef starts[ROWS_MAX], rows[ROWS_MAX], last = ir_sub(g, mr, ir_int(g, 1));
    for (int32_t r = 0; r < wide; r++)
        starts[r] = ir_at(g, from, ir_mul(g, ir_min(g, ir_int(g, r), last), ld));
    ir_loop term = ir_loop_begin(g, ir_int(g, 0), terms, ir_int(g, g->lanes), "terms");
    for (int32_t r = 0; r < wide; r++)
        rows[r] = ir_load(g, g->vector, ir_at(g, starts[r], term.i), 4);
    for (int32_t r = 1; r < wide; r *= 2)
        perfect_shuffle(g, rows, wide);
    LLVMValueRef out = ir_at(g, to, ir_mul(g, term.i, mr));
    const int32_t width = wide < g->lanes ? wide : g->lanes;
    for (int32_t t = 0; t < g->lanes; t++) {
        for (int32_t at = 0; at < wide; at += width) {
            const int32_t place = t * wide + at;
            LLVMValueRef part = part_of(g, rows[place / g->lanes], place % g->lanes, width);
            ir_store(g, part, ir_at_const(g, out, at), 4);
        }
        out = ir_at(g, out, mr);
    }
    ir_loop_end(g, &term);
}

LLVMValueRef interleave_function(ir *g, const row_tiles *tiles) {
    static const char *const names[] = {"from", "ld_from", "to", "ld_to", "rows", "terms"};
    LLVMTypeRef types[] = {g->pointer, g->i64, g->pointer, g->i64, g->i64, g->i64};
    LLVMValueRef function = ir_function(g, "interleave", g->void_type, types, INTERLEAVE_PARAMETERS, IR_INTERNAL);
    LLVMValueRef p[INTERLEAVE_PARAMETERS], zero = ir_int(g, 0), one = ir_int(g, 1);
    for (int32_t i = 0; i < INTERLEAVE_PARAMETERS; i++)
        p[i] = ir_parameter(g, i, names[i]);
    LLVMValueRef terms = p[INTERLEAVE_TERMS], whole = ir_sub(g, terms, ir_rem(g, terms, ir_int(g, g->lanes)));
    ir_loop row = ir_loop_begin(g, zero, p[INTERLEAVE_ROWS], one, "row");
    LLVMValueRef mr = row_tiles_height(g, tiles, ir_sub(g, p[INTERLEAVE_ROWS], row.i));
    LLVMValueRef from = ir_at(g, p[INTERLEAVE_FROM], ir_mul(g, row.i, p[INTERLEAVE_LD_FROM]));
    LLVMValueRef to = ir_at(g, p[INTERLEAVE_TO], ir_mul(g, row.i, p[INTERLEAVE_LD_TO]));
    ir_if few = ir_if_begin(g, ir_less(g, mr, ir_int(g, FEW_ROWS + 1)), "few");
    vectors(g, from, p[INTERLEAVE_LD_FROM], to, mr, whole, FEW_ROWS);
    ir_if_end(g, &few);
    if (tiles->tallest > FEW_ROWS) {
        ir_if many = ir_if_begin(g, ir_less(g, ir_int(g, FEW_ROWS), mr), "many");
        vectors(g, from, p[INTERLEAVE_LD_FROM], to, mr, whole, ROWS_MAX);
        ir_if_end(g, &many);
    }
    ir_loop term = ir_loop_begin(g, whole, terms, one, "rest");
    ir_loop each = ir_loop_begin(g, zero, mr, one, "each");
    LLVMValueRef place = ir_at(g, ir_at(g, from, ir_mul(g, each.i, p[INTERLEAVE_LD_FROM])), term.i);
    ir_store(g, ir_load(g, g->f32, place, 4), ir_at(g, ir_at(g, to, ir_mul(g, term.i, mr)), each.i), 4);
    ir_loop_end(g, &each);
    ir_loop_end(g, &term);
    row.step = mr;
    ir_loop_end(g, &row);
    ir_return(g);
    return function;
}
