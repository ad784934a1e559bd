/* jit.c: spec text -> kernel, compiled now -> run: what an inference engine does at start-up and then for every batch
 *
 *     jit [SPEC] [N]        a preset or a spec text, and the number of rows; weights are made up */
#include <ffn.h>
#include <ffngen.h>
#include <stdio.h>
#include <stdlib.h>

static void *owned[16]; /* freed at the end */
static int owned_count;

static void *allocate(size_t bytes) {
    void *memory = aligned_alloc(FFN_SCRATCH_ALIGN, (bytes / FFN_SCRATCH_ALIGN + 1) * FFN_SCRATCH_ALIGN);
    if (memory == NULL) {
        fputs("jit: out of memory\n", stderr);
        exit(1);
    }
    owned[owned_count++] = memory;
    return memory;
}

/* Small values with both signs, the same on every machine. */
static float *made_up(int64_t count, float scale) {
    static uint32_t state = 1;
    float *values = allocate((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525U + 1013904223U;
        values[i] = ((float)(state >> 8) / (float)(1 << 24) - 0.5F) * scale;
    }
    return values;
}

static void require(ffn_status status, const ffn_diag *diag) {
    if (status != FFN_OK) {
        fprintf(stderr, "jit: %s: %s\n", ffn_status_text(status), diag->text);
        exit(1);
    }
}

int main(int argc, char **argv) {
    ffn_diag diag;
    ffn_spec spec;
    require(ffn_spec_parse(argc > 1 ? argv[1] : "d512-f2048-gelu-bias", &spec, &diag), &diag);
    const int64_t n = argc > 2 ? atoll(argv[2]) : 16;
    if (n < 1 || n > 65536) {
        fputs("jit: N is 1 .. 65536\n", stderr);
        return 2;
    }

    /* Once for each model: pack the weights into the one form that every kernel of this spec reads. */
    const int64_t size = spec.d_model * spec.d_ff;
    ffn_weights weights = {.up = {.data = made_up(size, 0.1F)}, .down = {.data = made_up(size, 0.1F)}};
    if (ffn_spec_gated(&spec))
        weights.gate.data = made_up(size, 0.1F);
    if (spec.bias & FFN_BIAS_UP)
        weights.bias_up = made_up(spec.d_ff, 0.1F);
    if (spec.bias & FFN_BIAS_GATE)
        weights.bias_gate = made_up(spec.d_ff, 0.1F);
    if (spec.bias & FFN_BIAS_DOWN)
        weights.bias_down = made_up(spec.d_model, 0.1F);
    size_t packed_bytes;
    require(ffn_packed_bytes(&spec, &packed_bytes, &diag), &diag);
    void *packed = allocate(packed_bytes);
    require(ffn_pack(&spec, &weights, packed, packed_bytes, &diag), &diag);

    /* Once for each process. Leave `source` out and the portable kernel serves, with the same bits. */
    ffn_context *context;
    require(ffn_context_create(&(ffn_options){.source = ffngen_source()}, &context, &diag), &diag);

    /* Once for each layer shape: compiled for the class of n, verified, then shared by all threads. A failure here is
     * no failure of the run: the portable kernel goes on serving. */
    ffn_kernel *kernel;
    require(ffn_kernel_create(context, &spec, &kernel, &diag), &diag);
    if (ffn_kernel_prepare(kernel, n, &diag) != FFN_OK)
        fprintf(stderr, "jit: %s; the portable kernel serves\n", diag.text);

    /* For every batch: scratch is the caller's, one for each thread, and does not grow with n. */
    const size_t scratch_bytes = ffn_kernel_scratch_bytes(kernel);
    ffn_args args = {.n = n,
                     .x = made_up(n * spec.d_model, 2.0F),
                     .ldx = spec.d_model,
                     .y = allocate((size_t)(n * spec.d_model) * sizeof(float)),
                     .ldy = spec.d_model,
                     .packed = packed,
                     .scratch = allocate(scratch_bytes),
                     .scratch_bytes = scratch_bytes};
    require(ffn_kernel_run(kernel, &args, &diag), &diag);

    ffn_kernel_info info;
    ffn_kernel_inspect(kernel, n, &info);
    printf("%s kernel, %s; compiled in %.1f ms, verified in %.1f ms\n", ffn_isa_name(info.isa),
           info.verified ? "verified" : "not verified", info.compile_ms, info.verify_ms);
    printf("y[0][0] = %g, digest of all outputs %016llx\n", args.y[0],
           (unsigned long long)ffn_digest(args.y, n, spec.d_model, spec.d_model));

    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    while (owned_count > 0)
        free(owned[--owned_count]);
    return 0;
}
