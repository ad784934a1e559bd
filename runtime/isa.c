/* isa.c: templates/isas.def -> the table of ISAs, their names, and which of them this CPU can run */
#include "isa.h"

#include "diag.h"

#include <string.h>

static const isa_row isas[FFN_ISA_COUNT] = {
    [FFN_ISA_AUTO] = {.name = "auto"},
    [FFN_ISA_PORTABLE] = {.name = "portable"},
#define FFN_ISA_ROW(ID, name, arch, lanes, registers, triple, tune, features, needs, l1, l2, l3) \
    [FFN_ISA_##ID] = {name, arch, lanes, registers, triple, tune, features, needs, l1, l2, l3},
#include "../templates/isas.def"
};

static bool is_known(ffn_isa isa) {
    return (unsigned)isa < FFN_ISA_COUNT;
}

const isa_row *isa_row_of(ffn_isa isa) {
    return is_known(isa) && isa != FFN_ISA_AUTO && isa != FFN_ISA_PORTABLE ? &isas[isa] : NULL;
}

const char *ffn_isa_name(ffn_isa isa) {
    return is_known(isa) ? isas[isa].name : NULL;
}

static const char *name_at(size_t i) {
    return i < FFN_ISA_COUNT ? isas[i].name : NULL;
}

ffn_status ffn_isa_parse(const char *name, ffn_isa *isa, ffn_diag *diag) {
    if (!name || !isa)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "ffn_isa_parse: %s is NULL", name ? "isa" : "name");
    for (size_t i = 0; i < FFN_ISA_COUNT; i++) {
        if (strcmp(name, isas[i].name) == 0) {
            *isa = (ffn_isa)i;
            return FFN_OK;
        }
    }
    char known[128] = "", near[128];
    for (size_t i = 0; i < FFN_ISA_COUNT; i++) {
        strncat(known, i ? ", " : "", sizeof known - strlen(known) - 1);
        strncat(known, isas[i].name, sizeof known - strlen(known) - 1);
    }
    diag_near_names(name, name_at, near, sizeof near);
    return diag_fail(diag, FFN_BAD_ARGUMENT, "unknown ISA \"%.40s\"%s (known: %s)", name, near, known);
}

bool ffn_isa_supported(ffn_isa isa) {
    const isa_row *row = isa_row_of(isa);
    if (!row)
        return is_known(isa); /* portable runs everywhere, auto resolves to something that does */
    return row->arch == cpu_arch() && (cpu_features() & row->needs) == row->needs;
}

ffn_isa ffn_isa_best(void) {
    ffn_isa best = FFN_ISA_PORTABLE;
    for (size_t i = 0; i < FFN_ISA_COUNT; i++)
        if (isa_row_of((ffn_isa)i) && ffn_isa_supported((ffn_isa)i) && isas[i].lanes > isas[best].lanes)
            best = (ffn_isa)i;
    return best;
}
