/* cmd_calibrate.c: ffngen calibrate: what one core of this machine can do -> the file that plans are made with
 *
 * The file is written whole or not at all, and only where planning would take it. */
#define _GNU_SOURCE /* strerrordesc_np */
#include "cmd.h"
#include "config_folder.h"
#include "diag.h"
#include "json.h"
#include "levels.h"
#include "machine.h"
#include "machine_text.h"
#include "options.h"
#include "report.h"
#include "text_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define FOLDER_MODE 0700

typedef struct settings {
    const cmd *command;
    const char *output;
    double seconds;
    bool json, dry_run;
} settings;

typedef struct result {
    ffn_machine machine;
    bench_levels levels;
    const char *file; /* NULL: not written */
} result;

/* A disturbance makes a rate smaller, never larger. */
static bench_levels best_of(const bench_levels *a, const bench_levels *b) {
    return (bench_levels){.peak_gflops = fmax(a->peak_gflops, b->peak_gflops),
                          .l1_gbs = fmax(a->l1_gbs, b->l1_gbs),
                          .l2_gbs = fmax(a->l2_gbs, b->l2_gbs),
                          .l3_gbs = fmax(a->l3_gbs, b->l3_gbs),
                          .memory_gbs = fmax(a->memory_gbs, b->memory_gbs),
                          .spread = fmin(a->spread, b->spread),
                          .busy = a->busy && b->busy};
}

/* Once more where the machine was busy. */
static ffn_status measure(const settings *s, result *of, ffn_diag *diag) {
    ffn_machine_read(&of->machine);
    ffn_status status = bench_levels_measure(FFN_ISA_AUTO, &of->machine, s->seconds, &of->levels, diag);
    if (!status && of->levels.busy) {
        bench_levels again;
        status = bench_levels_measure(FFN_ISA_AUTO, &of->machine, s->seconds, &again, diag);
        if (!status)
            of->levels = best_of(&of->levels, &again);
    }
    if (!status)
        bench_levels_keep(&of->levels, &of->machine);
    return status;
}

/* The folder of a path in the user's folder of settings. */
static ffn_status make_folder(const char *path, ffn_diag *diag) {
    const ffn_status status = config_folder_make(diag);
    if (status)
        return status;
    char *folder = strdup(path);
    if (!folder)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for a path");
    *strrchr(folder, '/') = '\0';
    const bool made = mkdir(folder, FOLDER_MODE) == 0 || errno == EEXIST;
    const int error = errno;
    const ffn_status end =
        made ? FFN_OK : diag_fail(diag, FFN_SYSTEM, "%.300s cannot be made: %s", folder, strerrordesc_np(error));
    free(folder);
    return end;
}

static ffn_status keep(const char *path, bool own, const char *text, ffn_diag *diag) {
    const ffn_status status = own ? make_folder(path, diag) : FFN_OK;
    return status ? status : text_file_write(path, text, strlen(text), diag);
}

static void print_row(report_table *table, const char *level, int64_t bytes, double gbs) {
    report_cell(table, "%s", level);
    if (bytes == 0)
        report_cell(table, "-");
    else
        report_cell(table, "%lld %s", (long long)(bytes % MIB ? bytes / KIB : bytes / MIB),
                    bytes % MIB ? "KiB" : "MiB");
    report_cell(table, "%.1f", gbs);
}

static bool print_table(const result *of) {
    static const report_column columns[] = {{"level", 0, false}, {"size", 0, true}, {"GB/s", 0, true}};
    const bench_levels *levels = &of->levels;
    report_table table = report_begin(columns, COUNT(columns), true);
    print_row(&table, "L1", of->machine.l1_bytes, levels->l1_gbs);
    print_row(&table, "L2", of->machine.l2_bytes, levels->l2_gbs);
    if (of->machine.l3_bytes)
        print_row(&table, "L3", of->machine.l3_bytes, levels->l3_gbs);
    print_row(&table, "memory", 0, levels->memory_gbs);
    if (!report_end(&table))
        return false;
    cmd_print("multiply-adds from registers: %.1f GFLOP/s (%s)", levels->peak_gflops, ffn_isa_name(ffn_isa_best()));
    cmd_print("one core of %s; median of samples within %.0f %% of the best", ffn_machine_name(), 100 * levels->spread);
    if (of->file)
        cmd_print("written to %s", of->file);
    return true;
}

static bool print_json(const result *of) {
    json_line line = json_begin();
    json_text(&line, "machine", ffn_machine_name());
    json_text(&line, "isa", ffn_isa_name(ffn_isa_best()));
    json_integer(&line, "l1_bytes", of->machine.l1_bytes);
    json_integer(&line, "l2_bytes", of->machine.l2_bytes);
    json_integer(&line, "l3_bytes", of->machine.l3_bytes);
    json_integer(&line, "fma_mflops", of->machine.fma_mflops);
    json_integer(&line, "l1_mbs", of->machine.l1_mbs);
    json_integer(&line, "l2_mbs", of->machine.l2_mbs);
    json_integer(&line, "l3_mbs", of->machine.l3_mbs);
    json_integer(&line, "memory_mbs", of->machine.memory_mbs);
    json_number(&line, "spread", of->levels.spread);
    json_flag(&line, "busy", of->levels.busy);
    if (of->file)
        json_text(&line, "file", of->file);
    return json_end(&line);
}

static int calibrate(const settings *s, const char *path) {
    char lines[MACHINE_TEXT_BYTES], text[MACHINE_TEXT_BYTES + 512];
    ffn_diag diag = {0};
    result of = {.file = s->dry_run ? NULL : path};
    if (measure(s, &of, &diag))
        return cmd_diag(s->command, &diag);
    if (machine_format(&of.machine, lines, &diag))
        return cmd_error(s->command, CMD_FAILED, "what was measured is no machine's: %s", diag.text);
    snprintf(text, sizeof text, "# %s with %s, by ffngen %s calibrate\n%s%s", ffn_machine_name(),
             ffn_isa_name(ffn_isa_best()), FFN_VERSION,
             of.levels.busy ? "# the machine was busy: it can do better than this\n" : "", lines);
    if (of.file && keep(path, !s->output, text, &diag))
        return cmd_error(s->command, CMD_FAILED, "%s", diag.text);
    if (of.levels.busy)
        cmd_note(s->command, "the machine was busy, twice: calibrate again when it is idle");
    return (s->json ? print_json(&of) : print_table(&of)) ? CMD_OK : CMD_FAILED;
}

static int run(const cmd *command, int argc, char **argv) {
    settings s = {.command = command, .seconds = 1};
    const option_row table[] = {{"seconds", 0, OPTION_SECONDS, &s.seconds, "S",
                                 "of measuring (default 1), twice where the machine is busy", NULL},
                                {"output", 'o', OPTION_TEXT, &s.output, "FILE",
                                 "instead of this machine's file in the folder of settings", NULL},
                                {"dry-run", 0, OPTION_FLAG, &s.dry_run, NULL, "measure and write nothing", NULL},
                                {"json", 0, OPTION_FLAG, &s.json, NULL, "one JSON object", NULL},
                                {0}};
    int operands, status;
    if (!options_parse(command, table, argc, argv, &operands, &status))
        return status;
    if (operands != argc)
        return cmd_error(command, CMD_USAGE, "'%s': there is nothing to name, this machine is measured",
                         argv[operands]);
    if (s.dry_run && s.output)
        return cmd_error(command, CMD_USAGE, "--dry-run writes nothing, and --output names a file: give one of them");
    ffn_diag diag = {0};
    char *own = s.output || s.dry_run ? NULL : machine_calibration_path(&diag);
    if (!own && !s.output && !s.dry_run)
        return cmd_error(command, CMD_FAILED, "%s: name a file with --output", diag.text);
    status = calibrate(&s, s.output ? s.output : own);
    free(own);
    return status;
}

const cmd cmd_calibrate = {
    "calibrate",
    "[options]",
    "Measures what one core reads from each cache and computes; plans are then made with it.",
    "The rates are kept for machines of this name and used by every command and program that plans for the machine it\n"
    "runs on. They change how fast a kernel is, never a bit of what it computes. `ffngen list machine` shows them.",
    run,
    false};
