/* runtime.c: what an engine pays for libffn apart from the arithmetic: starting warm, finding a kernel, calling it,
 * keeping many
 *
 *     bench_runtime [--quick]
 *
 * Links libffn alone; the compiler is loaded by libffn when something has to be compiled. Each line is a figure of this
 * run, the minimum and the median of many samples; pairs that are compared take turns. --quick: fewer shapes. */
#define _GNU_SOURCE
#include <ffn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call) check((call), #call)

static ffn_diag diag;

static void check(ffn_status status, const char *call) {
    if (status != FFN_OK) {
        fprintf(stderr, "bench_runtime: %s: %s\n", call, diag.text);
        exit(1);
    }
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct summary {
    double min, median;
} summary;

static summary summarise(double *samples, int count) {
    qsort(samples, (size_t)count, sizeof *samples, by_value);
    return (summary){samples[0], samples[count / 2]};
}

static char folder[] = "/tmp/ffn_bench_XXXXXX"; /* the store and the packed weights of this run */
static char path_bytes[64];

static const char *in_folder(const char *name) {
    snprintf(path_bytes, sizeof path_bytes, "%s/%s", folder, name);
    return path_bytes;
}

static ffn_context *context_of(const char *store, size_t cache_bytes) {
    ffn_context *context;
    CHECK(ffn_context_create(&(ffn_options){.store = store, .cache_bytes = cache_bytes}, &context, &diag));
    return context;
}

static ffn_spec spec_of(const char *text) {
    ffn_spec spec;
    CHECK(ffn_spec_parse(text, &spec, &diag));
    return spec;
}

static void *aligned(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory == NULL) {
        fputs("bench_runtime: out of memory\n", stderr);
        exit(1);
    }
    memset(memory, 0, (bytes + 63) / 64 * 64);
    return memory;
}

/* ---- Warm start -------------------------------------------------------------------------------------------- */

static const char warm_spec[] = "d512-f2048-relu";

static void prepare_warm_start(void) {
    ffn_spec spec = spec_of(warm_spec);
    float *up = aligned(512 * 2048 * sizeof *up), *down = aligned(512 * 2048 * sizeof *down);
    for (int i = 0; i < 512 * 2048; i++)
        up[i] = down[i] = (float)(i % 7 - 3) * 0.01F;
    const ffn_weights weights = {.up = {.data = up}, .down = {.data = down}};
    CHECK(ffn_pack_file(&spec, &weights, in_folder("w.ffnw"), &diag));
    free(up);
    free(down);
}

static bool maps_llvm(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    bool found = false;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        found = found || strstr(line, "libLLVM") != NULL;
    if (maps != NULL)
        fclose(maps);
    return found;
}

/* A process of its own, from the first line of main to the first result. */
static int warm_start(double began, const char *from_folder) {
    strcpy(folder, from_folder);
    ffn_spec spec = spec_of(warm_spec);
    ffn_context *context = context_of(in_folder("store"), 0);
    ffn_kernel *kernel;
    CHECK(ffn_kernel_create(context, &spec, &kernel, &diag));
    CHECK(ffn_kernel_prepare(kernel, 1, &diag));
    const void *packed;
    size_t packed_bytes;
    CHECK(ffn_packed_map(&spec, in_folder("w.ffnw"), &packed, &packed_bytes, &diag));
    size_t scratch_bytes = ffn_kernel_scratch_bytes(kernel);
    float x[512] = {1}, y[512];
    ffn_args args = {1, x, 512, y, 512, packed, aligned(scratch_bytes), scratch_bytes};
    CHECK(ffn_kernel_run(kernel, &args, &diag));
    double ms = (now_ns() - began) * 1e-6;
    ffn_counters counters;
    ffn_context_counters(context, &counters);
    printf("%.3f %d %d\n", ms, maps_llvm(), (int)counters.compiled);
    return 0;
}

static void measure_warm_start(const char *program) {
    enum { STARTS = 41 };
    prepare_warm_start();
    double samples[STARTS];
    int llvm = 0, compiled = 0;
    for (int i = -1; i < STARTS; i++) { /* the first one fills the store */
        char command[512], line[128] = "";
        snprintf(command, sizeof command, "%s --warm-start %s", program, folder);
        FILE *child = popen(command, "r");
        double ms = 0;
        int maps = 0, built = 0;
        if (child == NULL || fgets(line, sizeof line, child) == NULL ||
            sscanf(line, "%lf %d %d", &ms, &maps, &built) != 3 || pclose(child) != 0) {
            fputs("bench_runtime: the process that starts warm failed\n", stderr);
            exit(1);
        }
        if (i >= 0) {
            samples[i] = ms;
            llvm += maps;
            compiled += built;
        }
    }
    summary s = summarise(samples, STARTS);
    printf("warm start, %s n=1, main() to first result: min %.2f ms, median %.2f ms; libLLVM loaded in %d of %d, "
           "compiled in %d\n",
           warm_spec, s.min, s.median, llvm, STARTS, compiled);
}

/* ---- Lookups ----------------------------------------------------------------------------------------------- */

typedef struct seeker {
    ffn_context *context;
    ffn_spec spec;
    pthread_barrier_t *start;
    int64_t lookups;
    double ns; /* of each lookup */
} seeker;

/* Spec -> a held kernel whose class has its code -> given back. */
static void *seek(void *data) {
    seeker *s = data;
    pthread_barrier_wait(s->start);
    double began = now_ns();
    for (int64_t i = 0; i < s->lookups; i++) {
        ffn_kernel *kernel;
        if (ffn_kernel_create(s->context, &s->spec, &kernel, NULL) || ffn_kernel_prepare(kernel, 1, NULL))
            abort();
        ffn_kernel_destroy(kernel);
    }
    s->ns = (now_ns() - began) / (double)s->lookups;
    return NULL;
}

/* What `threads` threads do in a second together. */
static double rate_of(void *(*work)(void *), ffn_context *context, const ffn_spec *specs, int threads) {
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    seeker seekers[2];
    pthread_t others[2];
    for (int t = 0; t < threads; t++)
        seekers[t] = (seeker){.context = context, .spec = specs[t], .start = &start, .lookups = 200000};
    for (int t = 1; t < threads; t++)
        pthread_create(&others[t], NULL, work, &seekers[t]);
    work(&seekers[0]);
    double rate = 1e9 / seekers[0].ns;
    for (int t = 1; t < threads; t++) {
        pthread_join(others[t], NULL);
        rate += 1e9 / seekers[t].ns;
    }
    pthread_barrier_destroy(&start);
    return rate;
}

/* Work that two threads share nothing in: what a second thread can bring on this machine at all. */
static void *spin(void *data) {
    seeker *s = data;
    pthread_barrier_wait(s->start);
    double began = now_ns();
    volatile uint64_t number = 1;
    for (int64_t i = 0; i < s->lookups; i++)
        number = number * 6364136223846793005U + 1442695040888963407U;
    s->ns = (now_ns() - began) / (double)s->lookups;
    return NULL;
}

static void measure_lookups(void) {
    enum { ROUNDS = 25 };
    ffn_context *context = context_of(in_folder("store"), 0);
    const ffn_spec distinct[2] = {spec_of("d768-f3072-gelu-bias"), spec_of("d512-f2048-relu-bias")};
    const ffn_spec same[2] = {distinct[0], distinct[0]};
    for (int i = 0; i < 2; i++) {
        ffn_kernel *kernel;
        CHECK(ffn_kernel_create(context, &distinct[i], &kernel, &diag));
        CHECK(ffn_kernel_prepare(kernel, 1, &diag));
        ffn_kernel_destroy(kernel);
    }
    double one[ROUNDS], of_distinct[ROUNDS], of_same[ROUNDS], of_spins[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        double rate = rate_of(seek, context, distinct, 1);
        one[r] = 1e9 / rate;
        of_distinct[r] = rate_of(seek, context, distinct, 2) / rate;
        of_same[r] = rate_of(seek, context, same, 2) / rate;
        of_spins[r] = rate_of(spin, context, same, 2) / rate_of(spin, context, same, 1);
    }
    summary s = summarise(one, ROUNDS), d = summarise(of_distinct, ROUNDS), e = summarise(of_same, ROUNDS);
    printf("lookup that hits (create, prepare, destroy): min %.0f ns, median %.0f ns\n", s.min, s.median);
    printf("lookups of two threads over one: distinct keys median %.2f, same key median %.2f; two threads that share "
           "nothing: %.2f\n",
           d.median, e.median, summarise(of_spins, ROUNDS).median);
    ffn_context_destroy(context);
}

/* ---- Call overhead ----------------------------------------------------------------------------------------- */

static double run_ns(const ffn_kernel *kernel, const ffn_args *args) {
    enum { CALLS = 200000 };
    double began = now_ns();
    for (int i = 0; i < CALLS; i++)
        if (ffn_kernel_run(kernel, args, NULL))
            abort();
    return (now_ns() - began) / CALLS;
}

static void measure_call(void) {
    enum { ROUNDS = 21, ROWS = 33 };
    ffn_context *context = context_of(in_folder("store"), 0);
    ffn_spec spec = spec_of("d8-f8-relu");
    ffn_kernel *kernel;
    CHECK(ffn_kernel_create(context, &spec, &kernel, &diag));
    CHECK(ffn_kernel_prepare(kernel, 1, &diag));
    float weights_data[64];
    for (int i = 0; i < 64; i++)
        weights_data[i] = (float)(i % 5) * 0.25F;
    const ffn_weights weights = {.up = {.data = weights_data}, .down = {.data = weights_data}};
    size_t packed_bytes, scratch_bytes = ffn_kernel_scratch_bytes(kernel);
    CHECK(ffn_packed_bytes(&spec, &packed_bytes, &diag));
    void *packed = aligned(packed_bytes);
    CHECK(ffn_pack(&spec, &weights, packed, packed_bytes, &diag));
    static float x[ROWS * 8], y[ROWS * 8];
    ffn_args args = {1, x, 8, y, 8, packed, aligned(scratch_bytes), scratch_bytes};
    ffn_args many = args;
    many.n = ROWS;
    double one[ROUNDS], rows[ROUNDS];
    /* The arithmetic of a row is what one row more in a call costs; what a call of one row costs beyond it is the call.
     * Both run the code of class 1, which takes a row at a time. */
    for (int r = 0; r < ROUNDS; r++) {
        one[r] = run_ns(kernel, &args);
        rows[r] = (run_ns(kernel, &many) - one[r]) / (ROWS - 1);
    }
    summary s = summarise(one, ROUNDS), row = summarise(rows, ROUNDS);
    printf("call of 8x8 n=1: min %.1f ns, median %.1f ns; a row more in a call: min %.1f ns, median %.1f ns; so a call "
           "costs beyond its arithmetic: by minima %.1f ns, by medians %.1f ns\n",
           s.min, s.median, row.min, row.median, s.min - row.min, s.median - row.median);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
}

/* ---- Many kernels ------------------------------------------------------------------------------------------ */

typedef struct footprint {
    long resident_kib, maps;
} footprint;

static footprint footprint_now(void) {
    footprint f = {0};
    char line[512];
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0)
            f.resident_kib = strtol(line + 6, NULL, 10);
    if (file != NULL)
        fclose(file);
    file = fopen("/proc/self/maps", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        f.maps++;
    if (file != NULL)
        fclose(file);
    return f;
}

static void cycle(ffn_context *context, int shape) {
    char text[64];
    snprintf(text, sizeof text, "d%d-f%d-relu", 8 + shape % 40, 8 + shape / 40);
    ffn_spec spec = spec_of(text);
    ffn_kernel *kernel;
    CHECK(ffn_kernel_create(context, &spec, &kernel, &diag));
    CHECK(ffn_kernel_prepare(kernel, 1, &diag));
    ffn_kernel_destroy(kernel);
}

static void measure_many(int shapes, int cycles) {
    ffn_context *filling = context_of(in_folder("store"), 0);
    for (int i = 0; i < shapes; i++)
        cycle(filling, i);
    ffn_context_destroy(filling);
    ffn_context *context = context_of(in_folder("store"), (size_t)4 << 20); /* so that nearly every one is evicted */
    footprint at_tenth = {0};
    double began = now_ns();
    for (int i = 0; i < cycles; i++) {
        cycle(context, i % shapes);
        if (i == cycles / 10)
            at_tenth = footprint_now();
    }
    double us = (now_ns() - began) * 1e-3 / cycles;
    footprint at_end = footprint_now();
    ffn_counters c;
    ffn_context_counters(context, &c);
    printf("%d create/prepare/destroy over %d shapes: %llu loaded from the store, %llu evicted, %llu compiled, %.0f us "
           "each; from a tenth to the end: resident %ld -> %ld KiB, maps %ld -> %ld\n",
           cycles, shapes, (unsigned long long)c.loaded, (unsigned long long)c.evicted, (unsigned long long)c.compiled,
           us, at_tenth.resident_kib, at_end.resident_kib, at_tenth.maps, at_end.maps);
    ffn_context_destroy(context);
}

/* ---- One cold key ------------------------------------------------------------------------------------------ */

static void *prepare_one(void *kernel) {
    ffn_kernel_prepare(kernel, 17, NULL);
    return NULL;
}

static void measure_cold_key(void) {
    enum { THREADS = 64 };
    ffn_context *context = context_of("", 0);
    ffn_spec spec = spec_of("d256-f1024-gelu");
    ffn_kernel *kernel;
    CHECK(ffn_kernel_create(context, &spec, &kernel, &diag));
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, prepare_one, kernel);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    ffn_counters c;
    ffn_context_counters(context, &c);
    printf("%d threads on one cold key: %llu compiled, %llu found it\n", THREADS, (unsigned long long)c.compiled,
           (unsigned long long)c.hit);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
}

int main(int argc, char **argv) {
    double began = now_ns();
    if (argc == 3 && strcmp(argv[1], "--warm-start") == 0)
        return warm_start(began, argv[2]);
    bool quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
    if (argc > 1 && !quick) {
        fputs("usage: bench_runtime [--quick]\n", stderr);
        return 2;
    }
    if (mkdtemp(folder) == NULL) {
        perror("bench_runtime: mkdtemp");
        return 1;
    }
    ffn_isa best = ffn_isa_best();
    printf("libffn " FFN_VERSION ", %s\n", ffn_isa_name(best));
    measure_warm_start(argv[0]);
    measure_lookups();
    measure_call();
    measure_cold_key();
    measure_many(quick ? 20 : 1000, quick ? 1000 : 100000);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? 0 : 1;
}
