/* spec.c: what makes a spec valid, and when two are the same
 *
 * Invariant: a spec that passes the check has one representation, its canonical one; so specs are compared field by
 * field, and everything derived from one (layouts, names, hashes) is derived from the value alone. */
#include "diag.h"
#include "formula.h"
#include "packed.h"

#include <inttypes.h>
#include <string.h>

static ffn_status check_dimension(const char *name, int64_t value, ffn_diag *diag) {
    if (value >= 1 && value <= FFN_DIM_MAX)
        return FFN_OK;
    return diag_fail(diag, FFN_BAD_SPEC, "%s is %" PRId64 ": it must be 1 to %" PRId64, name, value, FFN_DIM_MAX);
}

static const ffn_activation *activation_named(const char *name) {
    const ffn_activation *row;
    for (size_t i = 0; (row = ffn_activation_at(i)) != NULL; i++)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

static ffn_status check_activation(const ffn_spec *spec, bool *gated, ffn_diag *diag) {
    if (!memchr(spec->activation, '\0', sizeof spec->activation))
        return diag_fail(diag, FFN_BAD_SPEC, "activation has no end: it is a string of at most %zu bytes",
                         sizeof spec->activation - 1);
    if (spec->activation[0] == '\0')
        return diag_fail(diag, FFN_BAD_SPEC, "activation is empty: a name, act(...) or gated(...) is needed");
    const ffn_activation *row = activation_named(spec->activation);
    if (row) { /* canonical as it stands; kernels are created often, and building a formula costs 0.2 ms */
        *gated = row->gated;
        return FFN_OK;
    }
    char canonical[FFN_ACTIVATION_BYTES];
    ffn_diag inner;
    ffn_status status = formula_canonical(spec->activation, canonical, sizeof canonical, gated, &inner);
    if (status != FFN_OK)
        return diag_fail(diag, status, "activation: %s", inner.text);
    if (strcmp(canonical, spec->activation) != 0)
        return diag_fail(diag, FFN_BAD_SPEC, "activation \"%.160s\" is not in canonical form: \"%.160s\"",
                         spec->activation, canonical);
    return FFN_OK;
}

/* Everything but the size of the packed weights, which packed_layout_of knows and for which it asks ffn_spec_gated. */
static ffn_status check_fields(const ffn_spec *spec, bool *gated, ffn_diag *diag) {
    ffn_status status = check_dimension("d_model", spec->d_model, diag);
    if (status == FFN_OK)
        status = check_dimension("d_ff", spec->d_ff, diag);
    if (status == FFN_OK)
        status = check_activation(spec, gated, diag);
    if (status != FFN_OK)
        return status;
    if (spec->accuracy != FFN_ACCURATE && spec->accuracy != FFN_FAST)
        return diag_fail(diag, FFN_BAD_SPEC, "accuracy is %" PRIu32 ": it is FFN_ACCURATE (0) or FFN_FAST (1)",
                         spec->accuracy);
    if (spec->accuracy == FFN_FAST && formula_is_own(spec->activation))
        return diag_fail(diag, FFN_BAD_SPEC,
                         "fast with a formula of one's own, \"%.160s\": it computes what it says; fast is for the "
                         "built-in activations",
                         spec->activation);
    const uint32_t known = FFN_BIAS_UP | FFN_BIAS_GATE | FFN_BIAS_DOWN;
    if (spec->bias & ~known)
        return diag_fail(diag, FFN_BAD_SPEC,
                         "bias is 0x%" PRIx32 ": only the FFN_BIAS_* bits 0x%" PRIx32 " mean anything", spec->bias,
                         known);
    if ((spec->bias & FFN_BIAS_GATE) && !*gated)
        return diag_fail(diag, FFN_BAD_SPEC,
                         "bias_gate with the activation \"%.160s\", which is not gated: there is no gate product",
                         spec->activation);
    return FFN_OK;
}

ffn_status ffn_spec_check(const ffn_spec *spec, ffn_diag *diag) {
    if (!spec)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "spec is NULL");
    bool gated;
    ffn_status status = check_fields(spec, &gated, diag);
    packed_layout layout;
    return status == FFN_OK ? packed_layout_of(spec, &layout, diag) : status;
}

bool ffn_spec_gated(const ffn_spec *spec) {
    if (!spec)
        return false;
    bool gated;
    const ffn_status status = check_fields(spec, &gated, NULL);
    /* Layouts and plans ask here: for lack of memory a valid spec must not become another one. */
    return status == FFN_OK ? gated : status == FFN_OUT_OF_MEMORY && formula_gated(spec->activation);
}

bool ffn_spec_equal(const ffn_spec *a, const ffn_spec *b) {
    return a && b && a->d_model == b->d_model && a->d_ff == b->d_ff && a->bias == b->bias &&
           a->accuracy == b->accuracy && strncmp(a->activation, b->activation, sizeof a->activation) == 0;
}
