/* formula_lanes.h: the body of formula_eval's inner function; included once for each way to do an FMA
 *
 *   LANES_NAME     the function
 *   LANES_TARGET   its attributes
 *   LANES_FMA      *to = a * b + c rounded once, on LANES floats
 *
 * memory: slot s stands at memory[s * width]; `used` of its `width` vectors are computed. A file and not an inline
 * function, because compilers split vectors by the target of the function that the text stands in. */
LANES_TARGET static void LANES_NAME(const formula_graph *graph, const slot_map *map, lanes_word *memory, int32_t width,
                                    int32_t used) {
    for (int32_t i = 0; i < graph->count; i++) {
        const formula_node *const node = &graph->nodes[i];
        lanes_word *const to = memory + map->slot[i] * width;
        const lanes_word *const a = memory + map->slot[node->a] * width;
        const lanes_word *const b = memory + map->slot[node->b] * width;
        const lanes_word *const c = memory + map->slot[node->c] * width;
#define EACH(value)                    \
    for (int32_t k = 0; k < used; k++) \
        to[k] = (lanes_word)(value);   \
    break
#define A ((lanes_float)a[k])
#define B ((lanes_float)b[k])
        switch ((formula_op)node->op) {
        case FORMULA_OP_ADD:
            EACH(A + B);
        case FORMULA_OP_SUB:
            EACH(A - B);
        case FORMULA_OP_MUL:
            EACH(A * B);
        case FORMULA_OP_DIV:
            EACH(A / B);
        case FORMULA_OP_FMA:
            for (int32_t k = 0; k < used; k++)
                LANES_FMA(&to[k], &a[k], &b[k], &c[k]);
            break;
        case FORMULA_OP_SQRT:
            for (int32_t k = 0; k < used; k++)
                lanes_sqrt(&to[k], &a[k]);
            break;
        case FORMULA_OP_NEG:
            EACH(a[k] ^ 0x80000000u);
        case FORMULA_OP_LT:
            EACH(A < B);
        case FORMULA_OP_LE:
            EACH(A <= B);
        case FORMULA_OP_EQ:
            EACH(A == B);
        case FORMULA_OP_NE:
            EACH(A != B);
        case FORMULA_OP_SELECT:
        case FORMULA_OP_WSELECT:
            EACH((a[k] & b[k]) | (~a[k] & c[k]));
        case FORMULA_OP_WADD:
            EACH(a[k] + b[k]);
        case FORMULA_OP_WSUB:
            EACH(a[k] - b[k]);
        case FORMULA_OP_WAND:
            EACH(a[k] & b[k]);
        case FORMULA_OP_WOR:
            EACH(a[k] | b[k]);
        case FORMULA_OP_WXOR:
            EACH(a[k] ^ b[k]);
        case FORMULA_OP_WSHL:
            EACH(a[k] << node->bits);
        case FORMULA_OP_WSHR:
            EACH(a[k] >> node->bits);
        case FORMULA_OP_NUMBER: /* filled once, before the first block */
        case FORMULA_OP_WORD:
        case FORMULA_OP_ARGUMENT: /* filled for each block */
        case FORMULA_OP_BITS:     /* the slot of their operand */
        case FORMULA_OP_FLOAT:
        case FORMULA_OP_COUNT:
            break;
        }
#undef EACH
#undef A
#undef B
    }
}
#undef LANES_NAME
#undef LANES_TARGET
#undef LANES_FMA
