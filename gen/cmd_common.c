/* cmd_common.c: messages, specs, kernels: what every subcommand needs */
#include "cmd.h"
#include "diag.h"

#include "ffngen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 8192 }; /* a path of the system's greatest length, and what is wrong with it */

static void put_line(FILE *stream, const char *format, va_list arguments) {
    char text[MESSAGE_BYTES];
    vsnprintf(text, sizeof text, format, arguments);
    diag_printable(text);
    fprintf(stream, "%s\n", text);
}

static void say(const cmd *command, const char *kind, const char *format, va_list arguments) {
    fflush(stdout); /* in the order it happened, where both go to one terminal */
    fprintf(stderr, "ffngen%s%s: %s", command ? " " : "", command ? command->name : "", kind);
    put_line(stderr, format, arguments);
}

void cmd_print(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    put_line(stdout, format, arguments);
    va_end(arguments);
}

int cmd_error(const cmd *command, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(command, "", format, arguments);
    va_end(arguments);
    if (status == CMD_USAGE)
        fprintf(stderr, "See: ffngen %s%s--help\n", command ? command->name : "", command ? " " : "");
    return status;
}

int cmd_diag(const cmd *command, const ffn_diag *diag) {
    bool usage = diag->status == FFN_BAD_ARGUMENT || diag->status == FFN_BAD_SPEC;
    return cmd_error(command, usage ? CMD_USAGE : CMD_FAILED, "%s", diag->text);
}

void cmd_note(const cmd *command, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(command, "note: ", format, arguments);
    va_end(arguments);
}

int cmd_specs(const cmd *command, char **texts, int count, ffn_spec **specs) {
    if (count == 0)
        return cmd_error(command, CMD_USAGE, "no SPEC is given; one is like bert-base or d512-f2048-relu-bias");
    *specs = malloc((size_t)count * sizeof **specs);
    if (!*specs)
        return cmd_error(command, CMD_FAILED, "no memory for %d specs", count);
    for (int i = 0; i < count; i++) {
        ffn_diag diag;
        if (ffn_spec_parse(texts[i], &(*specs)[i], &diag)) {
            free(*specs);
            *specs = NULL;
            return cmd_error(command, CMD_USAGE, "SPEC '%.100s': %s", texts[i], diag.text);
        }
    }
    return CMD_OK;
}

int cmd_one_spec(const cmd *command, char **texts, int count, ffn_spec *spec) {
    if (count > 1)
        return cmd_error(command, CMD_USAGE, "one SPEC is wanted, '%.100s' is one more", texts[1]);
    ffn_spec *specs = NULL;
    int status = cmd_specs(command, texts, count, &specs);
    if (!status)
        *spec = specs[0];
    free(specs);
    return status;
}

bool cmd_isa_runs(const cmd *command, ffn_isa isa) {
    if (isa == FFN_ISA_AUTO || ffn_isa_supported(isa))
        return true;
    char names[128] = "";
    for (ffn_isa other = FFN_ISA_PORTABLE; other < FFN_ISA_COUNT; other++) {
        size_t length = strlen(names);
        if (ffn_isa_supported(other))
            snprintf(names + length, sizeof names - length, "%s%s", length ? ", " : "", ffn_isa_name(other));
    }
    cmd_error(command, CMD_USAGE, "--isa: this CPU does not run %s; it runs %s", ffn_isa_name(isa), names);
    return false;
}

/* "" is none and NULL the user's own, in both of these options. */
static const char *place(const char *given) {
    return !strcmp(given, "off") ? "" : !strcmp(given, "default") ? NULL : given;
}

const char *cmd_store(const char *given) {
    return place(given);
}

const char *cmd_tuned(const char *given) {
    return place(given);
}

ffn_status cmd_kernel_open(const ffn_spec *spec, const ffn_options *options, cmd_kernel *kernel, ffn_diag *diag) {
    *kernel = (cmd_kernel){.isa = options->isa};
    ffn_options complete = *options;
    complete.source = ffngen_source();
    ffn_status status = ffn_context_create(&complete, &kernel->context, diag);
    if (!status)
        status = ffn_kernel_create(kernel->context, spec, &kernel->kernel, diag);
    if (status)
        cmd_kernel_close(kernel);
    return status;
}

void cmd_kernel_close(cmd_kernel *kernel) {
    if (kernel->kernel)
        ffn_kernel_destroy(kernel->kernel);
    ffn_context_destroy(kernel->context);
    *kernel = (cmd_kernel){0};
}

int cmd_kernel_prepare(const cmd *command, const cmd_kernel *kernel, int64_t n) {
    ffn_diag diag = {0};
    ffn_status status = ffn_kernel_prepare(kernel->kernel, n, &diag);
    if (status == FFN_VERIFY_FAILED)
        return cmd_error(command, CMD_FAILED, "%s", diag.text);
    if (status && kernel->isa == FFN_ISA_PORTABLE)
        return CMD_OK;
    if (status)
        cmd_note(command, "the portable kernel serves: %s", diag.text);
    else if (*diag.text)
        cmd_note(command, "%s", diag.text);
    return CMD_OK;
}

const char *cmd_origin_name(ffn_origin origin) {
    static const char *const names[] = {"fallback", "compiled", "disk", "memory", "native"};
    return (size_t)origin < sizeof names / sizeof names[0] ? names[origin] : "unknown";
}

const char *cmd_plan_origin_name(ffn_plan_origin origin) {
    static const char *const names[] = {"model", "tuned", "hint", "given"};
    return (size_t)origin < sizeof names / sizeof names[0] ? names[origin] : "unknown";
}

void cmd_plan_text(const ffn_plan *plan, char *text, size_t text_bytes) {
    if (plan->tile_count == 0 || ffn_plan_format(plan, text, text_bytes, NULL))
        snprintf(text, text_bytes, "portable");
}
