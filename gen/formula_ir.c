/* formula_ir.c: see formula_ir.h
 *
 * No fast-math flag is set (but by free_order.h, for a measurement), so LLVM keeps each operation and its one rounding
 * as they stand in the graph. */
#include "formula_ir.h"

/* One node, whose operands have their values. */
static LLVMValueRef node_ir(ir *g, const formula_node *n, const LLVMValueRef *values, LLVMValueRef gate,
                            LLVMValueRef up) {
    LLVMBuilderRef b = g->builder;
    LLVMValueRef x = values[n->a], y = values[n->b], z = values[n->c], v = NULL;
    LLVMValueRef distance = ir_splat(g, g->word_vector, LLVMConstInt(g->i32, n->bits, 0));
    switch ((formula_op)n->op) {
    case FORMULA_OP_NUMBER:
        v = ir_splat_bits(g, n->bits);
        break;
    case FORMULA_OP_WORD:
        v = distance;
        break;
    case FORMULA_OP_ARGUMENT:
        v = n->bits == 0 ? gate : up;
        break;
    case FORMULA_OP_ADD:
        v = LLVMBuildFAdd(b, x, y, "");
        break;
    case FORMULA_OP_SUB:
        v = LLVMBuildFSub(b, x, y, "");
        break;
    case FORMULA_OP_MUL:
        v = LLVMBuildFMul(b, x, y, "");
        break;
    case FORMULA_OP_DIV:
        v = LLVMBuildFDiv(b, x, y, "");
        break;
    case FORMULA_OP_FMA:
        v = ir_fma(g, x, y, z);
        break;
    case FORMULA_OP_SQRT: {
        unsigned id = LLVMLookupIntrinsicID("llvm.sqrt", 9);
        v = ir_call(g, LLVMGetIntrinsicDeclaration(g->module, id, &g->vector, 1), &x, 1);
        break;
    }
    case FORMULA_OP_NEG:
        v = LLVMBuildFNeg(b, x, "");
        break;
    case FORMULA_OP_LT:
        v = LLVMBuildFCmp(b, LLVMRealOLT, x, y, "");
        break;
    case FORMULA_OP_LE:
        v = LLVMBuildFCmp(b, LLVMRealOLE, x, y, "");
        break;
    case FORMULA_OP_EQ:
        v = LLVMBuildFCmp(b, LLVMRealOEQ, x, y, "");
        break;
    case FORMULA_OP_NE:
        v = LLVMBuildFCmp(b, LLVMRealUNE, x, y, "");
        break;
    case FORMULA_OP_SELECT:
    case FORMULA_OP_WSELECT:
        v = LLVMBuildSelect(b, x, y, z, "");
        break;
    case FORMULA_OP_BITS:
        v = LLVMBuildBitCast(b, x, g->word_vector, "");
        break;
    case FORMULA_OP_FLOAT:
        v = LLVMBuildBitCast(b, x, g->vector, "");
        break;
    case FORMULA_OP_WADD:
        v = LLVMBuildAdd(b, x, y, "");
        break;
    case FORMULA_OP_WSUB:
        v = LLVMBuildSub(b, x, y, "");
        break;
    case FORMULA_OP_WAND:
        v = LLVMBuildAnd(b, x, y, "");
        break;
    case FORMULA_OP_WOR:
        v = LLVMBuildOr(b, x, y, "");
        break;
    case FORMULA_OP_WXOR:
        v = LLVMBuildXor(b, x, y, "");
        break;
    case FORMULA_OP_WSHL:
        v = LLVMBuildShl(b, x, distance, "");
        break;
    case FORMULA_OP_WSHR:
        v = LLVMBuildLShr(b, x, distance, "");
        break;
    case FORMULA_OP_COUNT:
        break;
    }
    ir_free(g, v);
    return v;
}

void formula_ir_nodes(ir *g, const formula_graph *graph, const uint8_t *half, uint8_t wanted, LLVMValueRef gate,
                      LLVMValueRef up, LLVMValueRef *values) {
    for (int32_t i = 0; i < graph->count; i++) {
        const formula_node *n = &graph->nodes[i];
        if (half[i] == wanted || n->op == FORMULA_OP_NUMBER || n->op == FORMULA_OP_WORD)
            values[i] = node_ir(g, n, values, gate, up);
    }
}

bool formula_ir_is_word(const formula_graph *graph, int32_t node) {
    static const bool word[FORMULA_OP_COUNT] = {
#define FORMULA_OP_WORDS(ID, text, result, a, b, c) [FORMULA_OP_##ID] = FORMULA_##result == FORMULA_WORD,
        FORMULA_OP_LIST(FORMULA_OP_WORDS)
#undef FORMULA_OP_WORDS
    };
    return word[graph->nodes[node].op];
}

LLVMValueRef formula_ir(ir *g, const formula_graph *graph, LLVMValueRef gate, LLVMValueRef up) {
    static const uint8_t all[FORMULA_NODES_MAX] = {0};
    LLVMValueRef values[FORMULA_NODES_MAX] = {0};
    formula_ir_nodes(g, graph, all, 0, gate, up, values);
    return values[graph->result];
}
