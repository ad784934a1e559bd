/* cmd_tune.c: ffngen tune: specs, row counts, threads -> the fastest plans, into the tuned table */
#define _POSIX_C_SOURCE 200809L /* sigaction */
#include "config_folder.h"
#include "ffngen.h"
#include "machine.h"
#include "options.h"
#include "plot.h"
#include "report.h"
#include "rounds.h"
#include "tune.h"
#include "tune_heat.h"
#include "tune_keep.h"
#include "tune_list.h"
#include "tuned.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 1024
#define COLD_ROWS 16 /* up to so many the weights are read once from where a model of many layers has them */
#define BUDGET_MAX 86400
#define PROGRESS_SECONDS 0.2

static volatile sig_atomic_t stopping;

static void stop(int signal_number) {
    (void)signal_number;
    stopping = 1;
}

typedef struct settings {
    const cmd *command;
    ffn_isa isa;
    option_counts n, threads;
    double seconds;
    bool exhaustive, resume, warm, json;
    const char *from, *budget, *log_path, *tuned, *plot;
    ffn_machine machine;
    tune_log *log;
    char *own_log, *own_table; /* default paths */
    const char *table_path;    /* NULL: the results go to no table */
    report_table table;
    tune_heat heat;
    bool terminal;
    double shown; /* when progress was last */
    char job_name[FFN_SPEC_NAME_BYTES + 64];
    int job, jobs, busy;
} settings;

/* ---- Progress ---- */

static void clear_progress(const settings *s) {
    if (s->terminal)
        fprintf(stderr, "\r\033[K");
}

static void time_text(double seconds, char *text, size_t text_bytes) {
    if (seconds < 100)
        snprintf(text, text_bytes, "%.0f s", seconds);
    else if (seconds < 6000)
        snprintf(text, text_bytes, "%.0f min", seconds / 60);
    else
        snprintf(text, text_bytes, "%.1f h", seconds / 3600);
}

static void show(void *self, const tune_progress *progress) {
    settings *s = self;
    double now = bench_now_ms(BENCH_CLOCK_WALL) * 1e-3;
    if (!s->terminal || now - s->shown < PROGRESS_SECONDS)
        return;
    s->shown = now;
    char left[32];
    double later = s->exhaustive ? 0 : s->seconds * (s->jobs - s->job);
    time_text(progress->seconds_left + later, left, sizeof left);
    clear_progress(s);
    fprintf(stderr, "[%d/%d] %s: %d of %d plans, %d failed, best %+.1f %%, %s left%s", s->job, s->jobs, s->job_name,
            progress->tried, progress->candidates, progress->failed, progress->gain * 100, left,
            s->exhaustive && s->jobs > 1 ? " for this one" : "");
    fflush(stderr);
}

static void add_to_heat(void *self, const tune_record *record) {
    settings *s = self;
    if (s->plot)
        tune_heat_add(&s->heat, record);
}

/* ---- Results ---- */

static double gain_of(const tune_outcome *outcome) {
    return 1 / outcome->best.figures.ratio - 1;
}

/* Of the rounds that timed the best plan too; 0 where the model's plan was in none. */
static double model_ms(const tune_outcome *outcome) {
    bool beside = outcome->model.state == TUNE_OK && !strcmp(outcome->model.plan, outcome->best.reference);
    return beside ? outcome->best.figures.reference_ms : 0;
}

static bool print_json(const tune_outcome *outcome) {
    json_line line = tune_record_line(&outcome->best);
    if (model_ms(outcome) > 0)
        json_number(&line, "model_ms", model_ms(outcome));
    json_number(&line, "gain", gain_of(outcome));
    json_integer(&line, "tried", outcome->tried);
    json_integer(&line, "failed", outcome->failed);
    json_integer(&line, "recalled", outcome->recalled);
    return json_end(&line);
}

static void print_row(settings *s, const tune_outcome *outcome) {
    const tune_record *best = &outcome->best;
    char name[FFN_SPEC_NAME_BYTES] = "";
    ffn_spec_name(&best->spec, false, name, sizeof name, NULL);
    report_cell(&s->table, "%s", name);
    report_cell(&s->table, "%lld", (long long)best->n);
    report_cell(&s->table, "%lld", (long long)best->threads);
    if (model_ms(outcome) > 0)
        report_cell(&s->table, "%.4f", model_ms(outcome));
    else
        report_cell(&s->table, "-");
    report_cell(&s->table, "%.4f", best->figures.ms_median);
    report_cell(&s->table, "%+.1f %%", gain_of(outcome) * 100);
    report_cell(&s->table, "%d", outcome->tried);
    report_cell(&s->table, "%d", outcome->failed);
    report_cell(&s->table, "%s", best->busy > TUNE_BUSY ? "busy" : "");
    report_cell(&s->table, "%s", best->plan);
}

static report_table begin_table(const ffn_spec *specs, int count) {
    static report_column columns[] = {
        {"spec", 0, false}, {"n", 4, true},     {"threads", 0, true}, {"model ms", 9, true}, {"best ms", 9, true},
        {"gain", 8, true},  {"tried", 5, true}, {"failed", 6, true},  {"busy", 4, false},    {"plan", 0, false}};
    columns[0].width = 0;
    for (int i = 0; i < count; i++) {
        char name[FFN_SPEC_NAME_BYTES] = "";
        ffn_spec_name(&specs[i], false, name, sizeof name, NULL);
        int length = (int)strlen(name);
        columns[0].width = length > columns[0].width ? length : columns[0].width;
    }
    return report_begin(columns, sizeof columns / sizeof columns[0], false);
}

/* A job's plan into the table and onto standard output. */
static int deliver(settings *s, const tune_outcome *outcome) {
    ffn_diag diag;
    double stays = 0;
    char plan[TUNE_PLAN_BYTES];
    int status = CMD_OK;
    if (s->table_path && tune_keep_best(&outcome->best, s->table_path, &stays, plan, &diag))
        status = cmd_diag(s->command, &diag);
    clear_progress(s);
    if (stays > 0)
        cmd_note(s->command, "%s: the table has a faster plan for class %s already, which stays: %.4f ms, %s",
                 s->job_name, ffn_n_class_name(ffn_n_class_of(outcome->best.n)), stays, plan);
    if (s->json)
        status = print_json(outcome) ? status : CMD_FAILED;
    else
        print_row(s, outcome);
    s->busy += outcome->best.busy > TUNE_BUSY;
    if (s->plot && tune_heat_plot(&s->heat, &outcome->best, s->plot, &diag))
        status = cmd_error(s->command, CMD_FAILED, "--plot: %s", diag.text);
    return status;
}

static int tune_one(settings *s, const ffn_spec *spec, int64_t n, int64_t threads) {
    tune_job job = {.spec = *spec,
                    .isa = s->isa == FFN_ISA_AUTO ? ffn_isa_best() : s->isa,
                    .n = n,
                    .threads = (int32_t)threads,
                    .cold = n <= COLD_ROWS && !s->warm,
                    .exhaustive = s->exhaustive,
                    .seconds = s->seconds,
                    .source = ffngen_source(),
                    .llvm = ffngen_llvm_version(),
                    .machine = &s->machine,
                    .machine_name = ffn_machine_name(),
                    .log = s->log,
                    .resume = s->resume,
                    .stopping = &stopping,
                    .progress = show,
                    .result = add_to_heat,
                    .self = s};
    tune_outcome outcome;
    ffn_diag diag;
    char name[FFN_SPEC_NAME_BYTES] = "";
    ffn_spec_name(spec, false, name, sizeof name, NULL);
    snprintf(s->job_name, sizeof s->job_name, "%s n=%lld threads=%lld", name, (long long)n, (long long)threads);
    s->job++;
    ffn_status status = tune_run(&job, &outcome, &diag);
    clear_progress(s);
    if (status) {
        cmd_error(s->command, CMD_FAILED, "%s: %s", s->job_name, diag.text);
        return CMD_FAILED;
    }
    return outcome.interrupted ? CMD_OK : deliver(s, &outcome);
}

/* ---- Settings ---- */

/* "60", "60s", "2m", "1.5h" */
static bool read_budget(settings *s) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}};
    char *end;
    errno = 0;
    double number = strtod(s->budget, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0] && !errno && end != s->budget; i++) {
        double seconds = number * units[i].seconds;
        if (!strcmp(end, units[i].unit) && seconds > 0 && seconds <= BUDGET_MAX) {
            s->seconds = seconds;
            return true;
        }
    }
    cmd_error(s->command, CMD_USAGE, "--budget: '%.40s' is no time above 0 and up to a day; one is like 60s, 2m or 1h",
              s->budget);
    return false;
}

static int open_log(settings *s) {
    ffn_diag diag;
    bool torn;
    if (!s->log_path) {
        s->own_log = tune_log_default(&diag);
        if (!s->own_log)
            return cmd_diag(s->command, &diag);
        s->log_path = s->own_log;
    }
    if (tune_log_open(s->log_path, s->resume, &s->log, &torn, &diag))
        return cmd_error(s->command, CMD_FAILED, "--log: %s", diag.text);
    if (torn)
        cmd_note(s->command, "%s ended in a torn line, which is dropped", s->log_path);
    return CMD_OK;
}

/* A table that cannot be added to is better known before an hour of measuring than after. */
static int check_table(const settings *s) {
    ffn_diag diag;
    tuned *table = NULL;
    bool missing = false;
    ffn_status status = tuned_load_present(s->table_path, &table, &missing, &diag);
    tuned_free(table);
    return !status || missing ? CMD_OK : cmd_error(s->command, CMD_FAILED, "--tuned: %s", diag.text);
}

static int find_table(settings *s) {
    ffn_diag diag;
    if (!strcmp(s->tuned, "off"))
        return CMD_OK;
    s->table_path = s->tuned;
    if (strcmp(s->tuned, "default") != 0)
        return check_table(s);
    if (config_folder_make(&diag))
        return cmd_diag(s->command, &diag);
    s->own_table = config_file_path("tuned", &diag);
    s->table_path = s->own_table;
    return s->own_table ? check_table(s) : cmd_diag(s->command, &diag);
}

/* The table keeps one record a class, the faster: of two row counts of a class the smaller one's. */
static void note_shared_classes(const settings *s) {
    int of_class[FFN_N_CLASSES] = {0};
    for (int i = 0; i < s->n.count && s->table_path; i++) {
        if (of_class[ffn_n_class_of(s->n.values[i])]++ == 1)
            cmd_note(s->command,
                     "several n are of class %s, of which the table keeps one plan: that with the shortest time; "
                     "the log has them all",
                     ffn_n_class_name(ffn_n_class_of(s->n.values[i])));
    }
}

static void catch_signals(void) {
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = stop, .sa_flags = (int)SA_RESETHAND}; /* the second one ends at once */
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old;
        if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

static int tune_all(settings *s, const ffn_spec *specs, int count) {
    int status = CMD_OK;
    s->jobs = count * s->n.count * s->threads.count;
    for (int i = 0; i < count; i++) {
        for (int t = 0; t < s->threads.count; t++) {
            for (int j = 0; j < s->n.count && !stopping && !ferror(stdout); j++) {
                int done = tune_one(s, &specs[i], s->n.values[j], s->threads.values[t]);
                status = done ? done : status;
            }
        }
    }
    if (s->busy > 0)
        cmd_note(s->command, "the machine was busy during %d of %d: these figures are worth less", s->busy, s->job);
    if (stopping)
        status = cmd_error(s->command, CMD_FAILED, "interrupted; what was measured is kept, and --resume goes on");
    return status;
}

static int run_specs(settings *s, const ffn_spec *specs, int count) {
    if (s->plot && count * s->n.count * s->threads.count != 1)
        return cmd_error(s->command, CMD_USAGE, "--plot shows one spec, one n and one number of threads");
    ffn_diag problem;
    if (s->plot && plot_path_check(s->plot, &problem))
        return cmd_error(s->command, problem.status == FFN_BAD_ARGUMENT ? CMD_USAGE : CMD_FAILED, "--plot: %s",
                         problem.text);
    int status = find_table(s);
    if (!status)
        status = open_log(s);
    if (status)
        return status;
    note_shared_classes(s);
    catch_signals();
    if (!s->json)
        s->table = begin_table(specs, count);
    status = tune_all(s, specs, count);
    if (!s->json && !report_end(&s->table))
        status = CMD_FAILED;
    return status;
}

static int run(const cmd *command, int argc, char **argv) {
    settings s = {.command = command,
                  .n = {3, {1, 16, 128}},
                  .threads = {1, {1}},
                  .budget = "60s",
                  .tuned = "default",
                  .terminal = isatty(STDERR_FILENO)};
    const option_row table[] = {
        {"from", 0, OPTION_TEXT, &s.from, "FILE", "more specs, one a line; # begins a comment", NULL},
        {"n", 'n', OPTION_COUNTS, &s.n, "N,...", "numbers of rows (default 1,16,128)", NULL},
        {"threads", 0, OPTION_COUNTS, &s.threads, "T,...", "numbers of threads that share a run (default 1)", NULL},
        {"budget", 0, OPTION_TEXT, &s.budget, "T", "time for each spec, n and threads: 60s, 2m (default 60s)", NULL},
        {"exhaustive", 0, OPTION_FLAG, &s.exhaustive, NULL, "the whole grid, whatever time it takes", NULL},
        {"resume", 0, OPTION_FLAG, &s.resume, NULL, "what the log has already is not measured again", NULL},
        {"log", 0, OPTION_TEXT, &s.log_path, "F.jsonl", "every result (default: in the user's folder of state)", NULL},
        {"tuned", 0, OPTION_TEXT, &s.tuned, CMD_TUNED_ARGUMENT, "the table for the winners (default: the user's)",
         NULL},
        {"isa", 0, OPTION_ISA, &s.isa, "ISA", "plans for this ISA (default: the best here)", NULL},
        {"warm", 0, OPTION_FLAG, &s.warm, NULL, "weights stay in the caches also where n is 16 or less", NULL},
        {"plot", 0, OPTION_TEXT, &s.plot, "F.svg|F.png", "picture of GFLOP/s by tile, through gnuplot", NULL},
        {"json", 0, OPTION_FLAG, &s.json, NULL, "one JSON object a line", NULL},
        {0}};
    int operands, status, count;
    if (!options_parse(command, table, argc, argv, &operands, &status))
        return status;
    count = argc - operands;
    if (!cmd_isa_runs(command, s.isa) || !read_budget(&s))
        return CMD_USAGE;
    for (int i = 0; i < s.threads.count; i++) {
        if (s.threads.values[i] > THREADS_MAX)
            return cmd_error(command, CMD_USAGE, "--threads: at most %d", THREADS_MAX);
    }
    ffn_spec *specs = NULL;
    ffn_diag diag;
    if (count > 0 || !s.from) {
        status = cmd_specs(command, argv + operands, count, &specs);
        if (status)
            return status;
    }
    machine_read_calibrated(&s.machine, &diag);
    if (*diag.text)
        cmd_note(command, "%s", diag.text);
    if (s.from && tune_list_read(s.from, &specs, &count, &diag))
        status = cmd_error(command, CMD_USAGE, "--from: %s", diag.text);
    if (!status)
        status = run_specs(&s, specs, count);
    tune_log_close(s.log);
    tune_heat_clear(&s.heat);
    free(s.own_log);
    free(s.own_table);
    free(specs);
    return status;
}

const cmd cmd_tune = {
    "tune",
    "SPEC... [options]",
    "Searches the fastest plans by measuring and keeps them in the tuned table.",
    "\n  model ms, best ms   a run by the untuned plan and by the one found, medians of the same rounds\n"
    "  gain                by how much more a second the found plan does, from rounds that had both\n"
    "  tried, failed       plans; one that crashes, hangs or is wrong is noted in the log and never used\n"
    "  busy                the machine's pace wandered by more than 10 % meanwhile\n",
    run,
    false};
