/* test_failure.c: whatever the system refuses, and wherever, the answer is a status, the portable kernel serves, and
 * nothing is lost
 *
 * The linker sends every allocation and mapping of the libraries through the functions below (--wrap), so that the
 * k-th of them can fail, for every k. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "formula.h"
#include "support_data.h"
#include "support_image.h"
#include "support_oracle.h"
#include "verify_memory.h"

/* ---- Requests that can be refused -------------------------------------------------------------------------- */

typedef enum refusal { REFUSE_MEMORY = 1, REFUSE_MMAP = 2, REFUSE_MPROTECT = 4 } refusal;

static struct {
    int what;         /* kinds that count and may be refused */
    bool and_later;   /* also every request after the k-th */
    long at, seen;    /* the request to refuse; those seen so far */
    long live;        /* allocations and mappings not given back */
    int forbidden;    /* memory that was to be writable and executable at once */
    bool counts_live; /* while a scenario runs */
} hook;

static bool refused(int kind) {
    if (!(hook.what & kind))
        return false;
    long number = hook.seen++;
    return hook.at >= 0 && (number == hook.at || (hook.and_later && number > hook.at));
}

#define DECLARE(result, name, ...)     \
    result __real_##name(__VA_ARGS__); \
    result __wrap_##name(__VA_ARGS__)

static void *counted(void *memory) {
    hook.live += hook.counts_live && memory != NULL;
    return memory;
}

DECLARE(void *, malloc, size_t bytes);
DECLARE(void *, calloc, size_t count, size_t bytes);
DECLARE(void *, realloc, void *old, size_t bytes);
DECLARE(void *, aligned_alloc, size_t alignment, size_t bytes);
DECLARE(char *, strdup, const char *text);
DECLARE(char *, realpath, const char *path, char *resolved);
DECLARE(int, vasprintf, char **text, const char *format, va_list arguments);
int __wrap_asprintf(char **text, const char *format, ...);
DECLARE(void, free, void *memory);
DECLARE(void *, mmap, void *address, size_t bytes, int protection, int flags, int file, off_t offset);
DECLARE(int, munmap, void *address, size_t bytes);
DECLARE(int, mprotect, void *address, size_t bytes, int protection);

void *__wrap_malloc(size_t bytes) {
    return refused(REFUSE_MEMORY) ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return refused(REFUSE_MEMORY) ? NULL : counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *old, size_t bytes) {
    if (refused(REFUSE_MEMORY))
        return NULL;
    void *memory = __real_realloc(old, bytes);
    return old == NULL ? counted(memory) : memory;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return refused(REFUSE_MEMORY) ? NULL : counted(__real_aligned_alloc(alignment, bytes));
}

char *__wrap_strdup(const char *text) {
    return refused(REFUSE_MEMORY) ? NULL : counted(__real_strdup(text));
}

char *__wrap_realpath(const char *path, char *resolved) {
    if (resolved != NULL)
        return __real_realpath(path, resolved);
    if (refused(REFUSE_MEMORY)) {
        errno = ENOMEM;
        return NULL;
    }
    return counted(__real_realpath(path, NULL));
}

int __wrap_vasprintf(char **text, const char *format, va_list arguments) {
    if (refused(REFUSE_MEMORY))
        return -1;
    int length = __real_vasprintf(text, format, arguments);
    if (length >= 0)
        counted(*text);
    return length;
}

int __wrap_asprintf(char **text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = __wrap_vasprintf(text, format, arguments);
    va_end(arguments);
    return length;
}

void __wrap_free(void *memory) {
    hook.live -= hook.counts_live && memory != NULL;
    __real_free(memory);
}

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    hook.forbidden += (protection & PROT_WRITE) && (protection & PROT_EXEC);
    if (refused(REFUSE_MMAP)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void *memory = __real_mmap(address, bytes, protection, flags, file, offset);
    hook.live += hook.counts_live && memory != MAP_FAILED && !(flags & MAP_FIXED); /* else it replaces what was there */
    return memory;
}

int __wrap_munmap(void *address, size_t bytes) {
    hook.live -= hook.counts_live;
    return __real_munmap(address, bytes);
}

int __wrap_mprotect(void *address, size_t bytes, int protection) {
    hook.forbidden += (protection & PROT_WRITE) && (protection & PROT_EXEC);
    if (refused(REFUSE_MPROTECT)) {
        errno = EACCES;
        return -1;
    }
    return __real_mprotect(address, bytes, protection);
}

/* ---- What a program does ----------------------------------------------------------------------------------- */

enum { N = 3 };

typedef struct world { /* made before anything is refused */
    fake_source fake;
    ffn_source source; /* hands out `image` */
    ffn_spec spec;
    support_weights *weights;
    char folder[32], file[64];
    ffn_bytes image;
    struct image mapped; /* as if it were part of the program */
    void *packed;
    float *x, *want;
} world;

static void take_back(void *bytes) {
    (void)bytes;
    hook.live--;
}

static ffn_status hand_out(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *bytes, ffn_diag *diag) {
    (void)spec, (void)plan, (void)diag;
    const world *w = self;
    *bytes = (ffn_bytes){.data = w->image.data, .bytes = w->image.bytes, .release = take_back};
    hook.live++;
    return FFN_OK;
}

static ffn_status name_native(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_native *native,
                              ffn_diag *diag) {
    (void)spec, (void)plan, (void)diag;
    const image *mapped = &((const world *)self)->mapped;
    *native = (ffn_native){mapped->header->plan, (size_t)mapped->header->scratch_bytes,
                           mapped->fused,        mapped->expand,
                           mapped->contract,     mapped->activate};
    return FFN_OK;
}

static void begin(world *w) {
    *w = (world){.spec = support_spec("d48-f96-bias_up-gated(g*sigmoid(g)*u)"), .folder = "/tmp/ffn_failure_XXXXXX"};
    fake_source_init(&w->fake);
    w->source = (ffn_source){.build = hand_out, .self = w, .identity = "fake 1"};
    cr_assert_not_null(mkdtemp(w->folder));
    snprintf(w->file, sizeof w->file, "%s/w.ffnw", w->folder);
    w->weights = support_random_weights(&w->spec, SUPPORT_NORMAL, 7);
    w->packed = support_packed(&w->spec, &w->weights->weights);
    w->x = support_aligned(N * 48 * sizeof(float));
    w->want = support_aligned(N * 48 * sizeof(float));
    support_fill_x(w->x, N, 48, 48, SUPPORT_NORMAL, 3);
    oracle_contract(&w->spec, &w->weights->weights, w->x, 48, N, w->want);
    ffn_plan plan = support_plan(&w->spec, FFN_N_1);
    w->image = support_image(&w->fake, &w->spec, &plan);
    cr_assert_eq(image_map(w->image.data, w->image.bytes, &w->mapped, NULL), FFN_OK);
}

static void end(world *w) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", w->folder);
    cr_expect_eq(system(command), 0);
    image_unmap(&w->mapped);
    w->image.release(w->image.data);
    fake_source_free(&w->fake);
    support_weights_free(w->weights);
    free(w->packed);
    free(w->x);
    free(w->want);
}

static _Alignas(64) float y[N * 48];
static _Alignas(64) unsigned char scratch[1 << 20];

/* The right y, whichever kernel serves. */
static void expect_runs(const world *w, const ffn_kernel *kernel) {
    size_t need = ffn_kernel_scratch_bytes(kernel);
    cr_assert_leq(need, sizeof scratch);
    ffn_args args = {N, w->x, 48, y, 48, w->packed, scratch, sizeof scratch};
    ffn_diag diag = {.status = FFN_OK};
    int what = hook.what;
    hook.what = what & ~REFUSE_MEMORY; /* a fake kernel allocates, which a real one never does */
    bool counts = hook.counts_live;
    hook.counts_live = false;
    cr_expect_eq(ffn_kernel_run(kernel, &args, &diag), FFN_OK, "%s", diag.text);
    int64_t differs = oracle_first_unequal(&w->spec, y, 48, w->want, 48, N);
    hook.counts_live = counts;
    hook.what = what;
    cr_expect_eq(differs, -1, "output %lld differs", (long long)differs);
}

typedef ffn_status (*scenario)(world *w, ffn_diag *diag);

static ffn_status prepare_and_run(world *w, const ffn_options *options, ffn_diag *diag) {
    ffn_context *context;
    ffn_status status = ffn_context_create(options, &context, diag);
    if (status != FFN_OK)
        return status;
    ffn_kernel *kernel;
    status = ffn_kernel_create(context, &w->spec, &kernel, diag);
    if (status == FFN_OK) {
        status = ffn_kernel_prepare(kernel, 1, diag);
        expect_runs(w, kernel);
        ffn_status again = ffn_kernel_load(kernel, w->image.data, w->image.bytes, diag);
        expect_runs(w, kernel);
        status = status != FFN_OK ? status : again;
        ffn_kernel_destroy(kernel);
    }
    ffn_context_destroy(context);
    return status;
}

static ffn_status from_source(world *w, ffn_diag *diag) {
    return prepare_and_run(
        w, &(ffn_options){.source = &w->source, .verify = FFN_VERIFY_NEVER, .store = "", .tools = FFN_TOOL_GDB}, diag);
}

static ffn_status from_the_program(world *w, ffn_diag *diag) {
    const ffn_source source = {.find = name_native, .self = w};
    return prepare_and_run(w, &(ffn_options){.source = &source, .verify = FFN_VERIFY_NEVER, .store = ""}, diag);
}

static ffn_status through_the_store(world *w, ffn_diag *diag) {
    return prepare_and_run(w, &(ffn_options){.source = &w->source, .verify = FFN_VERIFY_NEVER, .store = w->folder},
                           diag);
}

static ffn_status packed_file(world *w, ffn_diag *diag) {
    ffn_status status = ffn_pack_file(&w->spec, &w->weights->weights, w->file, diag);
    const void *packed = NULL;
    size_t packed_bytes = 0;
    if (status == FFN_OK)
        status = ffn_packed_map(&w->spec, w->file, &packed, &packed_bytes, diag);
    if (status == FFN_OK)
        ffn_packed_unmap(packed, packed_bytes);
    return status;
}

static ffn_status text_of_a_formula(world *w, ffn_diag *diag) {
    (void)w;
    ffn_spec spec;
    char text[FFN_SPEC_TEXT_BYTES];
    ffn_status status = ffn_spec_parse("d48-f96-gated(min(g,7)*sigmoid(1.702*min(g,7))*(u+1))", &spec, diag);
    return status != FFN_OK ? status : ffn_spec_format(&spec, text, sizeof text, diag);
}

/* Whoever asks whether a spec is gated, or for its hash, cannot be told that there is no memory: the layout of the
 * weights and what they are checked against must be right all the same. */
static ffn_status kernel_of_a_formula(world *w, ffn_diag *diag) {
    static _Alignas(64) unsigned char packed[1 << 17];
    ffn_spec spec;
    ffn_context *context;
    ffn_kernel *kernel;
    size_t bytes = 0;
    ffn_status status = ffn_spec_parse("d48-f96-bias_up-gated(g*sigmoid(g)*u)", &spec, diag);
    cr_expect(status != FFN_OK || ffn_spec_gated(&spec));
    if (status == FFN_OK)
        status = ffn_packed_bytes(&spec, &bytes, diag);
    cr_assert_leq(bytes, sizeof packed);
    if (status == FFN_OK)
        status = ffn_pack(&spec, &w->weights->weights, packed, bytes, diag);
    if (status == FFN_OK)
        status = ffn_packed_check(&spec, packed, bytes, diag);
    if (status != FFN_OK)
        return status;
    status = ffn_context_create(&(ffn_options){.isa = FFN_ISA_PORTABLE, .store = ""}, &context, diag);
    if (status != FFN_OK)
        return status;
    status = ffn_kernel_create(context, &spec, &kernel, diag);
    if (status == FFN_OK) {
        ffn_args args = {N, w->x, 48, y, 48, packed, scratch, ffn_kernel_scratch_bytes(kernel)};
        long seen = hook.seen;
        cr_expect_eq(ffn_kernel_run(kernel, &args, diag), FFN_OK, "%s", diag->text);
        cr_expect_eq(hook.seen, seen, "run allocates");
        double value;
        status = formula_reference(spec.activation, spec.accuracy, 1, 1, &value, NULL, diag);
        ffn_kernel_destroy(kernel);
    }
    ffn_context_destroy(context);
    return status;
}

/* Whichever mapping of the background is refused, what is written is seen, and nothing else. */
static ffn_status zeros_of_a_block(world *w, ffn_diag *diag) {
    enum {
        FLOATS = 5 << 18,
        PLACE = 1 << 19,
        SOME = 1000
    }; /* 5 MiB; one float in the second 2 MiB, some in the third */
    (void)w;
    verify_memory memory;
    ffn_status status = verify_memory_make(FLOATS * sizeof(float), false, &memory, diag);
    if (status == FFN_OK)
        status = verify_memory_share(&memory, diag);
    if (status != FFN_OK)
        return status;
    float *floats = (float *)memory.begin;
    verify_memory_dot(&memory, floats + PLACE, sizeof *floats);
    floats[PLACE] = 1;
    verify_memory_fill(&memory, floats + 2 * PLACE, SOME * sizeof *floats);
    for (int i = 0; i < SOME; i++)
        floats[2 * PLACE + i] = 1;
    for (int i = 0; i < FLOATS; i++)
        cr_assert_eq(floats[i], i == PLACE || (i >= 2 * PLACE && i < 2 * PLACE + SOME) ? 1 : 0, "float %d", i);
    verify_memory_free(&memory);
    return FFN_OK;
}

static const struct {
    const char *name;
    scenario run;
    int kinds;         /* what it asks the system for */
    long at_least;     /* requests; so that a scenario that asks for nothing does not pass for one that survives */
    ffn_status answer; /* of a refusal that is not OUT_OF_MEMORY */
} scenarios[] = {
    {"from a source", from_source, REFUSE_MEMORY, 6, FFN_OUT_OF_MEMORY},
    {"from a source, mmap", from_source, REFUSE_MMAP, 2, FFN_OUT_OF_MEMORY},
    {"from a source, mprotect", from_source, REFUSE_MPROTECT, 4, FFN_SYSTEM},
    {"from the program", from_the_program, REFUSE_MEMORY, 6, FFN_OUT_OF_MEMORY},
    {"through the store", through_the_store, REFUSE_MEMORY, 8, FFN_OUT_OF_MEMORY},
    {"packed file", packed_file, REFUSE_MEMORY | REFUSE_MMAP, 1, FFN_SYSTEM},
    {"a block's zeros", zeros_of_a_block, REFUSE_MMAP, 3, FFN_OUT_OF_MEMORY},
    {"a formula's text", text_of_a_formula, REFUSE_MEMORY, 8, FFN_OUT_OF_MEMORY},
    {"a formula's kernel", kernel_of_a_formula, REFUSE_MEMORY, 20, FFN_OUT_OF_MEMORY},
};

/* One run with a refusal; the world is as it was afterwards. */
static ffn_status run_refusing(world *w, size_t which, long at, bool and_later) {
    ffn_diag diag = {.status = FFN_OK};
    hook.what = scenarios[which].kinds;
    hook.at = at;
    hook.and_later = and_later;
    hook.seen = 0;
    hook.live = 0;
    hook.counts_live = true;
    ffn_status status = scenarios[which].run(w, &diag);
    hook.counts_live = false;
    hook.what = 0;
    if (status != FFN_OK)
        cr_expect(diag.text[0] != '\0', "%s, request %ld: a status without its reason", scenarios[which].name, at);
    return status;
}

Test(failure, every_request_may_be_refused) {
    NEEDS_IMAGES();
    world w;
    begin(&w);
    for (size_t s = 0; s < sizeof scenarios / sizeof *scenarios; s++) {
        cr_expect_eq(run_refusing(&w, s, -1, false), FFN_OK, "%s", scenarios[s].name);
        cr_expect_eq(hook.live, 0, "%s: %ld not given back", scenarios[s].name, hook.live);
        long requests = hook.seen;
        cr_expect_geq(requests, scenarios[s].at_least, "%s: %ld requests", scenarios[s].name, requests);
        for (int later = 0; later < 2; later++) {
            for (long at = 0; at < requests; at++) {
                ffn_status status = run_refusing(&w, s, at, later != 0);
                cr_expect(status == FFN_OK || status == FFN_OUT_OF_MEMORY || status == scenarios[s].answer,
                          "%s, request %ld: %s", scenarios[s].name, at, ffn_status_text(status));
                cr_expect_eq(hook.live, 0, "%s, request %ld: %ld not given back", scenarios[s].name, at, hook.live);
            }
        }
        cr_expect_eq(run_refusing(&w, s, -1, false), FFN_OK, "%s, afterwards", scenarios[s].name);
    }
    cr_expect_eq(hook.forbidden, 0, "memory was writable and executable at once");
    end(&w);
}

/* What the system grants and the library refuses: nothing is kept of it either. */
Test(failure, what_is_refused_for_what_it_says_leaves_nothing) {
    NEEDS_IMAGES();
    world w;
    begin(&w);
    ffn_context *context = NULL;
    ffn_options options = {.source = &w.source, .store = ""};
    cr_assert_eq(ffn_context_create(&options, &context, NULL), FFN_OK);
    ffn_spec other = support_spec("d48-f97-swiglu-bias_up"), wrong = w.spec;
    strcpy(wrong.activation, "swigulu");
    ffn_kernel *kernel, *refused = NULL;
    cr_assert_eq(ffn_kernel_create(context, &other, &kernel, NULL), FFN_OK);
    hook.what = 0;
    hook.live = 0;
    hook.counts_live = true;
    ffn_status status[4];
    ffn_context *none = NULL;
    status[0] = ffn_kernel_create(context, &wrong, &refused, NULL);
    status[1] = ffn_kernel_prepare(kernel, 1, NULL); /* the source gives the image of another spec */
    status[2] = ffn_kernel_load(kernel, w.image.data, w.image.bytes - 1, NULL);
    options.verify = (ffn_verify_mode)77;
    status[3] = ffn_context_create(&options, &none, NULL);
    hook.counts_live = false;
    static const ffn_status want[4] = {FFN_BAD_SPEC, FFN_BAD_IMAGE, FFN_BAD_IMAGE, FFN_BAD_ARGUMENT};
    for (int i = 0; i < 4; i++)
        cr_expect_eq(status[i], want[i], "refusal %d: %s", i, ffn_status_text(status[i]));
    cr_expect_eq(hook.live, 0, "%ld not given back", hook.live);
    cr_expect(refused == NULL && none == NULL);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    end(&w);
}

Test(failure, denied_executable_memory_is_named_and_the_portable_kernel_serves) {
    NEEDS_IMAGES();
    world w;
    begin(&w);
    ffn_context *context;
    ffn_options options = {.source = &w.source, .store = ""};
    cr_assert_eq(ffn_context_create(&options, &context, NULL), FFN_OK);
    ffn_kernel *kernel;
    cr_assert_eq(ffn_kernel_create(context, &w.spec, &kernel, NULL), FFN_OK);
    hook.what = REFUSE_MPROTECT;
    hook.at = 0;
    hook.seen = 0;
    hook.and_later = true;
    ffn_diag diag = {.status = FFN_OK};
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, &diag), FFN_SYSTEM);
    cr_expect(strstr(diag.text, "mprotect") && strstr(diag.text, "executable"), "%s", diag.text);
    ffn_kernel_info info;
    ffn_kernel_inspect(kernel, 1, &info);
    cr_expect_eq(info.source, FFN_FROM_FALLBACK);
    expect_runs(&w, kernel);
    hook.what = 0;
    cr_expect_eq(ffn_kernel_prepare(kernel, 1, &diag), FFN_OK, "the next try: %s", diag.text);
    expect_runs(&w, kernel);
    ffn_counters counters;
    ffn_context_counters(context, &counters);
    cr_expect_eq(counters.failed, 1);
    cr_expect_eq(counters.fell_back, 1);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    end(&w);
}

Test(failure, no_map_of_the_process_is_writable_and_executable) {
    NEEDS_IMAGES();
    world w;
    begin(&w);
    ffn_diag diag;
    ffn_context *context;
    ffn_options options = {.source = &w.source, .store = ""};
    cr_assert_eq(ffn_context_create(&options, &context, NULL), FFN_OK);
    ffn_kernel *kernel;
    cr_assert_eq(ffn_kernel_create(context, &w.spec, &kernel, NULL), FFN_OK);
    cr_assert_eq(ffn_kernel_prepare(kernel, 1, &diag), FFN_OK);
    FILE *maps = fopen("/proc/self/maps", "r");
    cr_assert_not_null(maps);
    char line[512];
    int executable = 0;
    while (fgets(line, sizeof line, maps)) {
        char rights[8] = "";
        sscanf(line, "%*s %7s", rights);
        executable += rights[2] == 'x';
        cr_expect_not(rights[1] == 'w' && rights[2] == 'x', "%s", line);
    }
    fclose(maps);
    cr_expect_gt(executable, 0);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    end(&w);
}
