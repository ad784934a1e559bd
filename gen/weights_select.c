/* weights_select.c: names of tensors -> the parts of an FFN, by the table of names or by the caller's map */
#include "weights_select.h"

#include "diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NEAR_MAX = 3, LISTED_BYTES_MAX = 150 };

/* Appends to a text of fixed size; what does not fit is left out whole. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static bool
append(char *text, size_t text_bytes, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text + used, text_bytes - used, format, args);
    va_end(args);
    bool fits = length >= 0 && (size_t)length < text_bytes - used;
    if (!fits)
        text[used] = '\0';
    return fits;
}

/* ---- What comes near --------------------------------------------------------------------------------------- */

/* Bytes that two names have in common at both ends: names of tensors differ in the middle (a layer's number) or by a
 * slip of the hand, and files have up to hundreds of thousands of them. */
static size_t ends_in_common(const char *a, const char *b) {
    size_t a_length = strlen(a), b_length = strlen(b), shorter = a_length < b_length ? a_length : b_length;
    size_t front = 0, back = 0;
    while (front < shorter && a[front] == b[front])
        front++;
    while (back < shorter - front && a[a_length - 1 - back] == b[b_length - 1 - back])
        back++;
    return front + back;
}

void weights_near_names(const safetensors *file, const char *name, char *text, size_t text_bytes) {
    struct {
        const char *name;
        size_t common;
    } near[NEAR_MAX];
    size_t count = 0;
    const safetensors_tensor *tensor;
    for (size_t i = 0; (tensor = safetensors_at(file, i)) != NULL; i++) {
        size_t common = ends_in_common(name, tensor->name);
        if (2 * common < strlen(name))
            continue;
        size_t at = count;
        while (at > 0 && near[at - 1].common < common)
            at--;
        if (at == NEAR_MAX)
            continue;
        count += count < NEAR_MAX;
        for (size_t j = count - 1; j > at; j--)
            near[j] = near[j - 1];
        near[at].name = tensor->name;
        near[at].common = common;
    }
    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        append(text, text_bytes, "%s%s", i ? ", " : "; near names: ", near[i].name);
}

/* Tensors that could be the expand matrix: "; tensors of its shape: a, b" or "". */
static void fitting_list(const ffn_spec *spec, const safetensors *file, char *text, size_t text_bytes) {
    const safetensors_tensor *tensor;
    int listed = 0;
    text[0] = '\0';
    for (size_t i = 0; listed < NEAR_MAX && (tensor = safetensors_at(file, i)) != NULL; i++) {
        bool fits = tensor->rank == 2 && ((tensor->shape[0] == spec->d_model && tensor->shape[1] == spec->d_ff) ||
                                          (tensor->shape[0] == spec->d_ff && tensor->shape[1] == spec->d_model));
        if (fits && append(text, text_bytes, "%s%s", listed ? ", " : "; tensors of a fitting shape: ", tensor->name))
            listed++;
    }
}

/* ---- By the table ------------------------------------------------------------------------------------------ */

/* Plain separate names serve both kinds: a gate that is not wanted is found and refused later. */
static bool row_serves(const weight_row *row, bool gated) {
    if (row->gate_order != FFN_GATE_SEPARATE)
        return gated;
    return row->lie == WEIGHT_UNSAID || (row->names[WEIGHT_GATE] != NULL) == gated;
}

static ffn_status none_found(const ffn_spec *spec, const safetensors *file, const char *label,
                             const weights_options *options, const weight_row *near_row, int64_t layers,
                             ffn_diag *diag) {
    if (near_row && options->layer >= layers)
        return diag_fail(diag, FFN_BAD_FILE, "%s: there is no layer %lld: the names of %s go up to layer %lld", label,
                         (long long)options->layer, near_row->family, (long long)layers - 1);
    char looked[LISTED_BYTES_MAX + 32] = "", fitting[LISTED_BYTES_MAX];
    const weight_row *row;
    int more = 0;
    for (size_t i = 0; (row = weights_names_row(i)) != NULL; i++) {
        char name[WEIGHTS_NAME_BYTES];
        if (!row_serves(row, ffn_spec_gated(spec)) ||
            !weights_names_write("", 0, row->names[WEIGHT_UP], options->layer, options->expert, name, sizeof name))
            continue;
        if (more || !append(looked, LISTED_BYTES_MAX, "%s%s", *looked ? ", " : "", name))
            more++;
    }
    append(looked, sizeof looked, " and %d more", more);
    fitting_list(spec, file, fitting, sizeof fitting);
    return diag_fail(diag, FFN_BAD_FILE,
                     "%s: no FFN under a known name (--map up=NAME,down=NAME names one)%s; looked for %s", label,
                     fitting, looked);
}

static void selection_fill(const safetensors *file, const weight_row *row, const char *prefix, size_t prefix_bytes,
                           const weights_options *options, weights_selection *selection) {
    selection->family = row->family;
    selection->lie = row->lie;
    selection->gate_order = row->gate_order;
    for (int role = 0; role < WEIGHT_ROLES; role++) {
        char *name = selection->names[role];
        name[0] = '\0';
        selection->tensors[role] = NULL;
        if (row->names[role] && weights_names_write(prefix, prefix_bytes, row->names[role], options->layer,
                                                    options->expert, name, WEIGHTS_NAME_BYTES))
            selection->tensors[role] = safetensors_find(file, name);
    }
}

/* A row whose names have no number stands for the only layer, or expert, there is. */
static bool number_is(int64_t number, int64_t wanted) {
    return number == wanted || (number == WEIGHT_ANY && wanted == 0);
}

static ffn_status table_select(const ffn_spec *spec, const safetensors *file, const char *label,
                               const weights_options *options, const char *prefix, weights_selection *found,
                               size_t *count, ffn_diag *diag) {
    const weight_row *row, *near_row = NULL;
    int64_t layers = 0;
    *count = 0;
    for (size_t r = 0; (row = weights_names_row(r)) != NULL; r++) {
        const safetensors_tensor *tensor;
        for (size_t i = 0; (tensor = safetensors_at(file, i)) != NULL; i++) {
            int64_t layer, expert;
            int64_t prefix_bytes = weights_names_match(row->names[WEIGHT_UP], tensor->name, &layer, &expert);
            if (prefix_bytes < 0 || strncmp(tensor->name, prefix, strlen(prefix)) != 0)
                continue;
            if (layer >= layers) {
                layers = layer + 1;
                near_row = row;
            }
            if (*count < WEIGHTS_SELECTIONS_MAX && number_is(layer, options->layer) &&
                number_is(expert, options->expert))
                selection_fill(file, row, tensor->name, (size_t)prefix_bytes, options, &found[(*count)++]);
        }
    }
    return *count > 0 ? FFN_OK : none_found(spec, file, label, options, near_row, layers, diag);
}

/* ---- By the caller's map ----------------------------------------------------------------------------------- */

static const struct {
    const char *key;
    weight_role role;
    ffn_gate_order gate_order;
} keys[] = {
    {"w1", WEIGHT_UP, FFN_GATE_SEPARATE},
    {"up", WEIGHT_UP, FFN_GATE_SEPARATE},
    {"gate_up", WEIGHT_UP, FFN_GATE_FIRST},
    {"up_gate", WEIGHT_UP, FFN_UP_FIRST},
    {"gate_up_interleaved", WEIGHT_UP, FFN_GATE_INTERLEAVED},
    {"wg", WEIGHT_GATE, FFN_GATE_SEPARATE},
    {"gate", WEIGHT_GATE, FFN_GATE_SEPARATE},
    {"w2", WEIGHT_DOWN, FFN_GATE_SEPARATE},
    {"down", WEIGHT_DOWN, FFN_GATE_SEPARATE},
    {"b1", WEIGHT_BIAS_UP, FFN_GATE_SEPARATE},
    {"bias_up", WEIGHT_BIAS_UP, FFN_GATE_SEPARATE},
    {"bg", WEIGHT_BIAS_GATE, FFN_GATE_SEPARATE},
    {"bias_gate", WEIGHT_BIAS_GATE, FFN_GATE_SEPARATE},
    {"b2", WEIGHT_BIAS_DOWN, FFN_GATE_SEPARATE},
    {"bias_down", WEIGHT_BIAS_DOWN, FFN_GATE_SEPARATE},
};
enum { KEYS = sizeof keys / sizeof *keys };

static const char *key_at(size_t i) {
    return i < KEYS ? keys[i].key : i == KEYS ? "prefix" : NULL;
}

/* One "key=value" of the map. */
static ffn_status entry_parse(const char *entry, size_t entry_bytes, weights_selection *selection, char *prefix,
                              ffn_diag *diag) {
    const char *equals = memchr(entry, '=', entry_bytes);
    char key[32];
    if (!equals || (size_t)(equals - entry) >= sizeof key || equals + 1 == entry + entry_bytes)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "map: '%.*s' is not KEY=NAME",
                         (int)(entry_bytes < 64 ? entry_bytes : 64), entry);
    memcpy(key, entry, (size_t)(equals - entry));
    key[equals - entry] = '\0';
    size_t value_bytes = entry_bytes - (size_t)(equals + 1 - entry), i = 0;
    while (i < KEYS && strcmp(key, keys[i].key) != 0)
        i++;
    if (i == KEYS && strcmp(key, "prefix") != 0) {
        char near[128];
        diag_near_names(key, key_at, near, sizeof near);
        return diag_fail(diag, FFN_BAD_ARGUMENT, "map: '%s' is no part of an FFN%s", key,
                         *near ? near : ": up, gate, down, bias_up, bias_gate, bias_down or gate_up are");
    }
    char *value = i == KEYS ? prefix : selection->names[keys[i].role];
    if (*value)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "map: '%s' names a part that is named already", key);
    if (value_bytes >= WEIGHTS_NAME_BYTES)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "map: the name for '%s' is longer than %d bytes", key,
                         WEIGHTS_NAME_BYTES - 1);
    memcpy(value, equals + 1, value_bytes);
    value[value_bytes] = '\0';
    if (i < KEYS && keys[i].role == WEIGHT_UP)
        selection->gate_order = keys[i].gate_order;
    return FFN_OK;
}

static ffn_status map_parse(const char *map, weights_selection *selection, char prefix[WEIGHTS_NAME_BYTES],
                            ffn_diag *diag) {
    *selection = (weights_selection){.family = "map"};
    prefix[0] = '\0';
    for (const char *entry = map; *entry;) {
        size_t bytes = strcspn(entry, ",");
        ffn_status status = entry_parse(entry, bytes, selection, prefix, diag);
        if (status != FFN_OK)
            return status;
        entry += bytes + (entry[bytes] == ',');
    }
    return FFN_OK;
}

/* The names of a map -> tensors; a bias that is not named is looked for beside its matrix. */
static ffn_status map_select(const safetensors *file, const char *label, weights_selection *selection, ffn_diag *diag) {
    static const char end[] = ".weight";
    for (int role = 0; role < WEIGHT_ROLES; role++) {
        char *name = selection->names[role];
        const char *matrix = role >= WEIGHT_BIAS_UP ? selection->names[role - WEIGHT_BIAS_UP] : "";
        size_t stem = strlen(matrix) - (strlen(matrix) >= sizeof end - 1 ? sizeof end - 1 : 0);
        bool named = *name != '\0';
        if (!named && strcmp(matrix + stem, end) == 0)
            snprintf(name, WEIGHTS_NAME_BYTES, "%.*s.bias", (int)stem, matrix);
        selection->tensors[role] = *name ? safetensors_find(file, name) : NULL;
        if (named && !selection->tensors[role]) {
            char near[256];
            weights_near_names(file, name, near, sizeof near);
            return diag_fail(diag, FFN_BAD_FILE, "%s: there is no tensor '%s'%s", label, name, near);
        }
    }
    return FFN_OK;
}

ffn_status weights_select(const ffn_spec *spec, const safetensors *file, const char *label,
                          const weights_options *options, weights_selection found[WEIGHTS_SELECTIONS_MAX],
                          size_t *count, ffn_diag *diag) {
    char prefix[WEIGHTS_NAME_BYTES] = "";
    bool mapped = false;
    if (options->map) {
        ffn_status status = map_parse(options->map, &found[0], prefix, diag);
        if (status != FFN_OK)
            return status;
        for (int role = 0; role < WEIGHT_ROLES; role++)
            mapped |= found[0].names[role][0] != '\0';
    }
    if (!mapped)
        return table_select(spec, file, label, options, prefix, found, count, diag);
    if (*prefix)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "map: prefix chooses among known names, so it stands alone");
    if (!found[0].names[WEIGHT_UP][0] || !found[0].names[WEIGHT_DOWN][0])
        return diag_fail(diag, FFN_BAD_ARGUMENT, "map: it must name both up (w1, or a fused gate_up) and down (w2)");
    if (found[0].names[WEIGHT_GATE][0] && found[0].gate_order != FFN_GATE_SEPARATE)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "map: the fused matrix holds the gate, so gate cannot be named apart");
    *count = 1;
    return map_select(file, label, &found[0], diag);
}
