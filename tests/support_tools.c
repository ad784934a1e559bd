/* support_tools.c: see support_tools.h */
#include "support_tools.h"

#include <criterion/criterion.h>
#include <string.h>

#include "support_data.h"

extern struct gdb_descriptor __jit_debug_descriptor;

void support_tools_image_make(ffn_isa isa, uint64_t base, support_tools_image *made) {
    ffn_machine machine;
    memset(made, 0, sizeof *made);
    made->header.spec = support_spec(SUPPORT_TOOLS_SPEC);
    cr_assert_eq(ffn_machine_generic(isa, &machine, NULL), FFN_OK);
    cr_assert_eq(ffn_plan_make(&made->header.spec, isa, FFN_N_17_UP, &machine, &made->header.plan, NULL), FFN_OK);
    made->header.isa = isa;
    made->header.text_offset = IMAGE_ALIGN;
    made->header.text_bytes = 0x380;
    made->header.entries[IMAGE_FUSED] = IMAGE_ALIGN + 0x100;
    made->header.entries[IMAGE_EXPAND] = IMAGE_ALIGN + 0x180;
    made->header.entries[IMAGE_CONTRACT] = IMAGE_ALIGN + 0x200;
    made->header.entries[IMAGE_ACTIVATE] = IMAGE_ALIGN + 0x300;
    made->image.header = &made->header;
    memcpy(&made->image.base, &base, sizeof made->image.base);
    made->image.mapped_bytes = 2 * IMAGE_ALIGN;
}

const struct gdb_code_entry *support_gdb_first(void) {
    return __jit_debug_descriptor.first_entry;
}

int support_gdb_count(void) {
    int count = 0;
    const struct gdb_code_entry *before = NULL;
    for (const struct gdb_code_entry *e = support_gdb_first(); e != NULL; before = e, e = e->next_entry, count++)
        cr_assert_eq(e->prev_entry, before);
    cr_assert_eq(__jit_debug_descriptor.version, 1);
    cr_assert_eq(__jit_debug_descriptor.action_flag, 0);
    return count;
}
