/* emit_assembly.c: a job -> one assembly file with the kernels of all its specs and ISAs, the object of it, or a
 * library with an object for each spec (emit.h) */
#include <stdio.h>
#include <stdlib.h>

#include "diag.h"
#include "emit_archive.h"
#include "emit_asm.h"
#include "ffngen.h"
#include "object.h"

/* Kernels are of one architecture; FFN_ISA_AUTO cannot be met here. */
static ffn_status arch_of(const emit_job *job, ffn_arch *arch, ffn_diag *diag) {
    const isa_row *first = NULL;
    for (int32_t i = 0; i < job->isa_count; i++) {
        const isa_row *row = isa_row_of(job->isas[i]);
        if (!row)
            return diag_fail(diag, FFN_BAD_ARGUMENT, "no assembly is generated for the ISA %s",
                             ffn_isa_name(job->isas[i]));
        if (first && row->arch != first->arch)
            return diag_fail(diag, FFN_BAD_ARGUMENT, "%s and %s are of two architectures: one file cannot hold both",
                             first->name, row->name);
        first = row;
    }
    if (!first)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "an ISA that code is generated for is needed: avx2, avx512 or neon");
    *arch = first->arch;
    return FFN_OK;
}

/* The stack need not be executable; what all of the code has of IBT and SHSTK, or of BTI and PAC. */
static void write_notes(ffn_arch arch, uint32_t features, text *to) {
    const unsigned property = arch == FFN_ARCH_X86_64 ? 0xc0000002U : 0xc0000000U;
    text_put(to, ".section .note.GNU-stack,\"\",@progbits\n");
    if (features)
        text_print(to,
                   ".section .note.gnu.property,\"a\",@note\n.p2align 3\n.long 4,16,5\n.asciz \"GNU\"\n"
                   ".long 0x%x,4,0x%x,0\n",
                   property, features);
}

ffn_status emit_assembly(const emit_job *job, ffn_bytes *assembly, ffn_diag *diag) {
    ffn_arch arch;
    ffn_status status = arch_of(job, &arch, diag);
    if (status)
        return status;
    text to = {.data = NULL};
    uint32_t features = UINT32_MAX;
    text_print(&to, "/* Kernels for feed-forward networks, made by ffngen %s with LLVM %s. */\n", ffngen_version(),
               ffngen_llvm_version());
    for (int32_t k = 0; k < job->kernel_count && !status; k++)
        for (int32_t i = 0; i < job->isa_count && !status; i++)
            status = emit_unit_bare(&job->kernels[k], job->isas[i], &to, &features, diag);
    write_notes(arch, job->kernel_count ? features : 0, &to);
    if (!status)
        return text_take(&to, assembly, diag);
    text_free(&to);
    return status;
}

ffn_status emit_object(const emit_job *job, ffn_bytes *object, ffn_diag *diag) {
    ffn_arch arch;
    ffn_bytes assembly = {.data = NULL};
    ffn_status status = arch_of(job, &arch, diag);
    status = status ? status : emit_assembly(job, &assembly, diag);
    status = status ? status : object_assemble(arch, assembly.data, assembly.bytes, object, diag);
    free(assembly.data);
    return status;
}

typedef struct member_name {
    char name[EMIT_NAME_BYTES + 4];
} member_name;

ffn_status emit_library(const emit_job *job, ffn_bytes *library, ffn_diag *diag) {
    const size_t count = (size_t)job->kernel_count;
    emit_member *members = calloc(count + 1, sizeof *members);
    member_name *names = calloc(count + 1, sizeof *names);
    ffn_status status =
        members && names ? FFN_OK : diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the objects of a library");
    for (size_t i = 0; i < count && !status; i++) {
        emit_job one = *job;
        one.kernels = &job->kernels[i];
        one.kernel_count = 1;
        snprintf(names[i].name, sizeof names[i].name, "%s.o", one.kernels->symbol);
        members[i].name = names[i].name;
        status = emit_object(&one, &members[i].object, diag);
    }
    status = status ? status : emit_archive(members, count, library, diag);
    for (size_t i = 0; members && i < count; i++)
        free(members[i].object.data);
    free(members);
    free(names);
    return status;
}
