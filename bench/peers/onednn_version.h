/* onednn_version.h: the C interface of oneDNN 2 and 3 under one set of names
 *
 * A memory descriptor is a value in 2 and a handle in 3; a primitive descriptor is made in two steps or in one. */
#ifndef BENCH_ONEDNN_VERSION_H
#define BENCH_ONEDNN_VERSION_H

#include <oneapi/dnnl/dnnl.h>

#if DNNL_VERSION_MAJOR >= 3

typedef const_dnnl_memory_desc_t md_ref;
#define MD_REF(md) (md)

static inline dnnl_status_t md_make(dnnl_memory_desc_t *md, const dnnl_dims_t dims, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_create_with_tag(md, 2, dims, dnnl_f32, tag);
}

static inline void md_free(dnnl_memory_desc_t *md) {
    if (*md)
        dnnl_memory_desc_destroy(*md);
}

static inline dnnl_status_t add_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha, float beta) {
    return dnnl_post_ops_append_eltwise(ops, kind, alpha, beta);
}

static inline dnnl_status_t matmul_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, md_ref src, md_ref weights,
                                        md_ref bias, md_ref dst, const_dnnl_primitive_attr_t attr) {
    return dnnl_matmul_primitive_desc_create(pd, engine, src, weights, bias, dst, attr);
}

#else

typedef const dnnl_memory_desc_t *md_ref;
#define MD_REF(md) (&(md))

static inline dnnl_status_t md_make(dnnl_memory_desc_t *md, const dnnl_dims_t dims, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_init_by_tag(md, 2, dims, dnnl_f32, tag);
}

static inline void md_free(dnnl_memory_desc_t *md) {
    (void)md;
}

static inline dnnl_status_t add_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha, float beta) {
    return dnnl_post_ops_append_eltwise(ops, 1, kind, alpha, beta);
}

static inline dnnl_status_t matmul_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, md_ref src, md_ref weights,
                                        md_ref bias, md_ref dst, const_dnnl_primitive_attr_t attr) {
    dnnl_matmul_desc_t desc;
    dnnl_status_t status = dnnl_matmul_desc_init(&desc, src, weights, bias, dst);
    return status ? status : dnnl_primitive_desc_create(pd, &desc, attr, engine, NULL);
}

#endif
#endif
