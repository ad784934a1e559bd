/* onednn_matmul.c: descriptors, post-ops, reordered weights and memory objects of one product */
#include "onednn_matmul.h"

#include <stdlib.h>
#include <string.h>

/* By name as a spec has it; PARAMETER stands for the number in brackets, or the default that follows. */
#define PARAMETER(usual) (usual), true
#define CONSTANT(value) (value), false

onednn_activation onednn_activation_of(const char *activation) {
    static const struct {
        const char *name;
        dnnl_alg_kind_t kind; /* undef: nothing to do */
        float alpha;
        bool parameter; /* alpha is the parameter of the name where that has one */
        float beta;
        dnnl_alg_kind_t then;
        float then_alpha, then_beta;
    } rows[] = {
        {"identity", dnnl_alg_kind_undef, CONSTANT(0), 0, dnnl_alg_kind_undef, 0, 0},
        {"relu", dnnl_eltwise_relu, CONSTANT(0), 0, dnnl_alg_kind_undef, 0, 0},
        {"relu2", dnnl_eltwise_relu, CONSTANT(0), 0, dnnl_eltwise_square, 0, 0},
        {"leaky_relu", dnnl_eltwise_relu, PARAMETER(0.01f), 0, dnnl_alg_kind_undef, 0, 0},
        {"gelu", dnnl_eltwise_gelu_erf, CONSTANT(0), 0, dnnl_alg_kind_undef, 0, 0},
        {"gelu_tanh", dnnl_eltwise_gelu_tanh, CONSTANT(0), 0, dnnl_alg_kind_undef, 0, 0},
        {"gelu_quick", dnnl_eltwise_swish, CONSTANT(1.702f), 0, dnnl_alg_kind_undef, 0, 0},
        {"silu", dnnl_eltwise_swish, CONSTANT(1), 0, dnnl_alg_kind_undef, 0, 0},
        {"swish", dnnl_eltwise_swish, PARAMETER(1), 0, dnnl_alg_kind_undef, 0, 0},
        {"sigmoid", dnnl_eltwise_logistic, CONSTANT(0), 0, dnnl_alg_kind_undef, 0, 0},
        {"tanh", dnnl_eltwise_tanh, CONSTANT(0), 0, dnnl_alg_kind_undef, 0, 0},
        {"elu", dnnl_eltwise_elu, PARAMETER(1), 0, dnnl_alg_kind_undef, 0, 0},
        {"selu", dnnl_eltwise_elu, CONSTANT(1.67326324f), 0, dnnl_eltwise_linear, 1.05070099f, 0},
        {"softplus", dnnl_eltwise_soft_relu, CONSTANT(1), 0, dnnl_alg_kind_undef, 0, 0},
        {"mish", dnnl_eltwise_mish, CONSTANT(0), 0, dnnl_alg_kind_undef, 0, 0},
        {"hardsigmoid", dnnl_eltwise_linear, CONSTANT(1.0f / 6), 0.5f, dnnl_eltwise_clip, 0, 1},
        {"hardswish", dnnl_eltwise_hardswish, CONSTANT(1.0f / 6), 0.5f, dnnl_alg_kind_undef, 0, 0},
        {"glu", dnnl_eltwise_logistic, CONSTANT(0), 0, dnnl_alg_kind_undef, 0, 0},
        {"reglu", dnnl_eltwise_relu, CONSTANT(0), 0, dnnl_alg_kind_undef, 0, 0},
        {"geglu", dnnl_eltwise_gelu_erf, CONSTANT(0), 0, dnnl_alg_kind_undef, 0, 0},
        {"geglu_tanh", dnnl_eltwise_gelu_tanh, CONSTANT(0), 0, dnnl_alg_kind_undef, 0, 0},
        {"swiglu", dnnl_eltwise_swish, CONSTANT(1), 0, dnnl_alg_kind_undef, 0, 0},
        {"bilinear", dnnl_alg_kind_undef, CONSTANT(0), 0, dnnl_alg_kind_undef, 0, 0},
    };
    onednn_activation made = {0};
    size_t length = strcspn(activation, "(");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strlen(rows[i].name) != length || strncmp(rows[i].name, activation, length))
            continue;
        made.fused = true;
        bool given = rows[i].parameter && activation[length];
        if (rows[i].kind != dnnl_alg_kind_undef) {
            made.eltwise[made.count].kind = rows[i].kind;
            made.eltwise[made.count].beta = rows[i].beta;
            made.eltwise[made.count++].alpha = given ? strtof(activation + length + 1, NULL) : rows[i].alpha;
        }
        if (rows[i].then != dnnl_alg_kind_undef) {
            made.eltwise[made.count].kind = rows[i].then;
            made.eltwise[made.count].alpha = rows[i].then_alpha;
            made.eltwise[made.count++].beta = rows[i].then_beta;
        }
    }
    return made;
}

/* The descriptors a product is made from; all are freed together. */
typedef struct descriptors {
    dnnl_memory_desc_t from, weights, in_out, out_in, bias, to;
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    dnnl_primitive_desc_t pd, reorder;
} descriptors;

static void free_descriptors(descriptors *d) {
    md_free(&d->from);
    md_free(&d->weights);
    md_free(&d->in_out);
    md_free(&d->out_in);
    md_free(&d->bias);
    md_free(&d->to);
    if (d->ops)
        dnnl_post_ops_destroy(d->ops);
    if (d->attr)
        dnnl_primitive_attr_destroy(d->attr);
    if (d->pd)
        dnnl_primitive_desc_destroy(d->pd);
    if (d->reorder)
        dnnl_primitive_desc_destroy(d->reorder);
}

static bool describe(descriptors *d, int64_t n, int64_t in, int64_t out, dnnl_format_tag_t tag,
                     const onednn_activation *activation, bool factor) {
    const dnnl_dims_t from = {n, in}, matrix = {in, out}, bias = {1, out}, to = {n, out};
    bool made = !md_make(&d->from, from, dnnl_ab) && !md_make(&d->weights, matrix, tag) &&
                !md_make(&d->in_out, matrix, dnnl_ab) && !md_make(&d->out_in, matrix, dnnl_ba) &&
                !md_make(&d->bias, bias, dnnl_ab) && !md_make(&d->to, to, dnnl_ab) &&
                !dnnl_primitive_attr_create(&d->attr) && !dnnl_post_ops_create(&d->ops) &&
                !dnnl_primitive_attr_set_scratchpad_mode(d->attr, dnnl_scratchpad_mode_user);
    for (int i = 0; made && activation && i < activation->count; i++)
        made = !add_eltwise(d->ops, activation->eltwise[i].kind, activation->eltwise[i].alpha,
                            activation->eltwise[i].beta);
    if (made && factor)
        made = !dnnl_post_ops_append_binary(d->ops, dnnl_binary_mul, MD_REF(d->to));
    return made && !dnnl_primitive_attr_set_post_ops(d->attr, d->ops);
}

/* The first matrix into the form `wanted`, then as many copies as there are plain blocks. */
static bool reorder(onednn_matmul *m, descriptors *d, dnnl_engine_t engine, dnnl_stream_t stream, md_ref wanted) {
    bench_layer *layer = m->layer;
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_t plain = NULL, ordered = NULL;
    float *matrix = (float *)(void *)layer->plain.base + layer->matrix[m->product][FFN_IN_OUT];
    bool made = !bench_copies_alloc(&m->reordered, dnnl_memory_desc_get_size(wanted), layer->plain.count) &&
                !dnnl_reorder_primitive_desc_create(&d->reorder, MD_REF(d->in_out), engine, wanted, engine, NULL) &&
                !dnnl_primitive_create(&primitive, d->reorder) &&
                !dnnl_memory_create(&plain, MD_REF(d->in_out), engine, matrix) &&
                !dnnl_memory_create(&ordered, wanted, engine, m->reordered.base);
    if (made) {
        const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, ordered}};
        made = !dnnl_primitive_execute(primitive, stream, 2, args) && !dnnl_stream_wait(stream);
    }
    if (plain)
        dnnl_memory_destroy(plain);
    if (ordered)
        dnnl_memory_destroy(ordered);
    if (primitive)
        dnnl_primitive_destroy(primitive);
    if (made)
        bench_copies_spread(&m->reordered);
    return made;
}

static bool make(onednn_matmul *m, descriptors *d, dnnl_engine_t engine, dnnl_stream_t stream, const float *from,
                 float *to, bool has_bias, float *factor) {
    if (matmul_desc(&d->pd, engine, MD_REF(d->from), MD_REF(d->weights), has_bias ? MD_REF(d->bias) : NULL,
                    MD_REF(d->to), d->attr) ||
        dnnl_primitive_create(&m->primitive, d->pd))
        return false;
    dnnl_primitive_desc_query(d->pd, dnnl_query_impl_info_str, 0, (void *)&m->implementation);
    md_ref wanted = dnnl_primitive_desc_query_md(d->pd, dnnl_query_weights_md, 0);
    md_ref scratchpad = dnnl_primitive_desc_query_md(d->pd, dnnl_query_scratchpad_md, 0);
    m->plain = -1;
    if (dnnl_memory_desc_equal(wanted, MD_REF(d->in_out)))
        m->plain = m->layer->matrix[m->product][FFN_IN_OUT];
    else if (dnnl_memory_desc_equal(wanted, MD_REF(d->out_in)))
        m->plain = m->layer->matrix[m->product][FFN_OUT_IN];
    else if (!reorder(m, d, engine, stream, wanted))
        return false;
    size_t scratch_bytes = scratchpad ? dnnl_memory_desc_get_size(scratchpad) : 0;
    m->scratch = scratch_bytes ? bench_alloc(scratch_bytes) : NULL;
    return (!scratch_bytes || (m->scratch && !dnnl_memory_create(&m->scratchpad, scratchpad, engine, m->scratch))) &&
           !dnnl_memory_create(&m->from, MD_REF(d->from), engine, (float *)from) &&
           !dnnl_memory_create(&m->weights, wanted, engine, m->layer->plain.base) &&
           (!has_bias || !dnnl_memory_create(&m->bias, MD_REF(d->bias), engine, m->layer->plain.base)) &&
           !dnnl_memory_create(&m->to, MD_REF(d->to), engine, to) &&
           (!factor || !dnnl_memory_create(&m->factor, MD_REF(d->to), engine, factor));
}

bool onednn_matmul_make(onednn_matmul *matmul, dnnl_engine_t engine, dnnl_stream_t stream, bench_layer *layer,
                        bench_product product, dnnl_format_tag_t tag, int64_t n, const float *from, float *to,
                        const onednn_activation *activation, float *factor) {
    static const uint32_t flags[BENCH_PRODUCTS] = {FFN_BIAS_UP, FFN_BIAS_GATE, FFN_BIAS_DOWN};
    const ffn_spec *spec = &layer->spec;
    bool down = product == BENCH_DOWN;
    descriptors d = {0};
    *matmul = (onednn_matmul){.layer = layer, .product = product, .factor_at = activation ? activation->count : 0};
    bool made = describe(&d, n, down ? spec->d_ff : spec->d_model, down ? spec->d_model : spec->d_ff, tag, activation,
                         factor != NULL) &&
                make(matmul, &d, engine, stream, from, to, spec->bias & flags[product], factor);
    free_descriptors(&d);
    if (!made)
        onednn_matmul_free(matmul);
    return made;
}

void onednn_matmul_free(onednn_matmul *m) {
    dnnl_memory_t *const memories[] = {&m->from, &m->weights, &m->bias, &m->to, &m->factor, &m->scratchpad};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++) {
        if (*memories[i])
            dnnl_memory_destroy(*memories[i]);
    }
    if (m->primitive)
        dnnl_primitive_destroy(m->primitive);
    bench_copies_free(&m->reordered);
    bench_free(m->scratch);
    *m = (onednn_matmul){0};
}

dnnl_status_t onednn_matmul_run(onednn_matmul *m, dnnl_stream_t stream, int64_t copy) {
    char *block = m->layer->plain.base + (size_t)copy * m->layer->plain.stride;
    void *matrix = m->plain < 0 ? m->reordered.base + (size_t)copy * m->reordered.stride
                                : (void *)((float *)(void *)block + m->plain);
    dnnl_exec_arg_t args[6] = {{DNNL_ARG_SRC, m->from}, {DNNL_ARG_WEIGHTS, m->weights}, {DNNL_ARG_DST, m->to}};
    int count = 3;
    dnnl_status_t status = dnnl_memory_set_data_handle(m->weights, matrix);
    if (m->bias) {
        if (!status)
            status = dnnl_memory_set_data_handle(m->bias, (float *)(void *)block + m->layer->bias[m->product]);
        args[count++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, m->bias};
    }
    if (m->scratchpad)
        args[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, m->scratchpad};
    if (m->factor)
        args[count++] = (dnnl_exec_arg_t){DNNL_ARG_ATTR_MULTIPLE_POST_OP(m->factor_at) | DNNL_ARG_SRC_1, m->factor};
    return status ? status : dnnl_primitive_execute(m->primitive, stream, count, args);
}
