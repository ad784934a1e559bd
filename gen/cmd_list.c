/* cmd_list.c: ffngen list: the tables of presets, activations and ISAs */
#include "cmd.h"
#include "cmd_bench_activations.h"
#include "isa.h"
#include "json.h"
#include "machine.h"
#include "machine_text.h"
#include "options.h"
#include "report.h"

#include "diag.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* The table is printed once all of its widths are known; JSON lines go out one by one. */
typedef struct listing {
    const cmd *command;
    bool json, failed;
    report_table table;
    char below[MACHINE_TEXT_BYTES + 256]; /* the table, or all there is */
} listing;

static void list_presets(listing *list) {
    static const report_column columns[] = {{"preset", 0, false}, {"spec", 0, false}, {"source", 0, false}};
    if (!list->json)
        list->table = report_begin(columns, COUNT(columns), true);
    const ffn_preset *preset;
    for (size_t i = 0; (preset = ffn_preset_at(i)) != NULL && !list->failed; i++) {
        if (list->json) {
            json_line line = json_begin();
            json_text(&line, "preset", preset->name);
            json_text(&line, "spec", preset->spec);
            json_text(&line, "source_of_sizes", preset->source);
            list->failed = !json_end(&line);
            continue;
        }
        report_cell(&list->table, "%s", preset->name);
        report_cell(&list->table, "%s", preset->spec);
        report_cell(&list->table, "%s", preset->source);
    }
}

/* Of a vector; a form that is the same one in both accuracies costs the same. 0 without memory. */
static int operations_of(const ffn_activation *activation, uint32_t accuracy) {
    ffn_spec spec = {.accuracy = accuracy};
    snprintf(spec.activation, sizeof spec.activation, "%s", activation->name);
    return bench_operations(&spec);
}

static void list_activations(listing *list) {
    static const report_column columns[] = {{"activation", 0, false}, {"parameters", 0, false}, {"of", 0, false},
                                            {"operations", 0, true},  {"fast", 0, true},        {"formula", 0, false}};
    if (!list->json)
        list->table = report_begin(columns, COUNT(columns), true);
    const ffn_activation *activation;
    for (size_t i = 0; (activation = ffn_activation_at(i)) != NULL && !list->failed; i++) {
        const int operations = operations_of(activation, FFN_ACCURATE), fast = operations_of(activation, FFN_FAST);
        if (list->json) {
            json_line line = json_begin();
            json_text(&line, "activation", activation->name);
            json_text(&line, "parameters", activation->parameters);
            json_flag(&line, "gated", activation->gated);
            json_integer(&line, "operations", operations);
            json_integer(&line, "operations_fast", fast);
            json_text(&line, "formula", activation->formula);
            json_text(&line, "notes", activation->notes);
            list->failed = !json_end(&line);
            continue;
        }
        report_cell(&list->table, "%s", activation->name);
        report_cell(&list->table, "%s", *activation->parameters ? activation->parameters : "-");
        report_cell(&list->table, "%s", activation->gated ? "g, u" : "x");
        report_cell(&list->table, "%d", operations);
        report_cell(&list->table, "%d", fast);
        report_cell(&list->table, "%s", activation->formula);
    }
}

static void list_isas(listing *list) {
    static const report_column columns[] = {{"isa", 0, false},
                                            {"f32 lanes", 0, true},
                                            {"registers", 0, true},
                                            {"CPU features", 0, false},
                                            {"here", 0, false}};
    if (!list->json)
        list->table = report_begin(columns, COUNT(columns), true);
    for (ffn_isa isa = FFN_ISA_PORTABLE; isa < FFN_ISA_COUNT && !list->failed; isa++) {
        const isa_row *row = isa_row_of(isa);
        bool supported = ffn_isa_supported(isa), best = isa == ffn_isa_best();
        char needs[192] = "";
        if (row)
            cpu_features_format(row->needs, needs, sizeof needs);
        if (list->json) {
            json_line line = json_begin();
            json_text(&line, "isa", ffn_isa_name(isa));
            if (row) {
                json_integer(&line, "lanes", row->lanes);
                json_integer(&line, "registers", row->registers);
                json_text(&line, "cpu_features", needs);
            }
            json_flag(&line, "supported", supported);
            json_flag(&line, "best", best);
            list->failed = !json_end(&line);
            continue;
        }
        report_cell(&list->table, "%s", ffn_isa_name(isa));
        report_cell(&list->table, row ? "%d" : "-", row ? row->lanes : 0);
        report_cell(&list->table, row ? "%d" : "-", row ? row->registers : 0);
        report_cell(&list->table, "%s", row ? needs : "none");
        report_cell(&list->table, "%s", best ? "yes, the best" : supported ? "yes" : "no");
    }
    ffn_cpu_describe(NULL, 1, list->below, sizeof list->below, NULL);
}

static void machine_json(listing *list, const ffn_machine *machine) {
    json_line line = json_begin();
    json_text(&line, "machine", ffn_machine_name());
    json_integer(&line, "l1_bytes", machine->l1_bytes);
    json_integer(&line, "l2_bytes", machine->l2_bytes);
    json_integer(&line, "l3_bytes", machine->l3_bytes);
    json_flag(&line, "calibrated", machine->fma_mflops != 0);
    if (machine->fma_mflops) {
        json_integer(&line, "fma_mflops", machine->fma_mflops);
        json_integer(&line, "l1_mbs", machine->l1_mbs);
        json_integer(&line, "l2_mbs", machine->l2_mbs);
        json_integer(&line, "l3_mbs", machine->l3_mbs);
        json_integer(&line, "memory_mbs", machine->memory_mbs);
    }
    list->failed = !json_end(&line);
}

/* As --machine of emit reads it, unless it is JSON. */
static void list_machine(listing *list) {
    ffn_machine machine;
    ffn_diag remark;
    char lines[MACHINE_TEXT_BYTES];
    machine_read_calibrated(&machine, &remark);
    if (*remark.text)
        cmd_note(list->command, "%s", remark.text);
    if (list->json) {
        machine_json(list, &machine);
        return;
    }
    list->failed = machine_format(&machine, lines, NULL) != FFN_OK;
    snprintf(list->below, sizeof list->below, "# %s\n%s%s", ffn_machine_name(), list->failed ? "" : lines,
             machine.fma_mflops ? "" : "# rates: not measured, usual ones are taken (ffngen calibrate)\n");
}

static const struct {
    const char *name;
    void (*print)(listing *list);
} subjects[] = {
    {"presets", list_presets}, {"activations", list_activations}, {"isas", list_isas}, {"machine", list_machine}};

static const char *subject_at(size_t i) {
    return i < sizeof subjects / sizeof subjects[0] ? subjects[i].name : NULL;
}

static int run(const cmd *command, int argc, char **argv) {
    listing list = {.command = command};
    const option_row table[] = {{"json", 0, OPTION_FLAG, &list.json, NULL, "one JSON object a line", NULL}, {0}};
    int operands, status;
    if (!options_parse(command, table, argc, argv, &operands, &status))
        return status;
    if (operands == argc)
        return cmd_error(command, CMD_USAGE, "what is to be listed? presets, activations, isas or machine");
    if (argc - operands > 1)
        return cmd_error(command, CMD_USAGE, "one list at a time: '%s' is one more", argv[operands + 1]);
    for (int i = 0; i < COUNT(subjects); i++) {
        if (strcmp(subjects[i].name, argv[operands]))
            continue;
        subjects[i].print(&list);
        bool out = !list.failed && (list.json || (report_end(&list.table) && fputs(list.below, stdout) >= 0));
        return out ? CMD_OK : CMD_FAILED;
    }
    char near[192];
    diag_near_names(argv[operands], subject_at, near, sizeof near);
    return cmd_error(command, CMD_USAGE, "'%s' is not one of presets, activations, isas, machine%s", argv[operands],
                     near);
}

const cmd cmd_list = {
    "list",
    "presets|activations|isas|machine [--json]",
    "Lists the known models, the activations, the instruction sets or what planning knows of this machine.",
    NULL,
    run,
    false};
