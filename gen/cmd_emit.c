/* cmd_emit.c: ffngen emit: specs -> code in files, planned for the ISA's fixed machine, so the same on every host */
#include "cmd.h"
#include "cmd_emit_job.h"
#include "cmd_weights.h"
#include "ffngen.h"
#include "file.h"
#include "options.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first FFNGEN_FORMATS names stand in the order of ffngen_format; the rest hold all classes of every spec. */
static const char *const formats[] = {"asm", "ir", "object", "image", "header", "library", NULL};
enum { FORMAT_NONE = -1, FORMAT_HEADER = FFNGEN_FORMATS, FORMAT_LIBRARY };

typedef struct output {
    const char *path; /* NULL: standard output */
    ffn_bytes bytes;
} output;

static void release(ffn_bytes *bytes) {
    if (bytes->release)
        bytes->release(bytes->data);
    bytes->release = NULL;
}

static int write_standard(const ffn_bytes *bytes) {
    /* What standard output refuses is reported by main. */
    return fwrite(bytes->data, 1, bytes->bytes, stdout) == bytes->bytes && !fflush(stdout) ? CMD_OK : CMD_FAILED;
}

/* Both or none: all has been made before the first is renamed to its place. */
static int write_all_outputs(const cmd *command, const output *outputs, int count) {
    file_writer *writers[2] = {NULL, NULL};
    ffn_diag diag = {0};
    ffn_status status = FFN_OK;
    if (!outputs[0].path)
        return write_standard(&outputs[0].bytes);
    for (int i = 0; i < count && !status; i++) {
        status = file_writer_open(outputs[i].path, &writers[i], &diag);
        if (!status) {
            file_writer_add(writers[i], outputs[i].bytes.data, outputs[i].bytes.bytes);
            status = file_writer_flush(writers[i], &diag);
        }
    }
    for (int i = 0; i < count; i++)
        if (status)
            file_writer_abandon(writers[i]);
        else
            status = file_writer_commit(writers[i], &diag);
    return status ? cmd_error(command, CMD_FAILED, "%s", diag.text) : CMD_OK;
}

/* True: an input would be overwritten, which was said. */
static bool inputs_named(const emit_settings *s, const char *path, const char *option) {
    const struct {
        const char *option, *path;
    } others[] = {{"--weights", s->weights},
                  {"--machine", s->machine},
                  {"--tuned", s->tuned},
                  {"--weights-out", path == s->weights_out ? NULL : s->weights_out}};
    for (size_t i = 0; path && i < sizeof others / sizeof *others; i++)
        if (others[i].path && file_same(path, others[i].path)) {
            cmd_error(s->command, CMD_USAGE, "%s %s is the file that %s names", option, path, others[i].option);
            return true;
        }
    return false;
}

/* ---- One class, as LLVM gives it ---- */

static int emit_class(const emit_settings *s, int format, int64_t n, char **operands, int count) {
    ffn_spec spec;
    ffn_isa isas[FFN_ISA_COUNT];
    int32_t isa_count;
    bool portable;
    int status = cmd_one_spec(s->command, operands, count, &spec);
    status = status ? status : emit_isas(s->command, s->isas, isas, &isa_count, &portable);
    if (status)
        return status;
    if (inputs_named(s, s->output, "--output"))
        return CMD_USAGE;
    if (isa_count != 1 || portable)
        return cmd_error(s->command, CMD_USAGE, "--isa %s: --format %s is of one ISA that code is generated for",
                         s->isas, formats[format]);
    ffn_diag diag = {0};
    ffn_plan plan;
    output out = {.path = s->output};
    if (emit_plan(s->plans, &spec, isas[0], ffn_n_class_of(n), &plan, &diag) ||
        ffngen_emit(&spec, &plan, (ffngen_format)format, &out.bytes, &diag))
        return cmd_diag(s->command, &diag);
    status = write_all_outputs(s->command, &out, 1);
    release(&out.bytes);
    return status;
}

/* ---- All classes of all specs ---- */

/* "out/ffn.o" -> "out/ffn.h" */
static bool header_path(const char *path, char *header, size_t bytes) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    const size_t stem = dot ? (size_t)(dot - path) : strlen(path);
    return (size_t)snprintf(header, bytes, "%.*s.h", (int)stem, path) < bytes && strcmp(header, path) != 0;
}

/* /dev/stdout and its kin have nothing beside them. */
static bool device(const char *path) {
    struct stat file;
    return !strncmp(path, "/dev/", 5) || (stat(path, &file) == 0 && !S_ISREG(file.st_mode));
}

static ffn_status make_code(const emit_job *job, int format, ffn_bytes *code, ffn_diag *diag) {
    switch (format) {
    case FFNGEN_ASM:
        return emit_assembly(job, code, diag);
    case FFNGEN_OBJECT:
        return emit_object(job, code, diag);
    default:
        return emit_library(job, code, diag);
    }
}

static int emit_files(const emit_settings *s, int format, char **operands, int count) {
    char header[4096];
    emit_made made;
    if (inputs_named(s, s->output, "--output") || inputs_named(s, s->weights_out, "--weights-out"))
        return CMD_USAGE;
    if (format != FORMAT_HEADER && s->output && !header_path(s->output, header, sizeof header))
        return cmd_error(s->command, CMD_USAGE, "--output %.200s: a header ending in .h is written beside it",
                         s->output);
    const bool beside = format != FORMAT_HEADER && s->output && !device(s->output);
    if (beside && inputs_named(s, header, "the header beside --output,"))
        return CMD_USAGE;
    int status = emit_made_begin(s, operands, count, &made);
    if (status)
        return status;
    ffn_diag diag = {0};
    output outputs[2] = {{.path = s->output}, {.path = header}};
    if (made.job.isa_count == 0 && format != FORMAT_HEADER) {
        status = cmd_error(s->command, CMD_USAGE,
                           "--isa %s: no code is generated for it: --format header has all there is", s->isas);
    } else if (format == FORMAT_HEADER) {
        if (emit_header(&made.job, &outputs[0].bytes, &diag))
            status = cmd_diag(s->command, &diag);
    } else {
        made.job.assembled = true;
        if (make_code(&made.job, format, &outputs[0].bytes, &diag) ||
            (beside && emit_header(&made.job, &outputs[1].bytes, &diag)))
            status = cmd_diag(s->command, &diag);
    }
    status = status ? status : write_all_outputs(s->command, outputs, beside ? 2 : 1);
    status = status ? status : emit_made_finish(s, &made);
    if (!status && beside)
        cmd_note(s->command, "the header that goes with it: %s", header);
    release(&outputs[0].bytes);
    release(&outputs[1].bytes);
    emit_made_end(&made);
    return status;
}

/* ---- What goes with what ---- */

static int check_usage(const emit_settings *s, int format, bool one_class) {
    const bool binary = format == FFNGEN_OBJECT || format == FFNGEN_IMAGE || format == FORMAT_LIBRARY;
    if (format == FORMAT_NONE)
        return cmd_error(s->command, CMD_USAGE, "--format is needed: header, asm, object, library, image or ir");
    if (!s->isas)
        return cmd_error(s->command, CMD_USAGE, "--isa is needed, for instance avx2,portable: see ffngen list isas");
    if (one_class && (s->prefix || s->is_static || s->weights))
        return cmd_error(s->command, CMD_USAGE, "--%s goes with a whole file, not with one class (--n, image, ir)",
                         s->prefix      ? "prefix"
                         : s->is_static ? "static"
                                        : "weights");
    if (s->is_static && format != FORMAT_HEADER)
        return cmd_error(s->command, CMD_USAGE, "--static goes with --format header");
    if (s->weights && format != FORMAT_HEADER)
        return cmd_error(s->command, CMD_USAGE,
                         "--weights goes with --format header; ffngen pack writes them to a file");
    if (!s->weights && (s->weights_out || s->names.map || s->names.layout || s->names.layer || s->names.expert))
        return cmd_error(s->command, CMD_USAGE, "--weights FILE is needed: %s is about its tensors",
                         s->weights_out ? "--weights-out" : "--map, --layout, --layer or --expert");
    if (s->weights_out && (!strcmp(s->weights_out, "-") || device(s->weights_out)))
        return cmd_error(s->command, CMD_USAGE, "--weights-out %s: a file is needed", s->weights_out);
    if (binary && !s->output && isatty(STDOUT_FILENO))
        return cmd_error(s->command, CMD_USAGE, "--output FILE is needed: %s is not for a terminal", formats[format]);
    return CMD_OK;
}

static int run(const cmd *command, int argc, char **argv) {
    int format = FORMAT_NONE, layout = -1;
    int64_t n = 0;
    const char *changes = NULL;
    emit_plans plans;
    emit_settings s = {.command = command, .plans = &plans};
    const option_row table[] = {
        {"format", 0, OPTION_CHOICE, &format, "header|asm|object|library|image|ir", "what to write", formats},
        {"isa", 0, OPTION_TEXT, &s.isas, "ISA,...", "for these, whatever this machine is; portable: the C kernel",
         NULL},
        {"output", 'o', OPTION_TEXT, &s.output, "FILE", "whole or not at all (default, and -: standard output)", NULL},
        {"prefix", 0, OPTION_TEXT, &s.prefix, "NAME", "before every name (default: the name of FILE)", NULL},
        {"static", 0, OPTION_FLAG, &s.is_static, NULL, "functions static: every file may hold the implementation",
         NULL},
        {"machine", 0, OPTION_TEXT, &s.machine, "FILE", "plan for this machine (ffngen list machine)", NULL},
        {"tuned", 0, OPTION_TEXT, &s.tuned, "FILE", "plans of this tuned table, where it has them", NULL},
        {"plan", 0, OPTION_TEXT, &changes, "F=V,...", "changes to every plan: " CMD_PLAN_FIELDS, NULL},
        {"weights", 'w', OPTION_TEXT, &s.weights, "FILE", "a safetensors file: one layer's weights inside", NULL},
        CMD_WEIGHTS_ROWS(s.names, layout),
        {"weights-out", 0, OPTION_TEXT, &s.weights_out, "FILE", "packed weights in a file beside the header", NULL},
        {"n", 'n', OPTION_COUNT, &n, "N", "one class alone, as LLVM gives it: 1, 2-4, 5-16, 17+", NULL},
        {0}};
    int operands, status;
    if (!options_parse(command, table, argc, argv, &operands, &status))
        return status;
    if (s.output && !strcmp(s.output, "-"))
        s.output = NULL;
    const bool whole = n == 0 && format != FFNGEN_IMAGE && format != FFNGEN_IR;
    s.names.layout = cmd_layout_name(layout);
    s.names.streamed = s.weights_out != NULL;
    status = check_usage(&s, format, !whole);
    if (status)
        return status;
    if (!whole && format >= FFNGEN_FORMATS)
        return cmd_error(command, CMD_USAGE, "--n: %s holds all classes", formats[format]);
    status = emit_plans_begin(command, s.machine, s.tuned, changes, &plans);
    if (!status && whole)
        status = emit_files(&s, format, argv + operands, argc - operands);
    else if (!status)
        status = emit_class(&s, format, n ? n : 128, argv + operands, argc - operands);
    if (!status)
        emit_plans_note(&plans, command);
    emit_plans_end(&plans);
    return status;
}

const cmd cmd_emit = {
    "emit",
    "[NAME=]SPEC... --format FORMAT --isa ISA,... [options]",
    "Writes the generated code of specs: a C header, assembly, an object, a library, an image, LLVM IR.",
    "A header is one file with all that is needed to run: no LLVM, no library. asm, object and library have a header\n"
    "beside them. ir, image and --n N write one class of one spec as LLVM gives it.\n",
    run,
    false};
