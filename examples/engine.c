/* engine.c: the feed-forward layers of a decoder, run as an inference engine runs them
 *
 *     engine [SPEC] [LAYERS] [TOKENS] [STEPS] [THREADS]
 *
 * Links libffn alone: the compiler is loaded when the store lacks a kernel; where there is none the portable kernel
 * serves, with the same bits. One kernel serves all layers, whose weights are packed into files (./SPEC.LAYER.ffnw)
 * the first time and mapped from then on. TOKENS rows go through all layers together (prefill), then STEPS single rows,
 * each made from the one before (decode), on 1, 2, ... THREADS threads. Exit status 1 if that changes any bit. */
#define _POSIX_C_SOURCE 200809L
#include <ffn.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNT_MAX 256 /* of layers, tokens, steps, threads */

typedef struct engine {
    ffn_spec spec;
    ffn_kernel *kernel;
    long layers, tokens, steps, threads;
    const void *packed[COUNT_MAX]; /* of each layer, mapped */
    size_t packed_bytes;           /* of each */
    float *stream, *x, *y;         /* [tokens][d_model]: what every layer adds to, the FFN's input and its output */
    void *scratch;                 /* for all threads */
    size_t scratch_bytes;
    ffn_work work; /* of the layer: one thread makes it, all run it */
    double prefill_end_ms;
    atomic_long numbered, arrived; /* threads that have a number; arrivals at the barrier so far */
} engine;

static void require(ffn_status status, const char *details) {
    if (status == FFN_OK)
        return;
    fprintf(stderr, "engine: %s: %s\n", ffn_status_text(status), details);
    exit(2);
}

static void *allocate(size_t bytes) {
    void *memory = aligned_alloc(FFN_SCRATCH_ALIGN, (bytes / FFN_SCRATCH_ALIGN + 1) * FFN_SCRATCH_ALIGN);
    require(memory != NULL ? FFN_OK : FFN_OUT_OF_MEMORY, "buffers");
    return memory;
}

static void make_up(float *values, int64_t count, float scale, int64_t seed) {
    uint32_t state = (uint32_t)seed * 2654435761U;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525U + 1013904223U;
        values[i] = ((float)(state >> 8) / (float)(1 << 24) - 0.5F) * scale;
    }
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Once for each model: weights -> a packed file, which any kernel of the spec reads, on any machine. */
static void write_layer(const ffn_spec *spec, long layer, const char *path) {
    const int64_t size = spec->d_model * spec->d_ff;
    float *made = allocate((size_t)(3 * size) * sizeof *made), *gate = made + size, *down = gate + size;
    make_up(made, 3 * size, 3 / sqrtf((float)spec->d_model), layer);
    const ffn_weights weights = {.up.data = made,
                                 .gate.data = ffn_spec_gated(spec) ? gate : NULL,
                                 .down.data = down,
                                 .bias_up = spec->bias & FFN_BIAS_UP ? down : NULL, /* any values will do */
                                 .bias_gate = spec->bias & FFN_BIAS_GATE ? down : NULL,
                                 .bias_down = spec->bias & FFN_BIAS_DOWN ? down : NULL};
    ffn_diag diag;
    require(ffn_pack_file(spec, &weights, path, &diag), diag.text);
    free(made);
}

/* The pages of a mapped layer are the file's own, shared with every process that maps it. */
static void map_layers(engine *e) {
    char name[FFN_SPEC_NAME_BYTES], path[256];
    ffn_diag diag;
    require(ffn_spec_name(&e->spec, false, name, sizeof name, &diag), diag.text);
    for (long layer = 0; layer < e->layers; layer++) {
        snprintf(path, sizeof path, "%s.%ld.ffnw", name, layer);
        if (access(path, F_OK) != 0)
            write_layer(&e->spec, layer, path);
        require(ffn_packed_map(&e->spec, path, &e->packed[layer], &e->packed_bytes, &diag), diag.text);
        require(ffn_packed_check(&e->spec, e->packed[layer], e->packed_bytes, &diag), diag.text); /* reads it all */
    }
}

static void wait_for_all(engine *e) {
    const long last = (atomic_fetch_add(&e->arrived, 1) / e->threads + 1) * e->threads;
    while (atomic_load(&e->arrived) < last)
        sched_yield();
}

/* For every batch: stream += FFN(normalized stream), layer by layer. All threads call it and each does its share. */
static void forward(engine *e, int64_t me, int64_t n) {
    const int64_t d_model = e->spec.d_model;
    for (long layer = 0; layer < e->layers; layer++) {
        ffn_args args = {n, e->x, d_model, e->y, d_model, e->packed[layer], e->scratch, e->scratch_bytes};
        ffn_diag diag;
        if (me == 0)
            require(ffn_work_make(e->kernel, &args, e->threads, &e->work, &diag), diag.text);
        for (int64_t row = me; row < n; row += e->threads) {
            const float *stream = e->stream + row * d_model;
            float squares = 0;
            for (int64_t i = 0; i < d_model; i++)
                squares += stream[i] * stream[i];
            for (int64_t i = 0; i < d_model; i++)
                e->x[row * d_model + i] = stream[i] / sqrtf(squares / (float)d_model + 1e-5F);
        }
        wait_for_all(e);
        const ffn_work work = e->work; /* a plain value, which thread 0 soon makes anew */
        for (int phase = 0; phase < work.phases; phase++) {
            for (int64_t piece = me; piece < work.pieces[phase]; piece += e->threads)
                require(ffn_work_run(&work, phase, piece, &diag), diag.text);
            wait_for_all(e);
        }
        for (int64_t row = me; row < n; row += e->threads)
            for (int64_t i = row * d_model; i < (row + 1) * d_model; i++)
                e->stream[i] += e->y[i];
    }
}

static void *generate_share(void *argument) {
    engine *e = argument;
    const int64_t me = atomic_fetch_add(&e->numbered, 1), last = (e->tokens - 1) * e->spec.d_model;
    forward(e, me, e->tokens);
    wait_for_all(e);
    if (me == 0) { /* whose row 0 always is */
        e->prefill_end_ms = now_ms();
        memmove(e->stream, e->stream + last, (size_t)e->spec.d_model * sizeof(float));
    }
    for (long step = 0; step < e->steps; step++)
        forward(e, me, 1);
    return NULL;
}

/* Prefill and decode on so many threads -> a line, and a digest of what is left in the stream. */
static unsigned long long generate(engine *e, long threads) {
    pthread_t others[COUNT_MAX];
    e->scratch_bytes = ffn_work_scratch_bytes(e->kernel, e->tokens, threads); /* room for either */
    e->scratch_bytes += ffn_work_scratch_bytes(e->kernel, 1, threads);
    e->scratch = allocate(e->scratch_bytes);
    e->threads = threads;
    e->numbered = e->arrived = 0;
    make_up(e->stream, e->tokens * e->spec.d_model, 2, -1); /* as if embedded */
    const double begin = now_ms();
    for (long t = 1; t < threads; t++)
        require(pthread_create(&others[t], NULL, generate_share, e) ? FFN_SYSTEM : FFN_OK, "no more threads");
    generate_share(e);
    for (long t = 1; t < threads; t++)
        pthread_join(others[t], NULL);
    const double end = now_ms();
    const unsigned long long bits = ffn_digest(e->stream, e->tokens, e->spec.d_model, e->spec.d_model);
    printf("threads %ld: prefill %.0f tokens/s, decode %.3f ms/token, bits %016llx\n", threads,
           1e3 * (double)e->tokens / (e->prefill_end_ms - begin), (end - e->prefill_end_ms) / (double)e->steps, bits);
    free(e->scratch);
    return bits;
}

int main(int argc, char **argv) {
    long counts[] = {4, 64, 16, 4}; /* layers, tokens, steps, threads */
    for (int i = 0; i < 4; i++) {
        counts[i] = argc > i + 2 ? atol(argv[i + 2]) : counts[i];
        require(counts[i] < 1 || counts[i] > COUNT_MAX ? FFN_BAD_ARGUMENT : FFN_OK, "counts are 1 .. 256");
    }
    engine e = {.layers = counts[0], .tokens = counts[1], .steps = counts[2]};
    ffn_diag diag;
    require(ffn_spec_parse(argc > 1 ? argv[1] : "d512-f2048-swiglu", &e.spec, &diag), diag.text);
    ffn_context *context; /* one for a process: the store, the compiler, the kernels in memory */
    require(ffn_context_create(NULL, &context, &diag), diag.text);
    require(ffn_kernel_create(context, &e.spec, &e.kernel, &diag), diag.text);
    for (long n = e.tokens; n > 0; n = n > 1 ? 1 : 0) { /* code for many rows and for one */
        char line[FFN_DESCRIBE_BYTES];
        if (ffn_kernel_prepare(e.kernel, n, &diag) != FFN_OK)
            fprintf(stderr, "engine: %s\n", diag.text); /* no failure: the portable kernel serves */
        require(ffn_kernel_describe(e.kernel, n, line, sizeof line, &diag), diag.text);
        printf("n = %ld: %s\n", n, line);
    }
    map_layers(&e);
    e.stream = allocate((size_t)(3 * e.tokens * e.spec.d_model) * sizeof(float));
    e.x = e.stream + e.tokens * e.spec.d_model, e.y = e.x + e.tokens * e.spec.d_model;
    bool same = true;
    const unsigned long long expected = generate(&e, 1);
    for (long threads = 2; threads <= counts[3]; threads++)
        same = generate(&e, threads) == expected && same;
    puts(same ? "the same bits on any number of threads" : "DIFFERENT BITS");
    for (long layer = 0; layer < e.layers; layer++)
        ffn_packed_unmap(e.packed[layer], e.packed_bytes);
    free(e.stream);
    ffn_kernel_destroy(e.kernel);
    ffn_context_destroy(context);
    return same ? 0 : 1;
}
