/* activation.c: see activation.h */
#include "activation.h"

#include "formula_cut.h"
#include "formula_ir.h"

/* What moves from vector to vector: where it is in each array, the column, how many are left, and where the result of
 * the one before goes. */
enum { G, U, OUT, ARRAYS, COLUMN = ARRAYS, LEFT, PREVIOUS, MOVED };

typedef struct walk {
    int from; /* the first that is walked: G only where the formula is gated */
    LLVMValueRef phi[MOVED], next[MOVED];
} walk;

static LLVMValueRef load(ir *g, LLVMValueRef place) {
    return ir_load(g, g->vector, place, 4);
}

/* On to the next vector of the row, or to the first one of the next row; at the last vector: nowhere. */
static void step(ir *g, walk *w, const LLVMValueRef *p) {
    static const activation_parameter strides[ARRAYS] = {ACTIVATION_LDG, ACTIVATION_LDU, ACTIVATION_LDO};
    LLVMValueRef zero = ir_int(g, 0), lanes = ir_int(g, g->lanes), more = ir_add(g, w->phi[COLUMN], lanes);
    LLVMValueRef ends = ir_equal(g, more, p[ACTIVATION_COLUMNS]), stays = ir_less(g, w->phi[LEFT], ir_int(g, 2));
    LLVMValueRef back = ir_sub(g, lanes, p[ACTIVATION_COLUMNS]);
    for (int i = w->from; i < ARRAYS; i++) {
        LLVMValueRef down = ir_add(g, p[strides[i]], back), on = ir_select(g, ends, down, lanes);
        w->next[i] = ir_at(g, w->phi[i], ir_select(g, stays, zero, on));
    }
    w->next[COLUMN] = ir_select(g, ends, zero, more);
    w->next[LEFT] = ir_sub(g, w->phi[LEFT], ir_int(g, 1));
    w->next[PREVIOUS] = w->phi[OUT];
}

static void merge(LLVMValueRef phi, LLVMValueRef first, LLVMBasicBlockRef entry, LLVMValueRef again,
                  LLVMBasicBlockRef latch) {
    LLVMAddIncoming(phi, (LLVMValueRef[]){first, again}, (LLVMBasicBlockRef[]){entry, latch}, 2);
}

/* All vectors in one loop, as activation.h has it. */
static void halves(ir *g, const formula_graph *graph, const formula_cut *cut, const LLVMValueRef *p) {
    LLVMValueRef zero = ir_int(g, 0), row_vectors = ir_div(g, p[ACTIVATION_COLUMNS], ir_int(g, g->lanes));
    LLVMValueRef total = ir_mul(g, p[ACTIVATION_ROWS], row_vectors), out = p[ACTIVATION_OUT];
    LLVMBasicBlockRef entry = LLVMGetInsertBlock(g->builder), head = ir_block(g, "vector"), done = ir_block(g, "done");
    LLVMBuildCondBr(g->builder, ir_less(g, zero, total), head, done);

    LLVMPositionBuilderAtEnd(g->builder, head);
    const LLVMValueRef first[MOVED] = {p[ACTIVATION_G], p[ACTIVATION_U], out, zero, total, out};
    walk w = {.from = graph->gated ? G : U};
    for (int i = w.from; i < MOVED; i++)
        w.phi[i] = LLVMBuildPhi(g->builder, LLVMTypeOf(first[i]), "");
    LLVMValueRef values[FORMULA_NODES_MAX] = {0}, before[FORMULA_NODES_MAX] = {0}; /* of this vector and of the last */
    for (int32_t i = 0; i < cut->carried_count; i++) {
        LLVMTypeRef type = formula_ir_is_word(graph, cut->carried[i]) ? g->word_vector : g->vector;
        before[cut->carried[i]] = LLVMBuildPhi(g->builder, type, "");
    }
    LLVMValueRef carried[CUT_CARRIED_MAX];
    for (int32_t i = 0; i < cut->carried_count; i++)
        carried[i] = before[cut->carried[i]];

    LLVMValueRef u = load(g, w.phi[U]), gate = graph->gated ? load(g, w.phi[G]) : u;
    formula_ir_nodes(g, graph, cut->half, 0, gate, u, values);
    step(g, &w, p);
    ir_if started = ir_if_begin(g, ir_less(g, w.phi[LEFT], total), "started");
    formula_ir_nodes(g, graph, cut->half, 1, NULL, NULL, before);
    ir_store(g, before[graph->result], w.phi[PREVIOUS], 4);
    ir_if_end(g, &started);

    LLVMBasicBlockRef latch = LLVMGetInsertBlock(g->builder);
    LLVMBuildCondBr(g->builder, ir_less(g, ir_int(g, -1), w.next[LEFT]), head, done);
    for (int i = w.from; i < MOVED; i++)
        merge(w.phi[i], first[i], entry, w.next[i], latch);
    for (int32_t i = 0; i < cut->carried_count; i++)
        merge(carried[i], LLVMConstNull(LLVMTypeOf(carried[i])), entry, values[cut->carried[i]], latch);
    LLVMPositionBuilderAtEnd(g->builder, done);
}

static void whole(ir *g, const formula_graph *graph, const LLVMValueRef *p) {
    LLVMValueRef zero = ir_int(g, 0);
    ir_loop row = ir_loop_begin(g, zero, p[ACTIVATION_ROWS], ir_int(g, 1), "row");
    LLVMValueRef g_row = ir_at(g, p[ACTIVATION_G], ir_mul(g, row.i, p[ACTIVATION_LDG]));
    LLVMValueRef u_row = ir_at(g, p[ACTIVATION_U], ir_mul(g, row.i, p[ACTIVATION_LDU]));
    LLVMValueRef out_row = ir_at(g, p[ACTIVATION_OUT], ir_mul(g, row.i, p[ACTIVATION_LDO]));
    ir_loop column = ir_loop_begin(g, zero, p[ACTIVATION_COLUMNS], ir_int(g, g->lanes), "vector");
    LLVMValueRef u = load(g, ir_at(g, u_row, column.i)), gate = graph->gated ? load(g, ir_at(g, g_row, column.i)) : u;
    LLVMValueRef place = ir_at(g, out_row, column.i);
    ir_store(g, formula_ir(g, graph, gate, u), place, 4);
    ir_loop_end_over_arrays(g, &column);
    ir_loop_end(g, &row);
}

LLVMValueRef activation_function(ir *g, const formula_graph *graph) {
    static const char *const names[] = {"g", "ldg", "u", "ldu", "out", "ldo", "rows", "columns"};
    LLVMTypeRef types[] = {g->pointer, g->i64, g->pointer, g->i64, g->pointer, g->i64, g->i64, g->i64};
    LLVMValueRef function = ir_function(g, "activation", g->void_type, types, ACTIVATION_PARAMETERS, IR_INTERNAL);
    LLVMValueRef p[ACTIVATION_PARAMETERS];
    for (int i = 0; i < ACTIVATION_PARAMETERS; i++)
        p[i] = ir_parameter(g, i, names[i]);
    formula_cut cut;
    if (formula_cut_find(graph, &cut))
        halves(g, graph, &cut, p);
    else
        whole(g, graph, p);
    ir_return(g);
    return function;
}
