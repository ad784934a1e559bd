/* cmd_emit.c: ffngen emit: a spec -> code in a file, planned for the ISA's fixed machine, so the same on every host */
#include "cmd.h"
#include "ffngen.h"
#include "file.h"
#include "options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The first FFNGEN_FORMATS names stand in the order of ffngen_format. */
static const char *const formats[] = {"asm", "ir", "object", "image", "header", NULL};
enum { FORMAT_NONE = -1, FORMAT_HEADER = FFNGEN_FORMATS };

static ffn_status plan_for(const ffn_spec *spec, ffn_isa isa, int64_t n, const char *changes, ffn_plan *plan,
                           ffn_diag *diag) {
    ffn_machine machine;
    ffn_status status = ffn_machine_generic(isa, &machine, diag);
    if (!status)
        status = ffn_plan_make(spec, isa, ffn_n_class_of(n), &machine, plan, diag);
    if (!status && changes)
        status = cmd_plan_change(changes, plan, diag);
    return status ? status : ffn_plan_check(spec, plan, diag);
}

static int write_out(const cmd *command, const char *path, const ffn_bytes *bytes) {
    ffn_diag diag = {0};
    if (path)
        return file_write(path, bytes->data, bytes->bytes, &diag) ? cmd_error(command, CMD_FAILED, "%s", diag.text)
                                                                  : CMD_OK;
    /* What standard output refuses is reported by main. */
    return fwrite(bytes->data, 1, bytes->bytes, stdout) == bytes->bytes && !fflush(stdout) ? CMD_OK : CMD_FAILED;
}

static int run(const cmd *command, int argc, char **argv) {
    int format = FORMAT_NONE;
    ffn_isa isa = FFN_ISA_AUTO;
    int64_t n = 128;
    const char *path = NULL, *changes = NULL;
    const option_row table[] = {
        {"format", 0, OPTION_CHOICE, &format, "asm|ir|object|image", "what to write", formats},
        {"isa", 0, OPTION_ISA, &isa, "ISA", "for this ISA, whatever this machine is", NULL},
        {"n", 'n', OPTION_COUNT, &n, "N", "for the class of N rows: 1, 2-4, 5-16, 17+ (default 128)", NULL},
        {"plan", 0, OPTION_TEXT, &changes, "F=V,...", "changes to the plan: " CMD_PLAN_FIELDS, NULL},
        {"output", 'o', OPTION_TEXT, &path, "FILE", "whole or not at all (default: standard output)", NULL},
        {0}};
    int operands, status;
    if (!options_parse(command, table, argc, argv, &operands, &status))
        return status;
    ffn_spec spec;
    status = cmd_one_spec(command, argv + operands, argc - operands, &spec);
    if (status)
        return status;
    if (format == FORMAT_HEADER)
        return cmd_error(command, CMD_USAGE,
                         "--format: header is not offered by this version; asm, ir, object and image are");
    if (format == FORMAT_NONE)
        return cmd_error(command, CMD_USAGE, "--format is needed: asm, ir, object or image");
    if (isa == FFN_ISA_AUTO || isa == FFN_ISA_PORTABLE)
        return cmd_error(command, CMD_USAGE, "--isa is needed, one that code is generated for: see ffngen list isas");
    bool binary = format == FFNGEN_OBJECT || format == FFNGEN_IMAGE;
    if (binary && !path && isatty(STDOUT_FILENO))
        return cmd_error(command, CMD_USAGE, "--output FILE is needed: %s is not for a terminal", formats[format]);

    ffn_diag diag = {0};
    ffn_plan plan;
    ffn_bytes bytes = {0};
    if (plan_for(&spec, isa, n, changes, &plan, &diag) ||
        ffngen_emit(&spec, &plan, (ffngen_format)format, &bytes, &diag))
        return cmd_diag(command, &diag);
    status = write_out(command, path, &bytes);
    if (bytes.release)
        bytes.release(bytes.data);
    return status;
}

const cmd cmd_emit = {"emit",
                      "SPEC --format FORMAT --isa ISA [options]",
                      "Writes the generated code of a spec as assembly, LLVM IR, object or image.",
                      NULL,
                      run,
                      false};
