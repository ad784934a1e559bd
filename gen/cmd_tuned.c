/* cmd_tuned.c: ffngen tuned: shows tables of tuned plans, and moves records between them
 *
 * A file that is not whole is refused before anything is written, and no record that a table has is lost: a merge adds,
 * an export makes a new file. */
#include "cmd.h"
#include "config_folder.h"
#include "diag.h"
#include "file.h"
#include "json.h"
#include "options.h"
#include "report.h"
#include "tuned_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAN_TEXT_BYTES 256

typedef struct work {
    const cmd *command;
    char **operands;
    int count;
    const char *output, *machine;
    bool json;
    char *own; /* path of the user's table */
} work;

static int fail(const work *w, const ffn_diag *diag) {
    return cmd_error(w->command, CMD_FAILED, "%s", diag->text);
}

/* The user's table; an empty one where there is no file yet, *missing then. */
static int load_own(const work *w, tuned **table, bool *missing) {
    ffn_diag diag = {0};
    if (tuned_load_present(w->own, table, missing, &diag) && (!*missing || tuned_create(table, &diag)))
        return fail(w, &diag);
    return CMD_OK;
}

/* ---- show -------------------------------------------------------------------------------------------------- */

static bool is_here(const tuned_record *r) {
    return strcmp(r->machine, ffn_machine_name()) == 0;
}

static bool show_json(const char *path, const tuned_record *r) {
    char spec[FFN_SPEC_TEXT_BYTES] = "", plan[PLAN_TEXT_BYTES];
    ffn_spec_format(&r->spec, spec, sizeof spec, NULL);
    cmd_plan_text(&r->plan, plan, sizeof plan);
    json_line line = json_begin();
    json_text(&line, "file", path);
    json_text(&line, "spec", spec);
    json_text(&line, "isa", ffn_isa_name(r->plan.isa));
    json_text(&line, "n_class", ffn_n_class_name(r->plan.n_class));
    json_integer(&line, "threads", r->threads);
    json_text(&line, "plan", plan);
    json_number(&line, "ms_min", r->ms);
    json_number(&line, "spread", r->spread);
    json_text(&line, "machine", r->machine);
    json_flag(&line, "here", is_here(r));
    json_text(&line, "llvm", r->llvm);
    json_text(&line, "generator", r->generator);
    return json_end(&line);
}

static void show_row(report_table *table, const tuned_record *r) {
    char spec[FFN_SPEC_TEXT_BYTES] = "", plan[PLAN_TEXT_BYTES];
    ffn_spec_format(&r->spec, spec, sizeof spec, NULL);
    if (strlen(spec) >= REPORT_CELL_BYTES)
        ffn_spec_name(&r->spec, false, spec, sizeof spec, NULL);
    cmd_plan_text(&r->plan, plan, sizeof plan);
    report_cell(table, "%s", spec);
    report_cell(table, "%d", r->threads);
    report_cell(table, "%.4g", r->ms);
    report_cell(table, "%.1f", r->spread * 100);
    report_cell(table, "%s%s", r->machine, is_here(r) ? " (this one)" : "");
    report_cell(table, "%s", r->llvm);
    report_cell(table, "%s", r->generator);
    report_cell(table, "%s", plan);
}

static int show_table(const work *w, const char *path, const tuned *records, bool missing) {
    static const report_column columns[] = {{"spec", 0, false},      {"threads", 0, true},  {"ms", 0, true},
                                            {"spread %", 0, true},   {"machine", 0, false}, {"LLVM", 0, false},
                                            {"generator", 0, false}, {"plan", 0, false}};
    report_table table = {.columns = NULL};
    size_t count = 0, at = 0;
    bool out = true;
    for (const tuned_record *r; out && (r = tuned_next(records, &at)) != NULL; count++) {
        if (w->json) {
            out = show_json(path, r);
            continue;
        }
        if (count == 0)
            table = report_begin(columns, sizeof columns / sizeof columns[0], true);
        show_row(&table, r);
    }
    if (w->json)
        return out ? CMD_OK : CMD_FAILED;
    if (count > 0 && !report_end(&table))
        return CMD_FAILED;
    cmd_print("%s%s: %zu record%s", path, missing ? " (not there yet)" : "", count, count == 1 ? "" : "s");
    return CMD_OK;
}

static int show(const work *w) {
    tuned *table = NULL;
    bool missing = false;
    int status = CMD_OK;
    if (w->count == 0) {
        status = load_own(w, &table, &missing);
        status = status ? status : show_table(w, w->own, table, missing);
        tuned_free(table);
    }
    for (int i = 0; i < w->count && !status; i++) {
        ffn_diag diag = {0};
        table = NULL;
        status =
            tuned_load(w->operands[i], &table, &diag) ? fail(w, &diag) : show_table(w, w->operands[i], table, false);
        tuned_free(table);
    }
    return status;
}

/* ---- merge ------------------------------------------------------------------------------------------------- */

/* All files, or none where one is bad. */
static int load_files(const work *w, tuned *all) {
    for (int i = 0; i < w->count; i++) {
        ffn_diag diag = {0};
        tuned *table = NULL;
        ffn_status status = tuned_load(w->operands[i], &table, &diag);
        if (!status)
            status = tuned_merge(all, table, &diag);
        tuned_free(table);
        if (status)
            return fail(w, &diag);
    }
    return CMD_OK;
}

static int merge(const work *w) {
    ffn_diag diag = {0};
    tuned *all = NULL;
    tuned_merged merged = {0};
    const char *path = w->output ? w->output : w->own;
    if (w->count == 0)
        return cmd_error(w->command, CMD_USAGE, "merge: which files? 'ffngen tuned merge FILE...'");
    if (!strcmp(path, "-"))
        return cmd_error(w->command, CMD_USAGE, "merge: --output is a file that records are added to, not -");
    if (tuned_create(&all, &diag))
        return fail(w, &diag);
    int status = load_files(w, all);
    if (!status && ((!w->output && config_folder_make(&diag)) || tuned_save_counted(all, path, &merged, &diag)))
        status = fail(w, &diag);
    tuned_free(all);
    if (!status)
        cmd_print("%s: %zu new, %zu better than before, %zu no better: what was there is kept", path, merged.added,
                  merged.better, merged.kept);
    return status;
}

/* ---- export ------------------------------------------------------------------------------------------------ */

static bool is_wanted(const tuned_record *r, const char *machine, const ffn_spec *specs, int count) {
    bool wanted = count == 0;
    for (int i = 0; i < count && !wanted; i++)
        wanted = ffn_spec_equal(&specs[i], &r->spec);
    return wanted && (!machine || !strcmp(machine, r->machine));
}

/* The records that are wanted, of the user's table; their number. */
static int pick(const work *w, const ffn_spec *specs, tuned *picked, size_t *count) {
    const char *machine = w->machine && !strcmp(w->machine, "this") ? ffn_machine_name() : w->machine;
    tuned *own = NULL;
    bool missing = false;
    ffn_diag diag = {0};
    int status = load_own(w, &own, &missing);
    size_t at = 0;
    for (const tuned_record *r; !status && (r = tuned_next(own, &at)) != NULL;) {
        if (!is_wanted(r, machine, specs, w->count))
            continue;
        status = tuned_add(picked, r, &diag) ? fail(w, &diag) : CMD_OK;
        *count += 1;
    }
    if (!status && *count == 0)
        status = cmd_error(w->command, CMD_FAILED, "%s%s has no such record", w->own,
                           missing ? " is not there yet and" : "");
    tuned_free(own);
    return status;
}

static int put_out(const work *w, const tuned *table, size_t count) {
    ffn_diag diag = {0};
    if (strcmp(w->output, "-") != 0) {
        if (tuned_save(table, w->output, &diag))
            return fail(w, &diag);
        cmd_print("%s: %zu record%s", w->output, count, count == 1 ? "" : "s");
        return CMD_OK;
    }
    char *text = NULL;
    size_t bytes = 0;
    if (tuned_format(table, &text, &bytes, &diag))
        return fail(w, &diag);
    const bool out = fwrite(text, 1, bytes, stdout) == bytes;
    free(text);
    return out ? CMD_OK : CMD_FAILED;
}

static int export(const work *w) {
    ffn_diag diag = {0};
    ffn_spec *specs = NULL;
    tuned *picked = NULL;
    size_t count = 0;
    if (!w->output)
        return cmd_error(w->command, CMD_USAGE, "export: --output FILE is needed; - is standard output");
    if (strcmp(w->output, "-") != 0 && access(w->output, F_OK) == 0)
        return cmd_error(w->command, CMD_FAILED, "%s is there already; 'ffngen tuned merge -o' adds to a table",
                         file_label(w->output));
    int status = w->count ? cmd_specs(w->command, w->operands, w->count, &specs) : CMD_OK;
    if (!status && tuned_create(&picked, &diag))
        status = fail(w, &diag);
    status = status ? status : pick(w, specs, picked, &count);
    status = status ? status : put_out(w, picked, count);
    tuned_free(picked);
    free(specs);
    return status;
}

/* ---- path and the rest ------------------------------------------------------------------------------------- */

static int path(const work *w) {
    if (w->count > 0)
        return cmd_error(w->command, CMD_USAGE, "path: no operand is wanted, but '%.100s' is given", w->operands[0]);
    cmd_print("%s", w->own);
    return CMD_OK;
}

static const struct {
    const char *name;
    int (*act)(const work *w);
    bool writes, selects, prints; /* --output, --machine, --json mean something */
} actions[] = {{"show", show, false, false, true},
               {"merge", merge, true, false, false},
               {"export", export, true, true, false},
               {"path", path, false, false, false}};
enum { ACTIONS = sizeof actions / sizeof actions[0] };

static const char *action_at(size_t i) {
    return i < ACTIONS ? actions[i].name : NULL;
}

static int act(work *w, int action) {
    const struct {
        const char *option;
        bool given, fits;
    } options[] = {{"output", w->output != NULL, actions[action].writes},
                   {"machine", w->machine != NULL, actions[action].selects},
                   {"json", w->json, actions[action].prints}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].given && !options[i].fits)
            return cmd_error(w->command, CMD_USAGE, "%s: --%s means nothing to it", actions[action].name,
                             options[i].option);
    ffn_diag problem = {0};
    w->own = tuned_user_path(&problem);
    const int status = w->own ? actions[action].act(w) : fail(w, &problem);
    free(w->own);
    return status;
}

static int run(const cmd *command, int argc, char **argv) {
    work w = {.command = command};
    const option_row table[] = {
        {"output", 'o', OPTION_TEXT, &w.output, "FILE", "merge: add to this table; export: write this new file, or -",
         NULL},
        {"machine", 0, OPTION_TEXT, &w.machine, "NAME|this", "export: records of this machine alone", NULL},
        {"json", 0, OPTION_FLAG, &w.json, NULL, "show: one JSON object a record", NULL},
        {0}};
    int operands, status;
    if (!options_parse(command, table, argc, argv, &operands, &status))
        return status;
    if (operands == argc)
        return cmd_error(command, CMD_USAGE, "what is to be done? show, merge, export or path");
    w.operands = argv + operands + 1;
    w.count = argc - operands - 1;
    for (int i = 0; i < ACTIONS; i++)
        if (!strcmp(actions[i].name, argv[operands]))
            return act(&w, i);
    char near[192];
    diag_near_names(argv[operands], action_at, near, sizeof near);
    return cmd_error(command, CMD_USAGE, "'%s' is not one of show, merge, export, path%s", argv[operands], near);
}

const cmd cmd_tuned_tables = {"tuned",
                              "show|merge|export|path [FILE...|SPEC...] [options]",
                              "Shows tables of tuned plans, adds to them, hands records on.",
                              "  show [FILE...]         the records of the user's table, or of files\n"
                              "  merge FILE... [-o F]   adds their records to the user's table, or to F\n"
                              "  export [SPEC...] -o F  writes records of the user's table to a new file\n"
                              "  path                   where the user's table is\n",
                              run,
                              false};
