/* compiler_host.c: a program that has libffn inside and loads libffngen from beside itself, in one situation of a table
 *
 * Exit status 0: all went as the situation's comment says; 77: it cannot be had here. tests/test_compiler.c runs it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compiler.h"
#include "failing_malloc.h"
#include "image.h"

enum { SKIPPED = 77, OF_EXIT = 42 };

#define EXPECT(condition, ...)                                     \
    do {                                                           \
        if (!(condition)) {                                        \
            printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            printf(__VA_ARGS__);                                   \
            printf("\n");                                          \
            fflush(stdout);                                        \
            _exit(1);                                              \
        }                                                          \
    } while (0)

static ffn_diag diag;
static const ffn_source *source;

static ffn_status load(const char *path) {
    compiler *c = compiler_create(path);
    ffn_status status = compiler_load(c, &source, &diag);
    compiler_destroy(c);
    return status;
}

static ffn_status build_spec(const char *text, ffn_n_class n_class, ffn_diag *d) {
    ffn_isa isa = ffn_isa_best();
    if (isa == FFN_ISA_PORTABLE)
        isa = FFN_ISA_AVX2; /* compiled all the same */
    ffn_spec spec;
    ffn_plan plan;
    ffn_machine machine;
    ffn_bytes made;
    ffn_status status = ffn_spec_parse(text, &spec, d);
    status = status ? status : ffn_machine_generic(isa, &machine, d);
    status = status ? status : ffn_plan_make(&spec, isa, n_class, &machine, &plan, d);
    status = status ? status : source->build(source->self, &spec, &plan, &made, d);
    if (status)
        return status;
    const image_header *header = made.data;
    EXPECT(made.bytes > sizeof *header && header->checksum == image_checksum(made.data, made.bytes), "a damaged image");
    made.release(made.data);
    return FFN_OK;
}

static ffn_status build(void) {
    return build_spec("d64-f256-gelu-bias", FFN_N_17_UP, &diag);
}

static bool is_mapped(const char *name) {
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        found = found || strstr(line, name);
    if (maps)
        fclose(maps);
    return found;
}

static atomic_int built;

static void *build_for_ever(void *text) {
    ffn_diag mine;
    while (build_spec(text, FFN_N_17_UP, &mine) == FFN_OK)
        atomic_fetch_add(&built, 1);
    return NULL;
}

/* Registered before libLLVM is loaded: exit() comes here once it has destroyed what LLVM made. */
static void expect_no_build(void) {
    usleep(2000); /* for a build that has ended and is not counted yet */
    int before = atomic_load(&built);
    usleep(60000);
    EXPECT(atomic_load(&built) == before, "a build ended after LLVM was destroyed");
}

static void start_builders(void) {
    pthread_t thread;
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&thread, NULL, build_for_ever, "d256-f1024-gelu-bias") == 0, "no thread");
}

/* The wait status of a child that runs `task` and has 60 seconds for it. */
static int status_of(int (*task)(long argument), long argument) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        exit(task(argument));
    }
    int status = -1;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child, "no child");
    return status;
}

/* The identity is known, and stays the same, without and with the library; libLLVM is loaded by compiler_load alone. */
static int on_demand(int count, char **arguments) {
    compiler *c = compiler_create(count ? arguments[0] : NULL);
    const char *identity = compiler_identity(c, NULL);
    EXPECT(identity && strstr(identity, "generator ") && strstr(identity, "LLVM "), "identity %s", identity);
    EXPECT(!is_mapped("libLLVM") && !is_mapped("libffngen"), "loaded before it is needed");
    EXPECT(compiler_load(c, &source, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(is_mapped("libLLVM") && is_mapped("libffngen"), "not loaded");
    EXPECT(source->identity && strcmp(identity, source->identity) == 0, "%s / %s", identity, source->identity);
    EXPECT(compiler_identity(c, NULL) == identity, "a second identity");
    const ffn_source *again = NULL;
    EXPECT(compiler_load(c, &again, &diag) == FFN_OK && again == source, "another source");
    EXPECT(build() == FFN_OK, "%s", diag.text);
    EXPECT(!dlsym(RTLD_DEFAULT, "LLVMContextCreate") && !dlsym(RTLD_DEFAULT, "ffngen_source"),
           "its names are shown to the whole process");
    compiler_destroy(c);
    return 0;
}

/* Says status and words of a load. */
static int refused(int count, char **arguments) {
    ffn_status status = load(count ? arguments[0] : NULL);
    printf("%s: %s\n", ffn_status_text(status), status ? diag.text : "");
    return 0;
}

typedef struct other_llvm {
    void *(*create)(void);
    void *(*module)(const char *name, void *context);
    char *(*print)(void *module);
    void (*version)(unsigned *major, unsigned *minor, unsigned *patch);
} other_llvm;

static void use_other(const other_llvm *o) {
    unsigned major, minor, patch;
    o->version(&major, &minor, &patch);
    EXPECT(major == 16, "it is LLVM %u", major);
    char *text = o->print(o->module("of sixteen", o->create()));
    EXPECT(strstr(text, "ModuleID = 'of sixteen'"), "%s", text);
}

/* Another LLVM that the process shows to all its libraries works before and after ours does. */
static int second_llvm(int count, char **arguments) {
    (void)count, (void)arguments;
    void *library = dlopen("libLLVM-16.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return SKIPPED;
    other_llvm o;
    *(void **)&o.create = dlsym(library, "LLVMContextCreate");
    *(void **)&o.module = dlsym(library, "LLVMModuleCreateWithNameInContext");
    *(void **)&o.print = dlsym(library, "LLVMPrintModuleToString");
    *(void **)&o.version = dlsym(library, "LLVMGetVersion");
    use_other(&o);
    EXPECT(load(NULL) == FFN_OK, "%s", diag.text);
    if (strstr(source->identity, "LLVM 16"))
        return SKIPPED; /* it is the same one */
    EXPECT(build() == FFN_OK, "%s", diag.text);
    use_other(&o);
    EXPECT(build() == FFN_OK, "%s", diag.text);
    return 0;
}

/* What the linked-in fakes make of it. */
static int compile(int count, char **arguments) {
    (void)count, (void)arguments;
    EXPECT(load(NULL) == FFN_OK, "%s", diag.text);
    EXPECT(build() == FFN_OK, "%s", diag.text);
    return 0;
}

static int exit_now(long after_us) {
    start_builders();
    usleep((useconds_t)after_us);
    return OF_EXIT;
}

/* exit() at any time of a build keeps its status. */
static int exit_during(int count, char **arguments) {
    int times = count ? atoi(arguments[0]) : 1;
    EXPECT(atexit(expect_no_build) == 0, "no function of exit");
    EXPECT(load(NULL) == FFN_OK, "%s", diag.text);
    for (int i = 0; i < times; i++) {
        int status = status_of(exit_now, (long)i * i * 100);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == OF_EXIT, "exit %d: wait status %#x", i, (unsigned)status);
    }
    return 0;
}

static int build_in_child(long unused) {
    (void)unused;
    return (int)build();
}

/* A child forked from an idle process compiles; one forked during a build says that it cannot, and ends as it should;
 * the parent goes on. */
static int fork_during(int count, char **arguments) {
    (void)count, (void)arguments;
    EXPECT(load(NULL) == FFN_OK && build() == FFN_OK, "%s", diag.text);
    EXPECT(status_of(build_in_child, 0) == 0, "the child of an idle process cannot compile");
    start_builders();
    int said_so = 0;
    for (int i = 0; i < 12; i++) {
        usleep(3000);
        int status = status_of(build_in_child, 0);
        EXPECT(WIFEXITED(status) && (WEXITSTATUS(status) == FFN_COMPILE_FAILED || WEXITSTATUS(status) == FFN_OK),
               "fork %d: wait status %#x", i, (unsigned)status);
        said_so += WEXITSTATUS(status) == FFN_COMPILE_FAILED;
    }
    EXPECT(said_so > 0, "no child was forked during a build");
    EXPECT(build() == FFN_OK, "%s", diag.text);
    return 0;
}

static atomic_bool loading;

static void *load_in_thread(void *unused) {
    (void)unused;
    ffn_diag mine;
    const ffn_source *found;
    compiler *c = compiler_create(NULL);
    atomic_store(&loading, true);
    ffn_status status = compiler_load(c, &found, &mine);
    EXPECT(status == FFN_OK, "%s", mine.text);
    compiler_destroy(c);
    return NULL;
}

static int load_in_child(long unused) {
    (void)unused;
    return (int)load(NULL);
}

/* Exit status: that of a load in a child forked so long after another thread began to load. */
static int fork_from_load(long after_us) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, load_in_thread, NULL) == 0, "no thread");
    while (!atomic_load(&loading))
        usleep(50);
    usleep((useconds_t)after_us);
    int status = status_of(load_in_child, 0);
    EXPECT(WIFEXITED(status), "forked %ld us into a load: wait status %#x", after_us, (unsigned)status);
    pthread_join(thread, NULL);
    return WEXITSTATUS(status);
}

/* A child forked at any time of a load by another thread never waits for it, and says so if it cannot load. */
static int fork_while_loading(int count, char **arguments) {
    (void)count, (void)arguments;
    int said_so = 0;
    for (long i = 0; i < 12; i++) {
        int status = status_of(fork_from_load, i * i * 200);
        EXPECT(WIFEXITED(status) && (WEXITSTATUS(status) == FFN_COMPILE_FAILED || WEXITSTATUS(status) == FFN_OK),
               "fork %ld: wait status %#x", i, (unsigned)status);
        said_so += WEXITSTATUS(status) == FFN_COMPILE_FAILED;
    }
    EXPECT(said_so > 0, "no child was forked during a load");
    return 0;
}

static void *build_deep(void *status) {
    static const ffn_n_class classes[] = {FFN_N_1, FFN_N_2_4, FFN_N_5_16, FFN_N_17_UP};
    char text[1024] = "d64-f256-act(", closing[512] = ")";
    for (int i = 0; i < 30; i++) {
        strcat(text, "abs(x+sqrt(");
        strcat(closing, "))");
    }
    strcat(strcat(text, "x"), closing);
    *(ffn_status *)status = load(NULL);
    for (int i = 0; i < 4 && *(ffn_status *)status == FFN_OK; i++)
        *(ffn_status *)status = build_spec(text, classes[i], &diag);
    return NULL;
}

/* A thread of so many KiB of stack is refused, before anything is loaded, or is enough for all; or is refused where
 * another thread has loaded it ("loaded"). */
static int on_stack(int count, char **arguments) {
    pthread_attr_t attributes;
    pthread_t thread;
    ffn_status status = FFN_OK;
    bool loaded = count > 1;
    EXPECT(!loaded || load(NULL) == FFN_OK, "%s", diag.text);
    pthread_attr_init(&attributes);
    EXPECT(pthread_attr_setstacksize(&attributes, (size_t)(count ? atol(arguments[0]) : 0) << 10) == 0, "bad size");
    EXPECT(pthread_create(&thread, &attributes, build_deep, &status) == 0, "no thread");
    pthread_join(thread, NULL);
    EXPECT(status == FFN_OK || loaded || !is_mapped("libLLVM"), "loaded all the same");
    printf("%s: %s\n", ffn_status_text(status), status ? diag.text : "");
    return 0;
}

static bool fail_for_good;

static int build_with_failure(long first) {
    failing_malloc_begin(first, fail_for_good);
    ffn_status status = build();
    failing_malloc_begin(0, false);
    if (status == FFN_OUT_OF_MEMORY) {
        ffn_status later = build(); /* the compiler may be gone, the process is not */
        EXPECT(later == FFN_OK || later == FFN_COMPILE_FAILED, "later: %s", diag.text);
    }
    return (int)status;
}

/* Memory that runs out at any of a build's allocations, for once or for good: a status, whatever was built before. */
static int out_of_memory(int count, char **arguments) {
    long samples = count ? atol(arguments[0]) : 1;
    EXPECT(load(NULL) == FFN_OK, "%s", diag.text);
    for (int round = 0; round < 3; round++) {
        fail_for_good = round == 1;
        if (round == 2)
            EXPECT(build() == FFN_OK, "%s", diag.text);
        long refusals = 0;
        for (long i = 0; i < samples; i++) {
            /* dense at the beginning, then sparser, as far as the 44000 allocations of this build go */
            long first = 1 + i * i * i * 44000 / (samples * samples * samples) + i;
            int status = status_of(build_with_failure, first);
            EXPECT(WIFEXITED(status) && (WEXITSTATUS(status) == FFN_OUT_OF_MEMORY || WEXITSTATUS(status) == FFN_OK),
                   "round %d, allocation %ld: wait status %#x", round, first, (unsigned)status);
            refusals += WEXITSTATUS(status) == FFN_OUT_OF_MEMORY;
        }
        printf("round %d: %ld of %ld were out of memory\n", round, refusals, samples);
        EXPECT(refusals > samples / 2, "memory did not run out");
    }
    return 0;
}

static int load_and_build_within(long mib) {
    struct rlimit limit = {(rlim_t)mib << 20, (rlim_t)mib << 20};
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0, "no limit");
    ffn_status status = load(NULL);
    return (int)(status ? status : build());
}

/* Whatever the limit on address space is: compiled, or out of memory. */
static int within(int count, char **arguments) {
    (void)count, (void)arguments;
    static const long limits[] = {20, 100, 200, 300, 316, 320, 324, 328, 332, 336, 340, 350, 400, 600, 1000};
    int last = -1;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        long mib = limits[i];
        int status = status_of(load_and_build_within, mib);
        EXPECT(WIFEXITED(status), "%ld MiB: wait status %#x", mib, (unsigned)status);
        if (WEXITSTATUS(status) != last)
            printf("from %ld MiB on: %s\n", mib, ffn_status_text((ffn_status)WEXITSTATUS(status)));
        last = WEXITSTATUS(status);
        EXPECT(last == FFN_OK || last == FFN_OUT_OF_MEMORY, "%ld MiB: status %d", mib, last);
    }
    EXPECT(last == FFN_OK, "a GB was not enough");
    return 0;
}

static int exit_from_load(long after_us) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, load_in_thread, NULL) == 0, "no thread");
    while (!atomic_load(&loading))
        usleep(50);
    usleep((useconds_t)after_us);
    return OF_EXIT;
}

/* exit() at any time of the second half of a load by another thread, where LLVM's initialisers run, keeps its status.
 */
static int exit_while_loading(int count, char **arguments) {
    long times = count ? atol(arguments[0]) : 1;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    EXPECT(status_of(load_in_child, 0) == 0, "it cannot be loaded");
    clock_gettime(CLOCK_MONOTONIC, &end);
    long load_us = (end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000;
    for (long i = 0; i < times; i++) {
        int status = status_of(exit_from_load, load_us * (times + i) / (2 * times));
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == OF_EXIT, "exit %ld of a load of %ld us: wait status %#x", i,
               load_us, (unsigned)status);
    }
    return 0;
}

typedef struct api { /* of a libffn that was loaded */
    ffn_status (*create)(const ffn_options *, ffn_context **, ffn_diag *);
    ffn_status (*parse)(const char *, ffn_spec *, ffn_diag *);
    ffn_status (*kernel)(ffn_context *, const ffn_spec *, ffn_kernel **, ffn_diag *);
    ffn_status (*prepare)(ffn_kernel *, int64_t, ffn_diag *);
} api;

/* A libffn loaded by a relative name looks beside its own file, wherever the process has gone to since. */
static int gone_elsewhere(int count, char **arguments) {
    EXPECT(count == 2, "gone_elsewhere FOLDER_OF_LIBFFN OTHER_FOLDER");
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        return SKIPPED;
    EXPECT(chdir(arguments[0]) == 0, "%s", arguments[0]);
    void *libffn = dlopen("./libffn.so", RTLD_NOW);
    EXPECT(libffn, "%s", dlerror());
    EXPECT(chdir(arguments[1]) == 0, "%s", arguments[1]);
    api a;
    *(void **)&a.create = dlsym(libffn, "ffn_context_create");
    *(void **)&a.parse = dlsym(libffn, "ffn_spec_parse");
    *(void **)&a.kernel = dlsym(libffn, "ffn_kernel_create");
    *(void **)&a.prepare = dlsym(libffn, "ffn_kernel_prepare");
    ffn_context *context;
    ffn_kernel *kernel;
    ffn_spec spec;
    EXPECT(a.create(&(ffn_options){.store = ""}, &context, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(a.parse("d16-f16-relu", &spec, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(a.kernel(context, &spec, &kernel, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(a.prepare(kernel, 1, &diag) == FFN_OK, "%s", diag.text);
    return 0;
}

/* Says what the diag of a first prepare that succeeds holds; that of a second one holds nothing. */
static int remark(int count, char **arguments) {
    EXPECT(count == 2, "remark LIBFFNGEN STORE");
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        return SKIPPED;
    ffn_context *context;
    ffn_kernel *kernel;
    ffn_spec spec;
    ffn_options options = {.compiler = arguments[0], .store = arguments[1]};
    EXPECT(ffn_context_create(&options, &context, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(ffn_spec_parse("d16-f16-relu", &spec, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(ffn_kernel_create(context, &spec, &kernel, &diag) == FFN_OK, "%s", diag.text);
    ffn_diag later = {.text = ""};
    diag.text[0] = '\0';
    EXPECT(ffn_kernel_prepare(kernel, 1, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(ffn_kernel_prepare(kernel, 4, &later) == FFN_OK && !later.text[0], "%s", later.text);
    printf("%s\n", diag.text);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    return 0;
}

/* Both libraries may be closed after use; the process ends as it should. */
static int unload(int count, char **arguments) {
    EXPECT(count == 2, "unload LIBFFN LIBFFNGEN");
    void *libffn = dlopen(arguments[0], RTLD_NOW);
    void *libffngen = dlopen(arguments[1], RTLD_NOW);
    EXPECT(libffn && libffngen, "%s", dlerror());
    const ffn_source *(*get)(void);
    *(void **)&get = dlsym(libffngen, "ffngen_source");
    source = get();
    ffn_status (*create)(const ffn_options *, ffn_context **, ffn_diag *);
    void (*destroy)(ffn_context *);
    *(void **)&create = dlsym(libffn, "ffn_context_create");
    *(void **)&destroy = dlsym(libffn, "ffn_context_destroy");
    ffn_context *context;
    EXPECT(create(&(ffn_options){.store = ""}, &context, &diag) == FFN_OK, "%s", diag.text);
    EXPECT(build() == FFN_OK, "%s", diag.text);
    destroy(context);
    dlclose(libffngen);
    dlclose(libffn);
    EXPECT(!is_mapped("libffn.so"), "libffn stays");
    EXPECT(build() == FFN_OK, "libffngen, which stays, compiles no more: %s", diag.text);
    return 0;
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        int (*run)(int count, char **arguments);
    } situations[] = {{"on_demand", on_demand},
                      {"refused", refused},
                      {"second_llvm", second_llvm},
                      {"compile", compile},
                      {"exit_during", exit_during},
                      {"fork_during", fork_during},
                      {"on_stack", on_stack},
                      {"fork_while_loading", fork_while_loading},
                      {"exit_while_loading", exit_while_loading},
                      {"gone_elsewhere", gone_elsewhere},
                      {"remark", remark},
                      {"within", within},
                      {"unload", unload},
                      {"out_of_memory", out_of_memory}};
    for (size_t i = 0; count > 1 && i < sizeof situations / sizeof *situations; i++)
        if (strcmp(arguments[1], situations[i].name) == 0)
            return situations[i].run(count - 2, arguments + 2);
    fprintf(stderr, "compiler_host SITUATION [ARGUMENT...]\n");
    return 2;
}
