/* suite_run.c: every preset against every peer, in the time that is given -> a JSON file and a page
 *
 * A case ends before it is known how long it took, so what follows is dealt its time anew each time. What was asked for
 * and is not among the rows is listed: left out, failed, or not reached when the user interrupted. */
#define _GNU_SOURCE
#include "cmd_bench_spec.h"
#include "ffngen.h"
#include "json.h"
#include "levels.h"
#include "page.h"
#include "replace.h"
#include "rounds.h"
#include "suite.h"
#include "suite_panels.h"
#include "suite_schedule.h"
#include "text_file.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define MINUTES 14
#define RESERVE 0.05      /* of the time: for the page, and for a last case that takes longer than was thought */
#define LEVEL_SECONDS 1.5 /* for each number of threads, but no more than this share of the time: */
#define LEVEL_SHARE 0.02
#define SUSTAINED 0.7   /* of the peak: what is expected of a case before anything was measured */
#define USUAL_GFLOPS 20 /* where the peak is not known */

static const int64_t rows_of_n[] = {1, 4, 16, 64, 128, 512};
enum { N_COUNT = sizeof rows_of_n / sizeof rows_of_n[0] };

typedef struct suite {
    const cmd *command;
    bench_peers peers;
    bench_team *teams[2];
    int threads[2], threads_count;
    suite_schedule schedule;
    cJSON *result, *rows;
    int next; /* case that comes when the sweep asks again */
    double begun_ms;
    bool terminal, complete;
} suite;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

static double now_of(const suite *s) {
    return (bench_now_ms(BENCH_CLOCK_WALL) - s->begun_ms) / 1e3;
}

/* ---- What stands in the JSON beside the rows ---- */

static bool add_presets(suite *s) {
    cJSON *presets = cJSON_AddArrayToObject(s->result, "presets");
    for (int i = 0; i < s->schedule.count; i += N_COUNT * s->threads_count) {
        char spec_name[FFN_SPEC_TEXT_BYTES] = "";
        ffn_spec_format(&s->schedule.cases[i].spec, spec_name, sizeof spec_name, NULL);
        cJSON *preset = cJSON_CreateObject();
        if (!presets || !cJSON_AddItemToArray(presets, preset) || !cJSON_AddStringToObject(preset, "spec", spec_name))
            return false;
        cJSON *names = cJSON_AddArrayToObject(preset, "names");
        const ffn_preset *at;
        for (size_t k = 0; (at = ffn_preset_at(k)); k++) {
            ffn_spec spec;
            if (!ffn_spec_parse(at->spec, &spec, NULL) && ffn_spec_equal(&spec, &s->schedule.cases[i].spec))
                cJSON_AddItemToArray(names, cJSON_CreateString(at->name));
        }
    }
    return presets != NULL;
}

static void add_machine(suite *s, const ffn_machine *machine) {
    char date[32];
    time_t now = time(NULL);
    struct tm utc;
    struct utsname system;
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &utc));
    json_line line = {s->result, true};
    json_integer(&line, "suite", 1);
    json_text(&line, "date", date);
    json_text(&line, "machine", ffn_machine_name());
    json_text(&line, "isa", ffn_isa_name(ffn_isa_best()));
    json_line caches = {cJSON_AddObjectToObject(s->result, "caches"), true};
    json_integer(&caches, "l1_bytes", machine->l1_bytes);
    json_integer(&caches, "l2_bytes", machine->l2_bytes);
    json_integer(&caches, "l3_bytes", machine->l3_bytes);
    json_text_in(&line, "versions", "ffngen", FFN_VERSION);
    json_text_in(&line, "versions", "llvm", ffngen_llvm_version());
    char text[2 * sizeof system.release + 2] = "";
    if (uname(&system) == 0)
        snprintf(text, sizeof text, "%s %s", system.sysname, system.release);
    json_text_in(&line, "versions", "kernel", text);
    json_text(&line, "environment", bench_peer_environment());
    cJSON *peers = cJSON_AddArrayToObject(s->result, "peers");
    for (int i = 0; i < s->peers.count; i++) {
        const bench_peer *peer = &s->peers.list[i];
        json_line one = json_begin();
        json_text(&one, "name", peer->name);
        json_text(&one, "title", peer->title);
        json_text(&one, *peer->missing ? "missing" : "version", *peer->missing ? peer->missing : peer->version);
        cJSON_AddItemToArray(peers, one.object);
    }
}

/* The peak and the levels by the number of threads; the peak of one. */
static double add_levels(suite *s, const ffn_machine *machine, double seconds) {
    cJSON *levels = cJSON_AddArrayToObject(s->result, "levels");
    double peak = 0;
    for (int t = 0; t < s->threads_count; t++) {
        bench_levels of;
        ffn_diag diag;
        const ffn_isa isa = ffn_isa_best();
        if (s->threads[t] == 1 ? bench_levels_measure(isa, machine, seconds, &of, &diag)
                               : bench_levels_measure_team(isa, machine, s->teams[t], seconds, &of, &diag)) {
            cmd_note(s->command, "what the machine can do is not known: %s", diag.text);
            return peak;
        }
        json_line line = json_begin();
        json_integer(&line, "threads", s->threads[t]);
        json_number(&line, "peak_gflops", of.peak_gflops);
        json_number(&line, "l1_gbs", of.l1_gbs);
        json_number(&line, "l2_gbs", of.l2_gbs);
        json_number(&line, "l3_gbs", of.l3_gbs);
        json_number(&line, "memory_gbs", of.memory_gbs);
        json_flag(&line, "busy", of.busy);
        cJSON_AddItemToArray(levels, line.object);
        if (t == 0)
            peak = of.peak_gflops;
    }
    return peak;
}

/* The cases that are not among the rows. */
static void add_rest(suite *s) {
    cJSON *left_out = cJSON_AddArrayToObject(s->result, "left_out"),
          *failed = cJSON_AddArrayToObject(s->result, "failed");
    for (int i = 0; i < s->schedule.count; i++) {
        const suite_case *c = &s->schedule.cases[i];
        if (c->state == SUITE_TAKEN)
            continue;
        char spec[FFN_SPEC_TEXT_BYTES] = "";
        ffn_spec_format(&c->spec, spec, sizeof spec, NULL);
        json_line line = json_begin();
        json_text(&line, "spec", spec);
        json_integer(&line, "n", c->n);
        json_integer(&line, "threads", c->threads);
        json_text(&line, "reason",
                  c->state == SUITE_LEFT_OUT  ? "time"
                  : c->state == SUITE_WAITING ? "interrupted"
                                              : "failed");
        cJSON_AddItemToArray(c->state == SUITE_LEFT_OUT || c->state == SUITE_WAITING ? left_out : failed, line.object);
    }
    json_line line = {s->result, true};
    json_flag(&line, "complete", s->complete);
    json_number(&line, "seconds", now_of(s));
}

/* ---- The cases ---- */

static void progress(const suite *s, const suite_case *c) {
    if (!s->terminal)
        return;
    char spec[FFN_SPEC_NAME_BYTES] = "";
    double left = suite_schedule_left(&s->schedule, now_of(s));
    ffn_spec_name(&c->spec, false, spec, sizeof spec, NULL);
    fprintf(stderr, "\r[%d/%d] %.60s, n = %lld, threads: %d; %.0f:%02d min left\033[K", s->next + 1, s->schedule.count,
            spec, (long long)c->n, c->threads, floor(left / 60), (int)fmod(left, 60));
}

/* The case that comes next in the sweep of now: its seconds. */
static double seconds_for(void *self, const ffn_spec *spec, int64_t n) {
    suite *s = self;
    (void)spec, (void)n; /* the schedule has the order of the sweeps */
    suite_case *c = &s->schedule.cases[s->next];
    if (interrupted) {
        s->complete = false;
        s->next++;
        return 0;
    }
    double seconds = suite_schedule_deal(&s->schedule, s->next, now_of(s));
    if (seconds > 0)
        progress(s, c);
    s->next++;
    return seconds;
}

static int take(void *self, const bench_row *row) {
    suite *s = self;
    suite_case *c = &s->schedule.cases[s->next - 1];
    cJSON *object = bench_row_object(row);
    json_line line = {object, object != NULL};
    if (object)
        json_number(&line, "seconds", c->seconds);
    if (!line.complete || !cJSON_AddItemToArray(s->rows, object)) {
        cJSON_Delete(object);
        return cmd_error(s->command, CMD_FAILED, "no memory for a row");
    }
    c->state = SUITE_TAKEN;
    return CMD_OK;
}

/* Whether the sweep that begins at `first` has a case that there is time for: its weights need not be made else. */
static bool any_fits(const suite *s, int first) {
    suite_schedule trial = s->schedule;
    bool fits = false;
    for (int i = first; i < first + N_COUNT && !fits; i++) {
        suite_case kept = trial.cases[i];
        fits = suite_schedule_deal(&trial, i, now_of(s)) > 0;
        trial.cases[i] = kept;
        trial.running = -1;
    }
    return fits;
}

static int run_cases(suite *s, const suite_options *options) {
    int status = CMD_OK;
    for (int first = 0; first < s->schedule.count && !interrupted; first += N_COUNT) {
        const suite_case *c = &s->schedule.cases[first];
        suite_schedule_end(&s->schedule, now_of(s));
        s->next = first;
        if (!any_fits(s, first)) {
            for (int i = first; i < first + N_COUNT; i++)
                s->schedule.cases[i].state = SUITE_LEFT_OUT;
            continue;
        }
        const bench_sweep sweep = {.row = {.command = s->command,
                                           .team = s->teams[c->threads == s->threads[0] ? 0 : 1],
                                           .tuned = cmd_tuned("off"),
                                           .store = options->store},
                                   .peers = &s->peers,
                                   .n = rows_of_n,
                                   .n_count = N_COUNT,
                                   .take = take,
                                   .self = s,
                                   .seconds_for = seconds_for};
        ffn_spec spec = c->spec;
        int done = bench_sweep_run(&sweep, &spec);
        status = done ? done : status;
        for (int i = first; i < first + N_COUNT; i++) { /* all were asked for; what neither was taken nor left out: */
            suite_case *of = &s->schedule.cases[i];
            if (of->state == SUITE_RUNNING || (of->state == SUITE_WAITING && !interrupted))
                of->state = SUITE_FAILED;
        }
    }
    if (s->terminal)
        fputs("\r\033[K", stderr);
    s->complete = s->complete && !interrupted;
    return status;
}

/* ---- Files ---- */

/* FILE.html -> FILE.json; another name gets .json after it. free(). */
static char *json_path(const char *page) {
    size_t length = strlen(page);
    if (length > 5 && !strcasecmp(page + length - 5, ".html"))
        length -= 5;
    char *path = malloc(length + 6);
    if (path)
        snprintf(path, length + 6, "%.*s.json", (int)length, page);
    return path;
}

static int write_all(suite *s, const char *json, const char *page) {
    ffn_diag diag = {0}, remark = {0};
    cJSON *readable = suite_readable(s->result);
    char *printed = readable ? cJSON_Print(readable) : NULL;
    int status = CMD_OK;
    if (!printed)
        status = cmd_error(s->command, CMD_FAILED, "no memory for the results");
    else if (text_file_write(json, printed, strlen(printed), &diag) || page_write(readable, page, &remark, &diag))
        status = cmd_diag(s->command, &diag);
    cJSON_free(printed);
    cJSON_Delete(readable);
    if (!status && remark.status)
        cmd_note(s->command, "the page has no pictures: %s", remark.text);
    return status;
}

static void tell(const suite *s, const char *json, const char *page) {
    const cJSON *left_out = cJSON_GetObjectItemCaseSensitive(s->result, "left_out");
    printf("%d rows in %.0f s, %d left out: %s, %s\n", cJSON_GetArraySize(s->rows), now_of(s),
           cJSON_GetArraySize(left_out), page, json);
}

/* ---- All of it ---- */

static int prepare(suite *s, const suite_options *options, double budget) {
    ffn_spec *specs = NULL;
    int spec_count, contenders = 1, cpus_here = 1;
    ffn_diag diag = {0};
    ffn_machine machine;
    cpu_set_t cpus;
    if (!sched_getaffinity(0, sizeof cpus, &cpus))
        cpus_here = CPU_COUNT(&cpus);
    s->threads[0] = 1;
    s->threads[1] = options->threads > 0 ? options->threads : cpus_here;
    s->threads_count = s->threads[1] > 1 ? 2 : 1;
    for (int t = 0; t < s->threads_count; t++) {
        s->teams[t] = bench_team_create(s->threads[t]);
        if (!s->teams[t])
            return cmd_error(s->command, CMD_FAILED, "%d threads could not be started", s->threads[t]);
    }
    int status = bench_peers_of(s->command, options->peers ? options->peers : "all", &s->peers);
    if (status)
        return status;
    for (int i = 0; i < s->peers.count; i++)
        if (!*s->peers.list[i].missing)
            contenders += s->peers.list[i].module->own_activation ? 2 : 1; /* the fast kernel is one too */
    ffn_machine_read(&machine);
    add_machine(s, &machine);
    double peak = add_levels(s, &machine, fmin(LEVEL_SECONDS, LEVEL_SHARE * budget));
    if (suite_presets(&specs, &spec_count, &diag) ||
        suite_schedule_make(specs, spec_count, rows_of_n, N_COUNT, s->threads, s->threads_count, contenders,
                            peak > 0 ? SUSTAINED * peak : USUAL_GFLOPS, budget * (1 - RESERVE), &s->schedule, &diag))
        status = cmd_diag(s->command, &diag);
    free(specs);
    s->rows = status ? NULL : cJSON_AddArrayToObject(s->result, "rows");
    if (!status && (!s->rows || !add_presets(s)))
        status = cmd_error(s->command, CMD_FAILED, "no memory for the results");
    return status;
}

int suite_run(const cmd *command, const suite_options *options) {
    suite s = {.command = command, .complete = true, .terminal = isatty(STDERR_FILENO) == 1};
    s.begun_ms = bench_now_ms(BENCH_CLOCK_WALL);
    s.result = cJSON_CreateObject();
    ffn_diag diag = {0};
    char *json = json_path(options->output);
    int status = CMD_OK;
    if (!s.result || !json)
        status = cmd_error(command, CMD_FAILED, "no memory for the results");
    else if (replace_check(options->output, &diag) || replace_check(json, &diag))
        status = cmd_diag(command, &diag);
    interrupted = 0;
    struct sigaction stop = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND | SA_RESTART}, old_int, old_term;
    sigemptyset(&stop.sa_mask);
    sigaction(SIGINT, &stop, &old_int); /* the second time ends it at once */
    sigaction(SIGTERM, &stop, &old_term);
    if (!status)
        status = prepare(&s, options, 60 * (options->minutes > 0 ? options->minutes : MINUTES));
    if (!status) {
        status = run_cases(&s, options);
        add_rest(&s);
        int written = write_all(&s, json, options->output);
        if (!s.complete)
            status = cmd_error(command, CMD_FAILED, "interrupted: the results are incomplete");
        if (s.complete && cJSON_GetArraySize(s.rows) == 0)
            status = cmd_error(command, CMD_FAILED, "no row fits into %g minutes", options->minutes);
        status = written ? written : status;
        if (!written)
            tell(&s, json, options->output);
    }
    sigaction(SIGINT, &old_int, NULL);
    sigaction(SIGTERM, &old_term, NULL);
    bench_peers_close(&s.peers);
    for (int t = 0; t < 2; t++)
        bench_team_destroy(s.teams[t]);
    free(s.schedule.cases);
    free(json);
    cJSON_Delete(s.result);
    return status;
}
