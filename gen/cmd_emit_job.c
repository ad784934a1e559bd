/* cmd_emit_job.c: see cmd_emit_job.h */
#include "cmd_emit_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "diag.h"
#include "emit_weights.h"
#include "file.h"
#include "isa.h"
#include "packed.h"
#include "packed_file.h"

enum { PREFIX_LENGTH_MAX = 63 };

/* ---- Names ---- */

static bool letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool identifier(const char *name, size_t length) {
    bool good = length > 0 && length <= PREFIX_LENGTH_MAX && letter(name[0]);
    for (size_t i = 0; i < length && good; i++)
        good = letter(name[i]) || (name[i] >= '0' && name[i] <= '9') || name[i] == '_';
    return good;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* libffn's own names, in any case: the header would take the place of ffn.h. */
static bool taken(const char *prefix) {
    static const char *const ours[] = {"ffn", "ffngen", "ffnblas", "ffn_blas", "ffnpool", "ffn_pool"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!strcasecmp(prefix, ours[i]))
            return true;
    return false;
}

/* One letter would make macros like F_OK, which the system has. */
static bool prefix_fits(const char *prefix) {
    return identifier(prefix, strlen(prefix)) && strlen(prefix) > 1 && !taken(prefix);
}

/* "out/ffn-bert.h" -> "ffn_bert"; where that is no prefix, "ffn_" and the name of the first spec. */
static void prefix_from(const char *output, const ffn_spec *spec, char prefix[EMIT_NAME_BYTES]) {
    const char *name = output ? base_name(output) : "";
    size_t length = strcspn(name, ".");
    if (!strncmp(name, "lib", 3))
        name += 3, length -= 3;
    length = length > PREFIX_LENGTH_MAX ? PREFIX_LENGTH_MAX : length;
    for (size_t i = 0; i < length; i++)
        prefix[i] = letter(name[i]) || (name[i] >= '0' && name[i] <= '9') ? name[i] : '_';
    prefix[length] = '\0';
    if (prefix_fits(prefix))
        return;
    char spec_name[FFN_SPEC_NAME_BYTES] = "";
    ffn_spec_name(spec, true, spec_name, sizeof spec_name, NULL);
    snprintf(prefix, EMIT_NAME_BYTES, "ffn_%.*s", PREFIX_LENGTH_MAX - 4, spec_name);
}

static int name_file(const emit_settings *s, emit_made *made) {
    const char *name = s->output ? base_name(s->output) : "";
    const size_t stem = strcspn(name, ".");
    if (stem > sizeof made->file - 3)
        return cmd_error(s->command, CMD_USAGE, "--output: the name '%.100s...' is longer than %zu characters", name,
                         sizeof made->file - 3);
    snprintf(made->file, sizeof made->file, "%.*s.h", (int)stem, stem ? name : "");
    if (!stem)
        snprintf(made->file, sizeof made->file, "%.*s.h", PREFIX_LENGTH_MAX, made->prefix);
    return CMD_OK;
}

/* "NAME=SPEC" -> the length of NAME; 0 where there is none: no spec has a '=' after nothing but letters. */
static size_t name_length(const char *operand) {
    const size_t length = strspn(operand, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return operand[length] == '=' ? length : 0;
}

static void name_kernel(const char *operand, int count, const char *prefix, emit_kernel *kernel) {
    const size_t length = name_length(operand);
    char name[FFN_SPEC_NAME_BYTES] = "";
    if (length)
        snprintf(name, sizeof name, "%.*s", (int)length, operand);
    else if (count > 1)
        ffn_spec_name(&kernel->spec, true, name, sizeof name, NULL);
    snprintf(kernel->symbol, sizeof kernel->symbol, "%.*s%s%s", PREFIX_LENGTH_MAX, prefix, *name ? "_" : "", name);
}

/* Macros are the names in capitals, so names that differ in case alone are the same; and kernels of one spec,
 * S_avx2_.., must not be functions of another. */
static bool names_clash(const char *a, const char *b) {
    if (!strcasecmp(a, b))
        return true;
    char kernels[EMIT_NAME_BYTES + 32];
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++) {
        const int length = snprintf(kernels, sizeof kernels, "%s_%s_", a, ffn_isa_name(isa));
        if (!strncasecmp(b, kernels, (size_t)length))
            return true;
    }
    return false;
}

static int check_names(const emit_settings *s, char **operands, const emit_kernel *kernels, int count) {
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            if (i != k && names_clash(kernels[k].symbol, kernels[i].symbol))
                return cmd_error(
                    s->command, CMD_USAGE,
                    "'%.100s' and '%.100s' would have names in common that start with %s: give one of them "
                    "another name, NAME=SPEC",
                    operands[k < i ? k : i], operands[k < i ? i : k], kernels[k].symbol);
    return CMD_OK;
}

/* ---- ISAs ---- */

int emit_isas(const cmd *command, const char *names, ffn_isa isas[FFN_ISA_COUNT], int32_t *count, bool *portable) {
    bool given[FFN_ISA_COUNT] = {false};
    for (const char *at = names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char name[64];
        const size_t length = strcspn(at, ",");
        ffn_isa isa;
        ffn_diag diag = {0};
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), at);
        if (ffn_isa_parse(name, &isa, &diag))
            return cmd_error(command, CMD_USAGE, "--isa: %s", diag.text);
        if (isa == FFN_ISA_AUTO)
            return cmd_error(command, CMD_USAGE,
                             "--isa: auto is of this machine; name the ISAs of the one that will run it");
        if (given[isa])
            return cmd_error(command, CMD_USAGE, "--isa: %s is named twice", name);
        given[isa] = true;
    }
    *count = 0;
    *portable = given[FFN_ISA_PORTABLE];
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++)
        if (given[isa])
            isas[(*count)++] = isa;
    for (int32_t i = 1; i < *count; i++)
        if (isa_row_of(isas[i])->arch != isa_row_of(isas[0])->arch)
            return cmd_error(command, CMD_USAGE, "--isa: %s and %s are of different architectures: one file for each",
                             ffn_isa_name(isas[0]), ffn_isa_name(isas[i]));
    return CMD_OK;
}

/* ---- Plans ---- */

static int plan_kernel(const emit_settings *s, const emit_job *job, emit_kernel *kernel) {
    ffn_diag diag = {0};
    for (int32_t i = 0; i < job->isa_count; i++)
        for (int n_class = 0; n_class < FFN_N_CLASSES; n_class++)
            if (emit_plan(s->plans, &kernel->spec, job->isas[i], (ffn_n_class)n_class,
                          &kernel->plans[job->isas[i]][n_class], &diag))
                return cmd_diag(s->command, &diag);
    return CMD_OK;
}

/* ---- Weights ---- */

/* A name beside a file. */
static char *beside(const char *path) {
    const size_t bytes = strlen(path) + 64;
    char *name = malloc(bytes);
    if (name)
        snprintf(name, bytes, "%s.ffngen-%ld.tmp", path, (long)getpid());
    return name;
}

static int add_weights(const emit_settings *s, emit_made *made) {
    emit_kernel *kernel = &made->kernels[0];
    ffn_diag diag = {0};
    size_t bytes = 0;
    weights_file *file = NULL;
    if (made->job.kernel_count > 1)
        return cmd_error(s->command, CMD_USAGE, "--weights are of one layer: give one SPEC");
    if (ffn_packed_bytes(&kernel->spec, &bytes, &diag))
        return cmd_diag(s->command, &diag);
    if (!s->weights_out && bytes > EMIT_WEIGHTS_INSIDE_MAX)
        return cmd_error(
            s->command, CMD_USAGE,
            "--weights-out FILE.ffnw is needed: the packed weights have %zu bytes, and compilers take long "
            "over more than %zu inside a header",
            bytes, EMIT_WEIGHTS_INSIDE_MAX);
    if (weights_open(&kernel->spec, s->weights, &s->names, &file, &diag))
        return cmd_diag(s->command, &diag);
    cmd_note(s->command, "weights: %s", weights_summary(file));
    int status = CMD_OK;
    packed_header header = {.version = 0};
    kernel->weights_bytes = bytes;
    if (s->weights_out) {
        made->weights_new = beside(s->weights_out);
        if (!made->weights_new)
            status = cmd_error(s->command, CMD_FAILED, "no memory for the name of a file");
        else if (packed_file_write(&kernel->spec, weights_streamed(file), made->weights_new, &header, &diag))
            status = cmd_diag(s->command, &diag);
        snprintf(made->weights_file, sizeof made->weights_file, "%s", base_name(s->weights_out));
        kernel->weights_file = made->weights_file;
    } else {
        made->weights = aligned_alloc(FFN_PACKED_ALIGN, bytes);
        if (!made->weights)
            status = cmd_error(s->command, CMD_FAILED, "no memory for %zu bytes of packed weights", bytes);
        else if (ffn_pack(&kernel->spec, weights_of(file), made->weights, bytes, &diag))
            status = cmd_diag(s->command, &diag);
        if (!status)
            memcpy(&header, made->weights, sizeof header);
        kernel->weights = made->weights;
    }
    kernel->weights_checksum = header.checksum;
    weights_close(file);
    return status;
}

/* ---- All of it ---- */

static int fill(const emit_settings *s, char **operands, int count, emit_made *made) {
    int status = emit_isas(s->command, s->isas, made->isas, &made->job.isa_count, &made->job.portable);
    if (status)
        return status;
    if (s->prefix && taken(s->prefix))
        return cmd_error(s->command, CMD_USAGE, "--prefix %s is libffn's own: ffn_%s would do", s->prefix, s->prefix);
    if (s->prefix && !prefix_fits(s->prefix))
        return cmd_error(s->command, CMD_USAGE,
                         "--prefix '%.80s': it must start with a letter and have 2 to %d letters, digits and '_'",
                         s->prefix, PREFIX_LENGTH_MAX);
    for (int i = 0; i < count && !status; i++) {
        ffn_diag diag = {0};
        const size_t length = name_length(operands[i]);
        const char *spec = operands[i] + (length ? length + 1 : 0);
        if (operands[i][0] == '=' || (length && !identifier(operands[i], length)))
            return cmd_error(s->command, CMD_USAGE,
                             "'%.100s': the name before '=' must be letters, digits and '_', a letter first",
                             operands[i]);
        if (ffn_spec_parse(spec, &made->kernels[i].spec, &diag))
            return cmd_error(s->command, CMD_USAGE, "SPEC '%.100s': %s", spec, diag.text);
        if (i == 0 && s->prefix)
            strcpy(made->prefix, s->prefix);
        else if (i == 0)
            prefix_from(s->output, &made->kernels[0].spec, made->prefix);
        name_kernel(operands[i], count, made->prefix, &made->kernels[i]);
        status = plan_kernel(s, &made->job, &made->kernels[i]);
    }
    status = status ? status : name_file(s, made);
    status = status ? status : check_names(s, operands, made->kernels, count);
    if (!status && s->weights)
        status = add_weights(s, made);
    return status;
}

int emit_made_begin(const emit_settings *s, char **operands, int count, emit_made *made) {
    if (count == 0)
        return cmd_error(s->command, CMD_USAGE, "no SPEC is given; one is like bert-base or d512-f2048-relu-bias");
    if (count > EMIT_SPECS_MAX)
        return cmd_error(s->command, CMD_USAGE, "%d specs are given; one file takes at most %d", count, EMIT_SPECS_MAX);
    *made = (emit_made){.kernels = calloc((size_t)count, sizeof *made->kernels)};
    if (!made->kernels)
        return cmd_error(s->command, CMD_FAILED, "no memory for %d specs", count);
    made->job = (emit_job){.prefix = made->prefix,
                           .file = made->file,
                           .isas = made->isas,
                           .is_static = s->is_static,
                           .kernels = made->kernels,
                           .kernel_count = count};
    const int status = fill(s, operands, count, made);
    if (status)
        emit_made_end(made);
    return status;
}

int emit_made_finish(const emit_settings *s, emit_made *made) {
    if (!made->weights_new)
        return CMD_OK;
    if (rename(made->weights_new, s->weights_out) != 0)
        return cmd_error(s->command, CMD_FAILED, "%s cannot be written: %s", s->weights_out, strerror(errno));
    free(made->weights_new);
    made->weights_new = NULL;
    return CMD_OK;
}

void emit_made_end(emit_made *made) {
    if (made->weights_new)
        unlink(made->weights_new);
    free(made->weights_new);
    free(made->kernels);
    free(made->weights);
    *made = (emit_made){.kernels = NULL};
}
