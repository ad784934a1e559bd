/* test_plan_choice.c: the plan comes from who should give it, whatever is wrong with the files; and nothing but the
 * plan depends on them */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config_folder.h"
#include "context.h"
#include "plan.h"
#include "support_data.h"
#include "support_files.h"
#include "support_image.h"
#include "support_threads.h"

#define SPEC "d64-f256-gelu"
#define HERE ffn_machine_name()
#define ELSEWHERE "a machine of another kind"

static ffn_spec spec;
static ffn_diag diag;

/* As test_stack.c: sanitizers and unoptimised code take more. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
enum { STACK_BYTES = 512 << 10 };
#else
enum { STACK_BYTES = 64 << 10 };
#endif

/* The user's settings are in the test's folder, and empty. */
static void begin(void) {
    support_folder_make();
    setenv("XDG_CONFIG_HOME", support_path("config"), 1);
    setenv("HOME", support_path("home"), 1);
    spec = support_spec(SPEC);
}

TestSuite(plan_choice, .init = begin, .fini = support_folder_remove, .timeout = 60);

/* The model's plan with this m_block, which no model chooses: it tells which record was taken. */
static ffn_plan marked(ffn_n_class n_class, int64_t m_block) {
    ffn_plan plan = support_plan(&spec, n_class);
    plan.m_block = m_block;
    return plan;
}

static void add(tuned *table, const ffn_plan *plan, int32_t threads, double ms, const char *machine) {
    tuned_record r = {.spec = spec, .plan = *plan, .threads = threads, .ms = ms, .llvm = "19", .generator = "0.1"};
    snprintf(r.machine, sizeof r.machine, "%s", machine);
    cr_assert_eq(tuned_add(table, &r, &diag), FFN_OK, "%s", diag.text);
}

static tuned *empty(void) {
    tuned *table;
    cr_assert_eq(tuned_create(&table, NULL), FFN_OK);
    return table;
}

/* A table in a file with one record, for n = 17 and more. */
static void write_table(const char *path, int64_t m_block, const char *machine) {
    tuned *table = empty();
    const ffn_plan plan = marked(FFN_N_17_UP, m_block);
    add(table, &plan, 1, 1, machine);
    cr_assert_eq(tuned_save(table, path, &diag), FFN_OK, "%s", diag.text);
    tuned_free(table);
}

static void write_own(int64_t m_block, const char *machine) {
    cr_assert_eq(config_folder_make(&diag), FFN_OK, "%s", diag.text);
    char *path = tuned_user_path(&diag);
    cr_assert_not_null(path, "%s", diag.text);
    write_table(path, m_block, machine);
    free(path);
}

static void write_text(const char *path, const char *text) {
    support_file_write(path, text, strlen(text));
}

/* ---- The choice, from tables in memory --------------------------------------------------------------------- */

static planner planner_of(tuned *first, tuned *second) {
    static char paths[2][8] = {"first", "second"};
    planner who = {.threads = 1, .machine_name = HERE};
    ffn_machine_read(&who.machine);
    if (first != NULL)
        who.tables.of[who.tables.count].path = paths[0], who.tables.of[who.tables.count++].table = first;
    if (second != NULL)
        who.tables.of[who.tables.count].path = paths[1], who.tables.of[who.tables.count++].table = second;
    return who;
}

static plan_choice chosen(const planner *who) {
    plan_choice choice;
    memset(&choice, 0x55, sizeof choice);
    cr_assert_eq(plan_choose(who, &spec, ffn_isa_best(), FFN_N_17_UP, &choice, &diag), FFN_OK, "%s", diag.text);
    return choice;
}

#define NEEDS_PLANS()                         \
    if (ffn_isa_best() == FFN_ISA_PORTABLE) { \
        printf("no ISA here has plans\n");    \
        return;                               \
    }

/* Every set of sources: the first of the order that is in it is taken, however fast the others say they are. */
Test(plan_choice, order_is_given_then_this_machine_then_others_then_the_model) {
    enum { GIVEN = 1, HERE_1 = 2, HERE_2 = 4, OTHER_1 = 8, OTHER_2 = 16, ALL = 32 };
    NEEDS_PLANS();
    for (int set = 0; set < ALL; set++) {
        tuned *tables[2] = {empty(), empty()};
        const ffn_plan given = marked(FFN_N_17_UP, 100);
        for (int i = 0; i < 4; i++) {
            const ffn_plan plan = marked(FFN_N_17_UP, 101 + i);
            if (set & (HERE_1 << i))
                add(tables[i % 2], &plan, 1, 8 - i, i < 2 ? HERE : ELSEWHERE);
        }
        planner who = planner_of(tables[0], tables[1]);
        who.given = set & GIVEN ? &given : NULL;
        const plan_choice choice = chosen(&who);
        static const ffn_plan_origin from[] = {FFN_PLAN_GIVEN, FFN_PLAN_TUNED, FFN_PLAN_TUNED, FFN_PLAN_HINT,
                                               FFN_PLAN_HINT};
        int first = 0;
        while (first < 5 && !(set & (1 << first)))
            first++;
        const ffn_plan model = support_plan(&spec, FFN_N_17_UP);
        cr_expect_eq(choice.plan.m_block, first < 5 ? 100 + first : model.m_block, "set %d", set);
        cr_expect_eq(choice.from, first < 5 ? from[first] : FFN_PLAN_MODEL, "set %d", set);
        cr_expect_eq(choice.record != NULL, first >= 1 && first <= 4, "set %d", set);
        if (choice.record != NULL)
            cr_expect_str_eq(choice.path, first % 2 ? "first" : "second", "set %d", set);
        tuned_free(tables[0]);
        tuned_free(tables[1]);
    }
}

Test(plan_choice, records_with_the_asked_threads_go_first_and_others_before_another_machine) {
    NEEDS_PLANS();
    tuned *table = empty();
    const ffn_plan two = marked(FFN_N_17_UP, 102), eight = marked(FFN_N_17_UP, 108), other = marked(FFN_N_17_UP, 104);
    add(table, &two, 2, 3, HERE);
    add(table, &eight, 8, 1, HERE);
    add(table, &other, 4, 0.5, ELSEWHERE);
    planner who = planner_of(table, NULL);
    static const struct {
        int32_t threads;
        int64_t m_block;
    } cases[] = {{2, 102}, {8, 108}, {1, 108}, {4, 108}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        who.threads = cases[i].threads;
        const plan_choice choice = chosen(&who);
        cr_expect_eq(choice.plan.m_block, cases[i].m_block, "%d threads", cases[i].threads);
        cr_expect_eq(choice.from, FFN_PLAN_TUNED);
    }
    tuned_free(table);
    table = empty();
    add(table, &two, 2, 3, ELSEWHERE);
    add(table, &other, 4, 0.5, ELSEWHERE);
    who = planner_of(table, NULL);
    who.threads = 2;
    cr_expect_eq(chosen(&who).plan.m_block, 102, "hints go by threads too");
    who.threads = 3;
    cr_expect_eq(chosen(&who).plan.m_block, 104, "the fastest where none fits");
    tuned_free(table);
}

Test(plan_choice, another_isa_class_or_spec_is_no_match) {
    NEEDS_PLANS();
    tuned *table = empty();
    ffn_plan plan = marked(FFN_N_5_16, 9);
    add(table, &plan, 1, 1, HERE);
    plan = (ffn_plan){.isa = ffn_isa_best() == FFN_ISA_NEON ? FFN_ISA_AVX2 : FFN_ISA_NEON,
                      .n_class = FFN_N_17_UP,
                      .m_block = 100,
                      .f_block = 64,
                      .k_block = 64,
                      .unroll = 1,
                      .tile_count = 1,
                      .tiles = {{1, 1}}};
    add(table, &plan, 1, 1, HERE);
    plan = marked(FFN_N_17_UP, 101);
    spec.bias = FFN_BIAS_UP;
    add(table, &plan, 1, 1, HERE);
    spec.bias = 0;
    const planner who = planner_of(table, NULL);
    cr_expect_eq(chosen(&who).from, FFN_PLAN_MODEL);
    tuned_free(table);
}

Test(plan_choice, a_given_plan_that_does_not_fit_is_refused_and_nothing_is_written) {
    NEEDS_PLANS();
    ffn_plan given = marked(FFN_N_17_UP, 100);
    given.tiles[given.tile_count - 1] = (ffn_tile){2, 1};
    planner who = planner_of(NULL, NULL);
    who.given = &given;
    plan_choice choice = {.path = "as it was"};
    cr_expect_eq(plan_choose(&who, &spec, given.isa, FFN_N_17_UP, &choice, &diag), FFN_BAD_ARGUMENT);
    cr_expect_str_eq(choice.path, "as it was");
    who.given = NULL;
    cr_expect_eq(plan_choose(&who, &spec, FFN_ISA_PORTABLE, FFN_N_17_UP, &choice, &diag), FFN_UNSUPPORTED);
    cr_expect_str_eq(choice.path, "as it was");
}

/* ---- A context, from files --------------------------------------------------------------------------------- */

typedef struct world {
    fake_source fake;
    ffn_context *context;
    ffn_kernel *kernel;
} world;

static void open_context(world *w, ffn_options options) {
    fake_source_init(&w->fake);
    w->fake.source.identity = "fake";
    options.source = &w->fake.source;
    options.verify = FFN_VERIFY_NEVER;
    options.store = options.store ? options.store : "";
    w->kernel = NULL;
    cr_assert_eq(ffn_context_create(&options, &w->context, &diag), FFN_OK, "%s", diag.text);
}

/* What the kernel is, and *diag, after it was made and prepared for many rows. */
static ffn_kernel_info prepared(world *w) {
    ffn_kernel_info info;
    cr_assert_eq(ffn_kernel_create(w->context, &spec, &w->kernel, &diag), FFN_OK, "%s", diag.text);
    cr_assert_eq(ffn_kernel_prepare(w->kernel, 17, &diag), FFN_OK, "%s", diag.text);
    ffn_kernel_inspect(w->kernel, 17, &info);
    return info;
}

static void close_world(world *w) {
    ffn_kernel_destroy(w->kernel);
    ffn_context_destroy(w->context);
    fake_source_free(&w->fake);
}

/* A context with this ffn_options.tuned; `words`, up to NULL, are in the remark, which is empty without any. */
static void expect(const char *named, ffn_plan_origin from, int64_t m_block, const char *const *words) {
    world w;
    open_context(&w, (ffn_options){.tuned = named});
    const ffn_kernel_info info = prepared(&w);
    const char *shown = named ? named : "NULL";
    cr_expect_eq(info.plan_from, from, "tuned %s: %d", shown, (int)info.plan_from);
    cr_expect_eq(info.source, FFN_FROM_COMPILER);
    if (m_block != 0)
        cr_expect_eq(info.plan.m_block, m_block, "tuned %s", shown);
    cr_expect_eq(diag.status, FFN_OK);
    if (words == NULL)
        cr_expect_str_empty(diag.text, "tuned %s: %s", shown, diag.text);
    for (; words != NULL && *words; words++)
        cr_expect_not_null(strstr(diag.text, *words), "\"%s\" does not say \"%s\"", diag.text, *words);
    cr_assert_eq(ffn_kernel_prepare(w.kernel, 1, &diag), FFN_OK, "%s", diag.text);
    cr_expect_str_empty(diag.text, "said twice: %s", diag.text);
    close_world(&w);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(plan_choice, files_are_asked_in_order_and_off_means_none) {
    NEEDS_IMAGES();
    expect(NULL, FFN_PLAN_MODEL, 0, NULL); /* no table of the user's is no problem */
    write_own(101, HERE);
    expect(NULL, FFN_PLAN_TUNED, 101, NULL);
    expect("", FFN_PLAN_MODEL, 0, NULL);
    write_table(support_path("named"), 102, HERE);
    expect(support_path("named"), FFN_PLAN_TUNED, 102, NULL);
    write_table(support_path("named"), 103, ELSEWHERE);
    expect(support_path("named"), FFN_PLAN_TUNED, 101, NULL);
    write_own(104, ELSEWHERE);
    expect(support_path("named"), FFN_PLAN_HINT, 103, NULL);
    expect(NULL, FFN_PLAN_HINT, 104, NULL);
}

Test(plan_choice, a_file_that_is_not_good_is_passed_over_with_a_remark) {
    NEEDS_IMAGES();
    write_own(101, HERE);
    expect(support_path("absent"), FFN_PLAN_TUNED, 101, WORDS("tuned plans", "absent", "No such file"));
    expect(support_path("."), FFN_PLAN_TUNED, 101, WORDS("tuned plans", "no regular file"));
    char text[1024], plan[256];
    const ffn_plan good = marked(FFN_N_17_UP, 102);
    cr_assert_eq(ffn_plan_format(&good, plan, sizeof plan, NULL), FFN_OK);
    const char *const path = support_path("bad");
    static const struct {
        const char *last, *field;
    } cases[] = {{"threads=1 ms=fast spread=0 machine=m llvm=19 generator=0.1\n", "ms"},
                 {"threads=1 ms=1 spread=0 machine=m llvm=19 generator=0.1", "cut short"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        /* the good record before the bad line goes too */
        snprintf(text, sizeof text,
                 TUNED_MAGIC "\nspec=" SPEC
                             " plan=\"%s\" threads=1 ms=1 spread=0 machine=\"%s\" llvm=19 generator=0.1\n"
                             "spec=" SPEC " plan=\"%s\" %s",
                 plan, HERE, plan, cases[i].last);
        write_text(path, text);
        expect(path, FFN_PLAN_TUNED, 101, WORDS("bad", "line 3", cases[i].field));
    }
    char *own = tuned_user_path(&diag);
    write_text(own, "ffngen-tuned 2\n");
    free(own);
    expect(NULL, FFN_PLAN_MODEL, 0, WORDS("ffngen/tuned", "line 1"));
    expect(path, FFN_PLAN_MODEL, 0, WORDS("bad, line 3", "ffngen/tuned, line 1")); /* both are said */
}

Test(plan_choice, a_record_that_code_cannot_be_generated_for_is_never_used) {
    NEEDS_IMAGES();
    char text[512], plan[256];
    const ffn_plan good = marked(FFN_N_17_UP, 102);
    cr_assert_eq(ffn_plan_format(&good, plan, sizeof plan, NULL), FFN_OK);
    char *tile = strrchr(plan, ' '); /* 1x1: without it some rows have no tile */
    strcpy(tile, " 1x2");
    snprintf(text, sizeof text,
             TUNED_MAGIC "\n\nspec=" SPEC " plan=\"%s\" threads=1 ms=1 spread=0 machine=\"%s\" llvm=19 generator=0.1\n",
             plan, HERE);
    write_text(support_path("unchecked"), text);
    expect(support_path("unchecked"), FFN_PLAN_MODEL, 0, WORDS("unchecked, line 3", "1x1"));
}

Test(plan_choice, a_user_without_a_home_has_no_table_and_no_remark) {
    NEEDS_IMAGES();
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("HOME");
    expect(NULL, FFN_PLAN_MODEL, 0, NULL);
}

Test(plan_choice, a_named_file_is_meant_from_where_the_context_was_made) {
    NEEDS_IMAGES();
    cr_assert_eq(chdir(support_path(".")), 0);
    write_table("named", 102, HERE);
    world w;
    open_context(&w, (ffn_options){.tuned = "named"});
    cr_assert_eq(chdir("/"), 0);
    cr_expect_eq(prepared(&w).plan.m_block, 102, "%s", diag.text);
    close_world(&w);
}

Test(plan_choice, files_are_read_when_the_first_kernel_is_made_and_then_no_more) {
    NEEDS_IMAGES();
    world w;
    open_context(&w, (ffn_options){.threads = 1});
    write_own(101, HERE); /* not yet there when the context was made */
    cr_expect_eq(prepared(&w).plan.m_block, 101);
    write_own(102, HERE);
    ffn_kernel *first = w.kernel;
    const ffn_spec before = spec;
    spec.bias = FFN_BIAS_DOWN;
    cr_expect_eq(prepared(&w).plan_from, FFN_PLAN_MODEL, "a spec that the table has not");
    ffn_kernel_destroy(first);
    spec = before;
    close_world(&w);
}

Test(plan_choice, options_that_cannot_be_are_refused) {
    ffn_context *context;
    cr_expect_eq(ffn_context_create(&(ffn_options){.threads = -1}, &context, &diag), FFN_BAD_ARGUMENT);
    cr_expect_not_null(strstr(diag.text, "threads"), "%s", diag.text);
}

/* Scratch is asked for before a class is prepared; what then serves must need no more. */
Test(plan_choice, scratch_said_first_is_enough_for_the_tuned_plan) {
    NEEDS_IMAGES();
    world w;
    write_own(1024, HERE);
    open_context(&w, (ffn_options){.threads = 1});
    cr_assert_eq(ffn_kernel_create(w.context, &spec, &w.kernel, &diag), FFN_OK, "%s", diag.text);
    const size_t before = ffn_kernel_scratch_bytes(w.kernel);
    const ffn_plan plan = marked(FFN_N_17_UP, 1024), model = support_plan(&spec, FFN_N_17_UP);
    cr_assert_gt(plan_scratch_bytes(&spec, &plan), plan_scratch_bytes(&spec, &model));
    cr_expect_geq(before, (size_t)plan_scratch_bytes(&spec, &plan));
    cr_assert_eq(ffn_kernel_prepare(w.kernel, 17, &diag), FFN_OK, "%s", diag.text);
    cr_expect_eq(ffn_kernel_scratch_bytes(w.kernel), before);
    close_world(&w);
}

Test(plan_choice, a_kernel_tells_who_chose_its_plan) {
    NEEDS_IMAGES();
    const ffn_plan given = marked(FFN_N_17_UP, 100);
    static const char *const words[] = {"planned by the model", "tuned here", "tuned on another machine",
                                        "its plan given"};
    for (int i = 0; i < 4; i++) {
        world w;
        char line[FFN_DESCRIBE_BYTES];
        if (i == FFN_PLAN_TUNED || i == FFN_PLAN_HINT)
            write_own(100, i == FFN_PLAN_TUNED ? HERE : ELSEWHERE);
        open_context(&w, (ffn_options){.plan = i == FFN_PLAN_GIVEN ? &given : NULL});
        cr_expect_eq((int)prepared(&w).plan_from, i);
        cr_assert_eq(ffn_kernel_describe(w.kernel, 17, line, sizeof line, &diag), FFN_OK, "%s", diag.text);
        cr_expect_not_null(strstr(line, words[i]), "%s", line);
        close_world(&w);
    }
    world w; /* an image has its own plan, whatever the tables say */
    open_context(&w, (ffn_options){.threads = 1});
    cr_assert_eq(ffn_kernel_create(w.context, &spec, &w.kernel, &diag), FFN_OK);
    ffn_bytes bytes = support_image(&w.fake, &spec, &given);
    cr_assert_eq(ffn_kernel_load(w.kernel, bytes.data, bytes.bytes, &diag), FFN_OK, "%s", diag.text);
    bytes.release(bytes.data);
    ffn_kernel_info info;
    ffn_kernel_inspect(w.kernel, 17, &info);
    cr_expect_eq(info.plan_from, FFN_PLAN_GIVEN);
    close_world(&w);
}

Test(plan_choice, what_was_stored_under_a_tuned_plan_is_tuned) {
    NEEDS_IMAGES();
    write_own(101, HERE);
    for (int run = 0; run < 2; run++) {
        world w;
        open_context(&w, (ffn_options){.store = support_path("store")});
        const ffn_kernel_info info = prepared(&w);
        cr_expect_str_empty(diag.text, "%s", diag.text);
        cr_expect_eq(info.source, run ? FFN_FROM_STORE : FFN_FROM_COMPILER);
        cr_expect_eq(info.plan_from, FFN_PLAN_TUNED);
        close_world(&w);
    }
}

/* ---- Remarks ----------------------------------------------------------------------------------------------- */

Test(plan_choice, remarks_of_tables_and_of_the_store_do_not_lose_each_other) {
    NEEDS_IMAGES();
    world w;
    open_context(&w, (ffn_options){.tuned = support_path("absent"), .store = "/dev/null/store"});
    prepared(&w);
    cr_expect_not_null(strstr(diag.text, "absent"), "%s", diag.text);
    cr_expect_not_null(strstr(diag.text, "disk store"), "%s", diag.text);
    close_world(&w);
}

Test(plan_choice, remarks_that_do_not_fit_into_one_diag_wait_for_the_next) {
    world w;
    open_context(&w, (ffn_options){.isa = FFN_ISA_PORTABLE});
    for (int i = 0; i < 3; i++) {
        ffn_diag remark = {.status = FFN_OK};
        memset(remark.text, 'a' + i, 240);
        context_leave_remark(w.context, &remark);
    }
    context_take_remarks(w.context, &diag);
    cr_expect(strchr(diag.text, 'a') && strchr(diag.text, 'b') && !strchr(diag.text, 'c'), "%s", diag.text);
    context_take_remarks(w.context, &diag);
    cr_expect(strchr(diag.text, 'c') && !strchr(diag.text, 'a'), "%s", diag.text);
    cr_expect_eq(atomic_load(&w.context->remark_count), 0);
    close_world(&w);
}

/* ---- Threads and processes --------------------------------------------------------------------------------- */

typedef struct crowd {
    world world;
    pthread_barrier_t start;
    atomic_int remarks, wrong;
} crowd;

static void *make_one(void *data) {
    crowd *c = data;
    ffn_kernel *kernel;
    ffn_kernel_info info;
    ffn_diag own = {.text = ""};
    pthread_barrier_wait(&c->start);
    if (ffn_kernel_create(c->world.context, &spec, &kernel, &own) != FFN_OK ||
        ffn_kernel_prepare(kernel, 17, &own) != FFN_OK) {
        atomic_fetch_add(&c->wrong, 1);
        return NULL;
    }
    atomic_fetch_add(&c->remarks, own.text[0] != '\0');
    ffn_kernel_inspect(kernel, 17, &info);
    atomic_fetch_add(&c->wrong, info.plan.m_block != 101 || info.plan_from != FFN_PLAN_TUNED);
    ffn_kernel_destroy(kernel);
    return NULL;
}

Test(plan_choice, of_several_threads_one_reads_and_the_others_wait) {
    enum { THREADS = 8, LINES = 20000 };
    NEEDS_IMAGES();
    write_own(101, HERE);
    char *long_file = malloc(64 + 16 * LINES), *at = long_file; /* it takes a while, and ends badly */
    at += sprintf(at, TUNED_MAGIC "\n");
    for (int i = 0; i < LINES; i++)
        at += sprintf(at, "# %d\n", i);
    sprintf(at, "spec\n");
    write_text(support_path("long"), long_file);
    free(long_file);
    for (int round = 0; round < 5; round++) {
        crowd c = {.remarks = 0};
        open_context(&c.world, (ffn_options){.tuned = support_path("long")});
        pthread_barrier_init(&c.start, NULL, THREADS);
        support_threads_run(THREADS, 0, make_one, &c);
        cr_expect_eq(c.wrong, 0);
        cr_expect_eq(c.remarks, 1, "%d threads were told", c.remarks);
        cr_expect_eq(c.world.fake.builds, 1);
        pthread_barrier_destroy(&c.start);
        close_world(&c.world);
    }
}

/* Another thread was reading when the process was forked: nobody would ever end it in the child. */
Test(plan_choice, a_child_forked_while_tables_are_read_reads_them_itself) {
    NEEDS_IMAGES();
    world w;
    write_own(101, HERE);
    open_context(&w, (ffn_options){.threads = 1});
    atomic_store(&w.context->planning, CONTEXT_READING);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(20);
        ffn_kernel *kernel;
        ffn_kernel_info info = {.plan_from = FFN_PLAN_MODEL};
        if (ffn_kernel_create(w.context, &spec, &kernel, NULL) == FFN_OK &&
            ffn_kernel_prepare(kernel, 17, NULL) == FFN_OK)
            ffn_kernel_inspect(kernel, 17, &info);
        _exit(info.plan_from == FFN_PLAN_TUNED ? 0 : 1);
    }
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %x", (unsigned)status);
    atomic_store(&w.context->planning, CONTEXT_UNPLANNED);
    cr_expect_eq(prepared(&w).plan_from, FFN_PLAN_TUNED, "the parent");
    close_world(&w);
}

static void *make_with_little_stack(void *failed) {
    ffn_context *context;
    ffn_kernel *kernel = NULL;
    if (ffn_context_create(&(ffn_options){.store = "", .compiler = ""}, &context, NULL) != FFN_OK ||
        ffn_kernel_create(context, &spec, &kernel, NULL) != FFN_OK)
        *(bool *)failed = true;
    ffn_kernel_prepare(kernel, 17, NULL);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    return NULL;
}

Test(plan_choice, tables_are_read_on_64_kib_of_stack) {
    NEEDS_PLANS();
    char text[1000] = "d64-f256-act(";
    for (int i = 0; i < 20; i++)
        strcat(text, "max(x,-(x+x*");
    strcat(text, "x");
    for (int i = 0; i < 20; i++)
        strcat(text, "))");
    strcat(text, ")");
    spec = support_spec(text);
    write_own(101, HERE);
    bool failed = false;
    const size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN);
    support_threads_run(1, least > STACK_BYTES ? least : STACK_BYTES, make_with_little_stack, &failed);
    cr_expect_not(failed);
}

/* ---- The folder of settings -------------------------------------------------------------------------------- */

static void expect_path(const char *want) {
    char *path = config_file_path("tuned", &diag);
    cr_assert_not_null(path, "%s", diag.text);
    cr_expect_str_eq(path, want);
    free(path);
}

Test(plan_choice, settings_are_where_the_xdg_rule_says) {
    setenv("XDG_CONFIG_HOME", "/x", 1);
    setenv("HOME", "/h", 1);
    expect_path("/x/ffngen/tuned");
    setenv("XDG_CONFIG_HOME", "relative", 1);
    expect_path("/h/.config/ffngen/tuned");
    unsetenv("XDG_CONFIG_HOME");
    expect_path("/h/.config/ffngen/tuned");
    setenv("HOME", "relative", 1);
    cr_expect_null(config_file_path("tuned", &diag));
    cr_expect_eq(diag.status, FFN_SYSTEM);
    cr_expect_not_null(strstr(diag.text, "XDG_CONFIG_HOME"), "%s", diag.text);
    cr_expect_eq(config_folder_make(&diag), FFN_SYSTEM);
}

Test(plan_choice, the_folder_of_settings_is_made_for_the_user_alone) {
    char *folder = strdup(support_path("a/b//c")), own[4096];
    struct stat found;
    setenv("XDG_CONFIG_HOME", folder, 1);
    for (int i = 0; i < 2; i++) /* the second time it is there */
        cr_assert_eq(config_folder_make(&diag), FFN_OK, "%s", diag.text);
    snprintf(own, sizeof own, "%s/ffngen", folder);
    cr_assert_eq(stat(own, &found), 0);
    cr_expect_eq(found.st_mode & 07777, 0700u);
    cr_assert_eq(rmdir(own), 0);
    write_text(own, "a file\n");
    cr_expect_eq(config_folder_make(&diag), FFN_SYSTEM);
    cr_expect_not_null(strstr(diag.text, "ffngen"), "%s", diag.text);
    free(folder);
}
