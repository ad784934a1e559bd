/* test_peers.c: the peers of `ffngen bench` compute the same FFN, what is missing is named, what is wrong is caught */
#define _POSIX_C_SOURCE 200809L
#include "cmd_bench_spec.h"
#include "support_command.h"
#include "support_files.h"
#include "support_host.h"
#include "support_oracle.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 0.001 /* for what a peer tries out */
#define ROWS_MAX 33
#define ERROR_MAX                                                                                       \
    2e-5 /* f32 sums of some hundred terms stay below; BENCH_ERROR_MAX is for sums of tens of thousands \
          */

static const int64_t row_counts[] = {1, 3, 16, ROWS_MAX};
#define ROW_COUNTS ((int)(sizeof row_counts / sizeof *row_counts))
static const ffn_machine machine = {.l1_bytes = 1 << 15, .l2_bytes = 1 << 19, .l3_bytes = 1 << 20};
static const cmd command = {.name = "test"};

#if defined(__SANITIZE_THREAD__)
#define SKIP_UNDER_TSAN() cr_skip_test("the thread sanitizer does not know the peers' run times")
#else
#define SKIP_UNDER_TSAN()
#endif

/* No table or store of the user's takes part. */
static void setup(void) {
    support_folder_make();
    setenv("XDG_CONFIG_HOME", support_path("config"), 1);
    setenv("XDG_CACHE_HOME", support_path("cache"), 1);
    unsetenv("FAKE_PEER");
}

TestSuite(peers, .init = setup, .fini = support_folder_remove);

static ffn_spec parse(const char *text) {
    ffn_spec spec;
    ffn_diag diag = {0};
    cr_assert_eq(ffn_spec_parse(text, &spec, &diag), FFN_OK, "%s: %s", text, diag.text);
    return spec;
}

/* ---- The peers that are here ---- */

/* Through the interpreter of formulas: no kernel is needed for what the peers borrow. */
typedef struct borrowed {
    cmd_kernel kernel;
    int64_t n;
} borrowed;

static void activate(const void *self, int64_t count, const float *g, const float *u, float *out) {
    const borrowed *b = self;
    ffn_kernel_activate(b->kernel.kernel, b->n, count, g, u, out, NULL); /* portable: nothing was prepared */
}

static void check_case(const bench_peer *peer, const borrowed *lender, const bench_oracle *oracle, const float *x,
                       const char *text, int threads) {
    char words[PEER_TEXT_BYTES] = "";
    void *made =
        peer->module->case_create(peer->weights, lender->n, x, (peer_lender){activate, lender}, SECONDS, words);
    cr_assert_not_null(made, "%s, %s, n = %lld: %s", peer->name, text, (long long)lender->n, words);
    for (int turn = 0; turn < 3; turn++) { /* of cold weights every copy */
        peer->module->call(made);
        const float *y = peer->module->output(made);
        cr_assert_not_null(y);
        double error = bench_oracle_error(oracle, y, lender->n);
        cr_assert(error <= ERROR_MAX, "%s, %s, n = %lld, %d threads: error %g", peer->name, text, (long long)lender->n,
                  threads, error);
    }
    if (peer->module->rest)
        peer->module->rest(made);
    peer->module->chosen(made, words);
    cr_assert_str_not_empty(words);
    peer->module->case_destroy(made);
}

/* One spec by all peers that are here; every second of row_counts, from the second on, or all. */
static void check_spec(bench_peers *peers, const char *text, bool cold, int threads, bool all_rows) {
    ffn_spec spec = parse(text);
    bench_layer layer;
    bench_oracle oracle;
    borrowed lender;
    cr_assert_eq(bench_layer_create(&spec, NULL, cold, &machine, &layer, NULL), FFN_OK);
    cr_assert(!cold || layer.plain.count > 2);
    float *x = bench_alloc((size_t)(ROWS_MAX * spec.d_model) * sizeof(float));
    bench_fill(x, ROWS_MAX * spec.d_model, 1, 5);
    cr_assert_eq(bench_oracle_create(&layer, x, row_counts, ROW_COUNTS, &oracle, NULL), FFN_OK);
    cr_assert_eq(cmd_kernel_open(&spec, &(ffn_options){.store = "", .tuned = ""}, &lender.kernel, NULL), FFN_OK);
    bench_peers_take(peers, &layer, threads);
    for (int i = 0; i < peers->count; i++) {
        if (!peers->list[i].module)
            continue;
        cr_assert_not_null(peers->list[i].weights, "%s: %s", peers->list[i].name, peers->list[i].no_layer);
        for (int r = !all_rows; r < ROW_COUNTS; r += 1 + !all_rows) {
            lender.n = row_counts[r];
            check_case(&peers->list[i], &lender, &oracle, x, text, threads);
        }
    }
    bench_peers_drop(peers);
    cmd_kernel_close(&lender.kernel);
    bench_oracle_destroy(&oracle);
    bench_free(x);
    bench_layer_destroy(&layer);
}

static void open_all(bench_peers *peers) {
    cr_assert_eq(bench_peers_parse("all", peers, NULL), FFN_OK);
    bench_peers_open(peers);
    for (int i = 0; i < peers->count; i++) {
        if (*peers->list[i].missing)
            printf("not tested: %s is missing: %s\n", peers->list[i].name, peers->list[i].missing);
        else
            cr_expect_str_not_empty(peers->list[i].version);
    }
}

Test(peers, each_gives_the_oracle_s_y_for_every_activation) {
    SKIP_UNDER_TSAN();
    bench_peers peers;
    open_all(&peers);
    for (size_t i = 0; ffn_activation_at(i); i++) {
        char text[96];
        snprintf(text, sizeof text, "d37-f53-%s-bias", ffn_activation_at(i)->name);
        check_spec(&peers, text, false, 1, false);
    }
    bench_peers_close(&peers);
}

Test(peers, each_gives_the_oracle_s_y_for_ragged_shapes_biases_parameters_and_formulas) {
    SKIP_UNDER_TSAN();
    static const char *const texts[] = {"d1-f1-relu",
                                        "d17-f3-gelu-bias_down",
                                        "d64-f256-silu-bias_up",
                                        "d129-f66-swiglu",
                                        "d50-f200-geglu-bias_gate-bias_down",
                                        "d40-f72-swiglu-bias_up",
                                        "d33-f31-leaky_relu(0.3)-bias",
                                        "d33-f31-elu(0.7)-bias",
                                        "d33-f31-swish(2.5)",
                                        "d20-f45-bias-act(1+x*sigmoid(x)/(1+x*x))",
                                        "d20-f45-gated(exp(min(g,1))*(u+1))",
                                        "d20-f45-act(select(x==0,1/x,x))"};
    bench_peers peers;
    open_all(&peers);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_spec(&peers, texts[i], false, 1, true);
    }
    bench_peers_close(&peers);
}

Test(peers, each_gives_the_oracle_s_y_with_two_threads) {
    SKIP_UNDER_TSAN();
    bench_peers peers;
    open_all(&peers);
    check_spec(&peers, "d33-f100-gelu-bias", false, 2, false);
    check_spec(&peers, "d129-f66-swiglu_oai-bias_up", false, 2, false);
    check_spec(&peers, "d300-f7-reglu", false, 2, false);
    bench_peers_close(&peers);
}

Test(peers, each_takes_cold_weights_in_turn) {
    SKIP_UNDER_TSAN();
    bench_peers peers;
    open_all(&peers);
    check_spec(&peers, "d61-f130-gelu-bias", true, 1, false);
    check_spec(&peers, "d61-f130-swiglu", true, 1, false);
    bench_peers_close(&peers);
}

/* ---- Names, and what is missing ---- */

Test(peers, a_list_of_names_is_read_or_refused_whole) {
    bench_peers peers = {.count = 7};
    ffn_diag diag = {0};
    cr_assert_eq(bench_peers_parse("blis,openblas", &peers, &diag), FFN_OK);
    cr_expect_eq(peers.count, 2);
    cr_expect_str_eq(peers.list[0].name, "blis");
    cr_expect_str_eq(peers.list[1].name, "openblas");
    cr_assert_eq(bench_peers_parse("none", &peers, &diag), FFN_OK);
    cr_expect_eq(peers.count, 0);
    cr_assert_eq(bench_peers_parse("all", &peers, &diag), FFN_OK);
    cr_expect_eq(peers.count, 4);
    static const char *const wrong[] = {"mkl", "", "blis,", ",blis", "blis,blis", "openblas,all", "BLIS", "open"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_expect_eq(bench_peers_parse(wrong[i], &peers, &diag), FFN_BAD_ARGUMENT, "'%s'", wrong[i]);
        cr_expect_eq(peers.count, 4, "'%s' left something", wrong[i]);
        cr_expect_str_not_empty(diag.text);
    }
}

Test(peers, one_that_is_not_there_or_cannot_be_loaded_says_why) {
    static const char words[] = "no library";
    bench_peers peers;
    support_file_write(support_path("ffngen_peer_blis.so"), words, sizeof words - 1);
    bench_peers_folder(support_path("."));
    cr_assert_eq(bench_peers_parse("onednn,blis", &peers, NULL), FFN_OK);
    bench_peers_open(&peers);
    cr_expect(strstr(peers.list[0].missing, "not built") && strstr(peers.list[0].missing, "libdnnl-dev"), "%s",
              peers.list[0].missing);
    cr_expect(strstr(peers.list[1].missing, "cannot be loaded"), "%s", peers.list[1].missing);
    cr_expect(!peers.list[0].module && !peers.list[1].module);
    bench_peers_close(&peers);
    bench_peers_folder(support_beside("fake_peers"));
    cr_assert_eq(bench_peers_parse("onednn", &peers, NULL), FFN_OK);
    bench_peers_open(&peers);
    cr_expect(strstr(peers.list[0].missing, "interface 0"), "%s", peers.list[0].missing);
    bench_peers_close(&peers);
}

/* ---- Rows ---- */

typedef struct taken {
    int rows;
    bench_report report;
    cJSON *object;
} taken;

static int take(void *self, const bench_row *row) {
    taken *t = self;
    t->rows++;
    t->report = row->report;
    cJSON_Delete(t->object);
    t->object = bench_row_object(row);
    return CMD_OK;
}

static int sweep(const char *spec_text, const char *folder, const char *names, taken *t) {
    const int64_t n[] = {5};
    bench_peers peers;
    bench_team *team = bench_team_create(1);
    ffn_spec spec = parse(spec_text);
    *t = (taken){0};
    bench_peers_folder(folder);
    cr_assert_eq(bench_peers_of(&command, names, &peers), CMD_OK);
    const bench_sweep s = {.row = {.command = &command, .team = team, .seconds = 0.01, .store = "", .tuned = ""},
                           .peers = &peers,
                           .n = n,
                           .n_count = 1,
                           .take = take,
                           .self = t};
    int status = bench_sweep_run(&s, &spec);
    bench_peers_close(&peers);
    bench_team_destroy(team);
    return status;
}

static const cJSON *field(const taken *t, const char *group, const char *key) {
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(t->object, group), key);
}

static bool is_missing(const taken *t, const char *name) {
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(t->object, "missing")) {
        if (!strcmp(item->valuestring, name))
            return true;
    }
    return false;
}

Test(peers, a_missing_one_is_named_in_the_row_and_the_others_are_measured) {
    taken t;
    cr_expect_eq(sweep("d24-f40-relu-bias", support_beside("fake_peers"), "libxsmm,blis", &t), CMD_OK);
    cr_assert_eq(t.rows, 1);
    cr_expect(is_missing(&t, "libxsmm") && !is_missing(&t, "blis"));
    cr_expect(!t.report.peers[0].ran && strstr(t.report.peers[0].text, "not built"));
    cr_expect(t.report.peers[1].timed);
    cr_expect(field(&t, "vs", "blis") && field(&t, "vs_min", "blis") && !field(&t, "vs", "libxsmm"));
    cr_expect(cJSON_IsString(field(&t, "peers", "blis")) && !field(&t, "peers", "libxsmm"));
    cr_expect(field(&t, "errors", "ffngen") && field(&t, "errors", "blis") && !field(&t, "errors", "libxsmm"));
    cr_expect_lt(t.report.max_error, ERROR_MAX);
    cJSON_Delete(t.object);
}

Test(peers, a_wrong_output_is_an_error_and_is_not_timed) {
    static const char *const ways[] = {"wrong", "nan"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        taken t;
        setenv("FAKE_PEER", ways[i], 1);
        cr_expect_eq(sweep("d24-f40-swiglu", support_beside("fake_peers"), "blis", &t), CMD_FAILED, "%s", ways[i]);
        cr_assert_eq(t.rows, 1);
        cr_expect(t.report.peers[0].ran && !t.report.peers[0].timed, "%s", ways[i]);
        cr_expect(!(t.report.peers[0].max_error <= BENCH_ERROR_MAX), "%s", ways[i]);
        cr_expect(is_missing(&t, "blis") && !field(&t, "vs", "blis") && field(&t, "errors", "blis"), "%s", ways[i]);
        cr_expect_gt(t.report.ms_min, 0, "the kernel is right");
        cJSON_Delete(t.object);
    }
}

/* Where it borrows ours, is exact anyway, or ours is fast already, there is nothing to set beside. */
Test(peers, one_with_an_activation_of_its_own_is_set_beside_the_fast_kernel_too) {
    static const struct {
        const char *spec, *how;
        bool wanted;
    } rows[] = {{"d24-f40-gelu-bias", "own", true},
                {"d24-f40-gelu-bias", "lent", false},
                {"d24-f40-relu", "own", false},
                {"d24-f40-gelu-bias-fast", "own", false}};
    if (ffn_isa_best() == FFN_ISA_PORTABLE)
        cr_skip_test("no code is generated for this CPU");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        taken t;
        setenv("FAKE_PEER", rows[i].how, 1);
        cr_expect_eq(sweep(rows[i].spec, support_beside("fake_peers"), "blis", &t), CMD_OK);
        const bench_report *r = &t.report;
        const cJSON *ratio = field(&t, "vs_fast", "blis");
        cr_expect_eq(r->fast.timed, rows[i].wanted, "%s, %s", rows[i].spec, rows[i].how);
        cr_expect_eq(ratio != NULL, rows[i].wanted);
        cr_expect_eq(cJSON_HasObjectItem(t.object, "fast_ms_min"), rows[i].wanted);
        if (rows[i].wanted) {
            cr_expect(r->fast.ms_min > 0 && r->fast.ms_min <= r->fast.ms_median);
            double is = r->peers[0].ms_median / r->fast.ms_median, said = strtod(ratio->valuestring, NULL);
            cr_expect_float_eq(said, is, 1e-5 * is);
            cr_expect_neq(r->fast.max_error, r->max_error, "the same kernel twice");
            cr_expect_lt(r->fast.max_error, ERROR_MAX);
        }
        cJSON_Delete(t.object);
    }
}

Test(peers, the_command_takes_names_and_all_threads) {
    static const char *const run[] = {"bench", "d24-f40-relu", "--n",    "2",         "--seconds", "0.01",
                                      "--vs",  "none",         "--json", "--threads", "all",       NULL};
    support_run(FFN_COMMAND, -1, run);
    support_expect_status(0);
    cr_expect(strstr(support_result.out, "\"missing\":[]") && !strstr(support_result.out, "\"vs\""), "%s",
              support_result.out);
    static const char *const wrong[][7] = {{"bench", "d24-f40-relu", "--vs", "mkl", NULL},
                                           {"bench", "d24-f40-relu", "--threads", "0", NULL},
                                           {"bench", "d24-f40-relu", "--threads", "2x", NULL},
                                           {"bench", "d24-f40-relu", "--threads", "99999999999999999999", NULL}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        support_run(FFN_COMMAND, -1, wrong[i]);
        support_expect_status(2);
        cr_expect(strstr(support_result.err, wrong[i][2]), "%s", support_result.err);
    }
}

/* ---- The oracle ---- */

Test(peers, the_oracle_agrees_with_another_one) {
    static const char *const texts[] = {"d37-f53-gelu-bias", "d20-f300-swiglu-bias_gate", "d9-f5-relu2-bias_down"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ffn_spec spec = parse(texts[i]);
        bench_layer layer;
        bench_oracle oracle;
        float *x = bench_alloc((size_t)(ROWS_MAX * spec.d_model) * sizeof(float));
        double *y = malloc((size_t)(ROWS_MAX * spec.d_model) * sizeof *y);
        bench_fill(x, ROWS_MAX * spec.d_model, 1, 5);
        cr_assert_eq(bench_layer_create(&spec, NULL, false, &machine, &layer, NULL), FFN_OK);
        cr_assert_eq(bench_oracle_create(&layer, x, row_counts, ROW_COUNTS, &oracle, NULL), FFN_OK);
        ffn_weights weights = bench_layer_weights(&layer);
        oracle_ffn(&spec, &weights, x, spec.d_model, ROWS_MAX, y, NULL);
        cr_assert_eq(oracle.count, ROWS_MAX, "all rows of something small");
        for (int64_t at = 0; at < ROWS_MAX * spec.d_model; at++)
            cr_assert_float_eq(oracle.y[at], y[at], 1e-12 * (1 + fabs(y[at])), "%s, %lld", texts[i], (long long)at);
        free(y);
        bench_free(x);
        bench_oracle_destroy(&oracle);
        bench_layer_destroy(&layer);
    }
}

Test(peers, the_oracle_of_many_rows_has_the_ends_of_each_n_and_every_remainder) {
    static const int64_t n[] = {4, 16, 77, 4000};
    ffn_spec spec = parse("d16-f1024-relu");
    bench_layer layer;
    bench_oracle oracle;
    float *x = bench_alloc((size_t)(4000 * spec.d_model) * sizeof(float));
    cr_assert_eq(bench_layer_create(&spec, NULL, false, &machine, &layer, NULL), FFN_OK);
    cr_assert_eq(bench_oracle_create(&layer, x, n, 4, &oracle, NULL), FFN_OK);
    cr_expect_lt(oracle.count, 1100, "it takes time for %lld rows", (long long)oracle.count);
    for (int64_t i = 1; i < oracle.count; i++)
        cr_assert_lt(oracle.rows[i - 1], oracle.rows[i]);
    cr_expect_eq(oracle.rows[0], 0);
    for (int i = 0; i < 4; i++) {
        bool last = false;
        for (int64_t r = 0; r < oracle.count; r++)
            last = last || oracle.rows[r] == n[i] - 1;
        cr_expect(last, "the last of %lld", (long long)n[i]);
    }
    for (int height = 2; height <= 24; height++) {
        uint64_t seen = 0;
        for (int64_t r = 0; r < oracle.count; r++)
            seen |= oracle.rows[r] > 600 ? UINT64_C(1) << (oracle.rows[r] % height) : 0;
        cr_expect_eq(seen, (UINT64_C(1) << height) - 1, "tiles of %d rows", height);
    }
    bench_oracle_destroy(&oracle);
    bench_layer_destroy(&layer);
    bench_free(x);
}
