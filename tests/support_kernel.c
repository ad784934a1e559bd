/* support_kernel.c: see support_kernel.h */
#include "support_kernel.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fallback.h"
#include "isa.h"
#include "link.h"
#include "nest.h"
#include "object.h"

static bool lowered(ffn_isa isa) {
    return !ffn_isa_supported(isa);
}

bool support_isa_runs(ffn_isa isa) {
    return !lowered(isa) || ffn_isa_supported(FFN_ISA_AVX2);
}

const char *support_isa_note(ffn_isa isa) {
    return lowered(isa) ? " (not on this CPU: its IR runs as AVX2 code)" : "";
}

ffn_plan support_kernel_plan(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class) {
    ffn_machine machine;
    ffn_plan plan;
    ffn_diag diag = {.text = ""};
    ffn_machine_read(&machine);
    cr_assert_eq(ffn_plan_make(spec, isa, n_class, &machine, &plan, &diag), FFN_OK, "%s", diag.text);
    return plan;
}

/* The module of another ISA, with the triple and the features of AVX2 code. */
static ffn_status lower(const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *out, ffn_diag *diag) {
    isa_row row = *isa_row_of(FFN_ISA_AVX2);
    row.lanes = plan_lanes(plan);
    row.registers = isa_row_of(plan->isa)->registers;
    packed_layout layout;
    formula_graph *graph = malloc(sizeof *graph);
    cr_assert_not_null(graph);
    ffn_status status = packed_layout_of(spec, &layout, diag);
    status = status ? status : formula_build(spec->activation, spec->accuracy, graph, diag);
    cr_assert_eq(status, FFN_OK, "%s", diag->text);
    ir g;
    ffn_bytes object = {.data = NULL};
    ir_begin(&g, &row, row.lanes, "lowered");
    nest_build(&g, spec, plan, &layout, graph);
    status = object_write(&g, FFNGEN_OBJECT, &object, diag);
    ir_end(&g);
    ffn_plan runs_as = *plan;
    runs_as.isa = FFN_ISA_AVX2;
    runs_as.vector_bits = 0;
    runs_as.tile_count = 1; /* the tiles stand in the code; the header's must be possible with AVX2's registers */
    runs_as.tiles[0] = (ffn_tile){1, 1};
    status = status ? status : link_image(&object, spec, &runs_as, &row, out, diag);
    if (!status) { /* of the plan that the code is of */
        image_header *header = out->data;
        header->scratch_bytes = (uint64_t)plan_scratch_bytes(spec, plan);
        header->checksum = image_checksum(out->data, out->bytes);
    }
    free(object.data);
    free(graph);
    return status;
}

ffn_status support_kernel_image(const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *out, ffn_diag *diag) {
    return lowered(plan->isa) ? lower(spec, plan, out, diag) : ffngen_emit(spec, plan, FFNGEN_IMAGE, out, diag);
}

void support_kernel_build(const ffn_spec *spec, const ffn_plan *plan, support_kernel *kernel) {
    ffn_bytes bytes = {.data = NULL};
    ffn_diag diag = {.text = ""};
    cr_assert_eq(support_kernel_image(spec, plan, &bytes, &diag), FFN_OK, "%s", diag.text);
    memset(kernel, 0, sizeof *kernel);
    kernel->spec = *spec;
    kernel->plan = *plan;
    kernel->scratch_bytes = plan_scratch_bytes(spec, plan);
    cr_assert_eq(image_map(bytes.data, bytes.bytes, &kernel->code, &diag), FFN_OK, "%s", diag.text);
    bytes.release(bytes.data);
}

void support_kernel_free(support_kernel *kernel) {
    image_unmap(&kernel->code);
}

void support_kernel_run(const support_kernel *kernel, const float *x, int64_t ldx, float *y, int64_t ldy, int64_t n,
                        const void *packed) {
    void *scratch = support_aligned((size_t)kernel->scratch_bytes);
    memset(scratch, 0xff, (size_t)kernel->scratch_bytes);
    kernel->code.fused(x, ldx, y, ldy, packed, scratch, 0, n);
    free(scratch);
}

void support_portable_run(const ffn_spec *spec, const float *x, int64_t ldx, float *y, int64_t ldy, int64_t n,
                          const void *packed) {
    packed_layout layout;
    formula_graph *graph = malloc(sizeof *graph);
    cr_assert_not_null(graph);
    cr_assert_eq(packed_layout_of(spec, &layout, NULL), FFN_OK);
    cr_assert_eq(formula_build(spec->activation, spec->accuracy, graph, NULL), FFN_OK);
    void *scratch = support_aligned(fallback_scratch_bytes(spec));
    memset(scratch, 0xff, fallback_scratch_bytes(spec));
    fallback_run(spec, &layout, graph, x, ldx, y, ldy, packed, scratch, 0, n);
    free(scratch);
    free(graph);
}
