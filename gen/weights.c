/* weights.c: the tensors that play the parts of an FFN -> ffn_weights, each checked against the spec
 *
 * Invariant: a tensor is used only if its presence, shape and orientation are what spec, names and caller together say;
 * where they leave a doubt it is an error. */
#include "weights.h"

#include "diag.h"
#include "file.h"
#include "weights_select.h"
#include "weights_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct owned_copy {
    struct owned_copy *next;
    float *floats;
} owned_copy;

struct weights_file {
    safetensors *tensors;
    pack_weights weights;
    weights_stream streams[WEIGHT_BIAS_UP]; /* what its readers read */
    owned_copy *copies;
    char summary[FFN_DIAG_BYTES];
};

typedef struct request {
    const ffn_spec *spec;
    const safetensors *file;
    const char *label;
    const weights_options *options;
    ffn_diag *diag;
} request;

static const char *const lie_names[] = {"unsaid", "in_out", "out_in"};

static weight_lie lie_parse(const char *text) {
    for (int i = WEIGHT_IN_OUT; text && i <= WEIGHT_OUT_IN; i++)
        if (strcmp(text, lie_names[i]) == 0)
            return (weight_lie)i;
    return WEIGHT_UNSAID;
}

/* ---- Presence ---------------------------------------------------------------------------------------------- */

static const char *const role_names[] = {"up matrix",  "gate matrix",  "down matrix",
                                         "bias of up", "bias of gate", "bias of down"};
static const char *const role_fields[] = {"", "", "", "bias_up", "bias_gate", "bias_down"};

static ffn_status presence_check(const request *r, const weights_selection *s) {
    bool gated = ffn_spec_gated(r->spec), fused = s->gate_order != FFN_GATE_SEPARATE;
    if (fused && !gated)
        return diag_fail(r->diag, FFN_BAD_FILE,
                         "%s: '%s' holds gate and up, but the activation of the spec is not gated", r->label,
                         s->names[WEIGHT_UP]);
    if (fused && !(r->spec->bias & FFN_BIAS_UP) != !(r->spec->bias & FFN_BIAS_GATE))
        return diag_fail(r->diag, FFN_BAD_FILE,
                         "%s: '%s' holds gate and up: the spec must have both of bias_up and bias_gate, or neither",
                         r->label, s->names[WEIGHT_UP]);
    const bool wanted[WEIGHT_ROLES] = {
        [WEIGHT_UP] = true,
        [WEIGHT_GATE] = gated && !fused,
        [WEIGHT_DOWN] = true,
        [WEIGHT_BIAS_UP] = r->spec->bias & FFN_BIAS_UP,
        [WEIGHT_BIAS_GATE] = !fused && (r->spec->bias & FFN_BIAS_GATE),
        [WEIGHT_BIAS_DOWN] = r->spec->bias & FFN_BIAS_DOWN,
    };
    for (int role = 0; role < WEIGHT_ROLES; role++) {
        if (wanted[role] == (s->tensors[role] != NULL))
            continue;
        const char *name = s->names[role];
        if (!wanted[role] && role == WEIGHT_GATE)
            return diag_fail(r->diag, FFN_BAD_FILE,
                             "%s: it has the gate '%s', but the activation of the spec is not gated", r->label, name);
        if (!wanted[role])
            return diag_fail(r->diag, FFN_BAD_FILE, "%s: it has the bias '%s', but the spec does not (add -%s)",
                             r->label, name, role_fields[role]);
        if (!*name)
            return diag_fail(
                r->diag, FFN_BAD_FILE,
                "%s: the spec has a %s, but '%s' (%s) comes without: name it with --map, or correct the spec", r->label,
                role_names[role], s->names[WEIGHT_UP], s->family);
        char near[192];
        weights_near_names(r->file, name, near, sizeof near);
        return diag_fail(r->diag, FFN_BAD_FILE, "%s: there is no '%s' for the %s of the spec%s", r->label, name,
                         role_names[role], near);
    }
    return FFN_OK;
}

/* ---- Shapes ------------------------------------------------------------------------------------------------ */

static bool shape_is(const safetensors_tensor *t, int64_t rows, int64_t columns) {
    return t->rank == 2 && t->shape[0] == rows && t->shape[1] == columns;
}

/* `source` tells where `lie` comes from, for the message. */
static ffn_status matrix_check(const request *r, const safetensors_tensor *t, int64_t in, int64_t out, weight_lie lie,
                               const char *source, ffn_layout *layout) {
    char shape[96];
    safetensors_shape_format(t, shape, sizeof shape);
    bool as_in_out = shape_is(t, in, out), as_out_in = shape_is(t, out, in);
    if (!as_in_out && !as_out_in)
        return diag_fail(r->diag, FFN_BAD_FILE, "%s: '%s' is %s: the spec needs [%lld, %lld] (in_out) or [%lld, %lld]",
                         r->label, t->name, shape, (long long)in, (long long)out, (long long)out, (long long)in);
    if (lie == WEIGHT_UNSAID && in == out)
        return diag_fail(r->diag, FFN_BAD_FILE,
                         "%s: '%s' is square, so its shape does not tell how it lies: say --layout in_out or out_in",
                         r->label, t->name);
    if (lie == WEIGHT_UNSAID)
        lie = as_in_out ? WEIGHT_IN_OUT : WEIGHT_OUT_IN;
    if (!(lie == WEIGHT_IN_OUT ? as_in_out : as_out_in))
        return diag_fail(r->diag, FFN_BAD_FILE, "%s: '%s' is %s, which is %s, but %s says %s: --layout says otherwise",
                         r->label, t->name, shape, as_in_out ? "in_out" : "out_in", source, lie_names[lie]);
    *layout = lie == WEIGHT_IN_OUT ? FFN_IN_OUT : FFN_OUT_IN;
    return FFN_OK;
}

static ffn_status shapes_check(const request *r, const weights_selection *s, ffn_layout layouts[WEIGHT_BIAS_UP]) {
    const char *said = r->options->layout;
    weight_lie lie = s->lie, metadata = lie_parse(safetensors_metadata(r->file, "orientation"));
    const char *source = s->family;
    if (said) {
        lie = lie_parse(said);
        source = "--layout";
    } else if (lie == WEIGHT_UNSAID && metadata != WEIGHT_UNSAID) {
        lie = metadata;
        source = "the file's metadata";
    }
    int64_t d_model = r->spec->d_model, d_ff = r->spec->d_ff;
    int64_t expanded = s->gate_order == FFN_GATE_SEPARATE ? d_ff : 2 * d_ff;
    const int64_t sides[WEIGHT_BIAS_UP][2] = {{d_model, expanded}, {d_model, d_ff}, {d_ff, d_model}};
    for (int role = 0; role < WEIGHT_ROLES; role++) {
        const safetensors_tensor *t = s->tensors[role];
        if (!t)
            continue;
        const int64_t *side = sides[role % WEIGHT_BIAS_UP];
        ffn_status status = FFN_OK;
        if (role < WEIGHT_BIAS_UP) {
            status = matrix_check(r, t, side[0], side[1], lie, source, &layouts[role]);
        } else if (t->elements != side[1] || t->rank < 1 || t->shape[t->rank - 1] != side[1]) {
            char shape[96];
            safetensors_shape_format(t, shape, sizeof shape);
            status = diag_fail(r->diag, FFN_BAD_FILE, "%s: the bias '%s' is %s: the spec needs [%lld]", r->label,
                               t->name, shape, (long long)side[1]);
        }
        if (status != FFN_OK)
            return status;
    }
    return FFN_OK;
}

static ffn_status selection_check(const request *r, const weights_selection *s, ffn_layout layouts[WEIGHT_BIAS_UP]) {
    ffn_status status = presence_check(r, s);
    return status == FFN_OK ? shapes_check(r, s, layouts) : status;
}

/* The one selection that fits; if none does, what is wrong with the first. */
static ffn_status selection_choose(const request *r, const weights_selection *found, size_t count, size_t *chosen,
                                   ffn_layout layouts[WEIGHT_BIAS_UP]) {
    size_t fitting = 0;
    ffn_layout trial[WEIGHT_BIAS_UP] = {FFN_IN_OUT, FFN_IN_OUT, FFN_IN_OUT};
    request quiet = *r;
    quiet.diag = NULL;
    for (size_t i = count; i-- > 0;)
        if (selection_check(&quiet, &found[i], trial) == FFN_OK) {
            if (fitting++ > 0)
                return diag_fail(r->diag, FFN_BAD_FILE,
                                 "%s: both '%s' and '%s' fit the spec: choose with --map prefix=P or up=NAME,down=NAME",
                                 r->label, found[i].names[WEIGHT_UP], found[*chosen].names[WEIGHT_UP]);
            *chosen = i;
            memcpy(layouts, trial, sizeof trial);
        }
    return fitting ? FFN_OK : selection_check(r, &found[0], trial);
}

/* ---- Numbers ----------------------------------------------------------------------------------------------- */

static ffn_status floats_of(weights_file *file, const safetensors_tensor *tensor, const float **data, ffn_diag *diag) {
    owned_copy *copy = calloc(1, sizeof *copy);
    if (!copy)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for tensor '%s'", tensor->name);
    ffn_status status = safetensors_floats(tensor, data, &copy->floats, diag);
    if (status != FFN_OK || !copy->floats) {
        free(copy);
        return status;
    }
    copy->next = file->copies;
    file->copies = copy;
    return FFN_OK;
}

static ffn_status matrix_stream(weights_file *file, int role, const safetensors_tensor *tensor, pack_reader *reader,
                                ffn_diag *diag) {
    file->streams[role] = (weights_stream){.file = file->tensors, .tensor = tensor};
    *reader = weights_stream_reader(&file->streams[role]);
    return safetensors_float_check(tensor, diag);
}

static ffn_status weights_fill(weights_file *file, const weights_selection *s, const ffn_layout *layouts, bool streamed,
                               ffn_diag *diag) {
    ffn_weights *w = &file->weights.weights;
    pack_reader *const readers[WEIGHT_BIAS_UP] = {&file->weights.up, &file->weights.gate, &file->weights.down};
    const float **const parts[WEIGHT_ROLES] = {&w->up.data, &w->gate.data, &w->down.data,
                                               &w->bias_up, &w->bias_gate, &w->bias_down};
    w->gate_order = s->gate_order;
    w->up.layout = layouts[WEIGHT_UP];
    w->gate.layout = layouts[WEIGHT_GATE];
    w->down.layout = layouts[WEIGHT_DOWN];
    int used = snprintf(file->summary, sizeof file->summary, "%s:", s->family);
    for (int role = 0; role < WEIGHT_ROLES; role++) {
        const safetensors_tensor *t = s->tensors[role];
        if (!t)
            continue;
        ffn_status status = streamed && role < WEIGHT_BIAS_UP ? matrix_stream(file, role, t, readers[role], diag)
                                                              : floats_of(file, t, parts[role], diag);
        if (status != FFN_OK)
            return status;
        const char *lie = role >= WEIGHT_BIAS_UP ? "" : layouts[role] == FFN_IN_OUT ? " in_out" : " out_in";
        if (used >= 0 && (size_t)used < sizeof file->summary)
            used += snprintf(file->summary + used, sizeof file->summary - (size_t)used, " %s (%s%s)", t->name,
                             safetensors_dtype_name(t->dtype), lie);
    }
    return FFN_OK;
}

static void copies_free(weights_file *file) {
    while (file->copies) {
        owned_copy *next = file->copies->next;
        free(file->copies->floats);
        free(file->copies);
        file->copies = next;
    }
}

/* ---- Public ------------------------------------------------------------------------------------------------ */

ffn_status weights_find(const ffn_spec *spec, safetensors *tensors, const char *label, const weights_options *options,
                        weights_file **out, ffn_diag *diag) {
    static const weights_options defaults;
    request r = {spec, tensors, label, options ? options : &defaults, diag};
    ffn_status status = ffn_spec_check(spec, diag);
    if (status != FFN_OK)
        return status;
    if (r.options->layout && lie_parse(r.options->layout) == WEIGHT_UNSAID)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "layout '%s': in_out or out_in is needed", r.options->layout);
    if (r.options->layer < 0 || r.options->expert < 0)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "layer and expert are counted from 0");

    weights_file *file = calloc(1, sizeof *file);
    weights_selection *found = calloc(WEIGHTS_SELECTIONS_MAX, sizeof *found);
    size_t count = 0, chosen = 0;
    ffn_layout layouts[WEIGHT_BIAS_UP] = {FFN_IN_OUT, FFN_IN_OUT, FFN_IN_OUT};
    if (!file || !found)
        status = diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory to find the weights of %s", label);
    else
        file->tensors = tensors;
    if (status == FFN_OK)
        status = weights_select(spec, tensors, label, r.options, found, &count, diag);
    if (status == FFN_OK)
        status = selection_choose(&r, found, count, &chosen, layouts);
    if (status == FFN_OK)
        status = weights_fill(file, &found[chosen], layouts, r.options->streamed, diag);
    free(found);
    if (status != FFN_OK) {
        if (file)
            copies_free(file);
        free(file);
        return status;
    }
    *out = file;
    return FFN_OK;
}

ffn_status weights_open(const ffn_spec *spec, const char *path, const weights_options *options, weights_file **file,
                        ffn_diag *diag) {
    safetensors *tensors;
    ffn_status status = safetensors_open(path, &tensors, diag);
    if (status != FFN_OK)
        return status;
    status = weights_find(spec, tensors, file_label(path), options, file, diag);
    if (status != FFN_OK)
        safetensors_close(tensors);
    return status;
}

void weights_close(weights_file *file) {
    if (!file)
        return;
    copies_free(file);
    safetensors_close(file->tensors);
    free(file);
}

const ffn_weights *weights_of(const weights_file *file) {
    return &file->weights.weights;
}

const pack_weights *weights_streamed(const weights_file *file) {
    return &file->weights;
}

const char *weights_summary(const weights_file *file) {
    return file->summary;
}

const safetensors_tensor *weights_tensor(const weights_file *file, const char *name) {
    return safetensors_find(file->tensors, name);
}

ffn_status weights_rows(weights_file *file, const char *name, const float **data, int64_t *n, int64_t *d,
                        ffn_diag *diag) {
    const safetensors_tensor *tensor = safetensors_find(file->tensors, name);
    if (!tensor) {
        char near[256];
        weights_near_names(file->tensors, name, near, sizeof near);
        return diag_fail(diag, FFN_BAD_FILE, "there is no tensor '%s' in the file%s", name, near);
    }
    int64_t columns = tensor->rank > 0 ? tensor->shape[tensor->rank - 1] : 0;
    if (columns == 0)
        return diag_fail(diag, FFN_BAD_FILE, "tensor '%s' holds no rows", name);
    ffn_status status = floats_of(file, tensor, data, diag);
    if (status != FFN_OK)
        return status;
    *n = tensor->elements / columns;
    *d = columns;
    return FFN_OK;
}
