/* tools_gdb.c: named parts -> an entry of the list that gdb reads (its "JIT compilation interface", version 1)
 *
 * gdb finds the two __jit_debug names in the symbol table of each object file by itself, stops whenever the function is
 * called, and reads the list behind the descriptor. So they are not exported: with exported ones the loader would merge
 * this list with that of another generator in the process (LLVM's), which has another lock. A libffn stripped of its
 * symbol table (`strip`, but not `strip --strip-debug`) is one whose code gdb does not name.
 *
 * The list is whole from its head on at every moment, even if a fork leaves another thread's change half done: it is
 * walked and changed by way of next_entry alone. */
#include "tools_code.h"

#include <stdlib.h>

#include "tools_elf.h"

/* Names, types and order are gdb's. */
typedef enum { JIT_NOACTION, JIT_REGISTER_FN, JIT_UNREGISTER_FN } jit_actions_t;

struct jit_code_entry {
    struct jit_code_entry *next_entry, *prev_entry;
    const char *symfile_addr;
    uint64_t symfile_size;
};

struct jit_descriptor {
    uint32_t version;
    uint32_t action_flag;
    struct jit_code_entry *relevant_entry, *first_entry;
};

struct tools_note {
    struct jit_code_entry entry;
    tools_elf file;
};

extern struct jit_descriptor __jit_debug_descriptor;
void __jit_debug_register_code(void);

__attribute__((used)) struct jit_descriptor __jit_debug_descriptor = {1, JIT_NOACTION, NULL, NULL};

/* Empty, and yet to be called: that is where gdb stops. */
__attribute__((noinline, used)) void __jit_debug_register_code(void) {
    __asm__ volatile("" ::: "memory");
}

static void tell(struct jit_code_entry *entry, jit_actions_t action) {
    __jit_debug_descriptor.relevant_entry = entry;
    __jit_debug_descriptor.action_flag = action;
    __jit_debug_register_code();
    __jit_debug_descriptor.action_flag = JIT_NOACTION;
    __jit_debug_descriptor.relevant_entry = NULL;
}

tools_note *tools_gdb_add(const tools_code *code) {
    tools_note *note = calloc(1, sizeof *note);
    if (note == NULL)
        return NULL;
    tools_elf_fill(code, &note->file);
    struct jit_code_entry *first = __jit_debug_descriptor.first_entry;
    note->entry = (struct jit_code_entry){
        .next_entry = first, .symfile_addr = (const char *)&note->file, .symfile_size = sizeof note->file};
    if (first != NULL)
        first->prev_entry = &note->entry;
    __jit_debug_descriptor.first_entry = &note->entry;
    tell(&note->entry, JIT_REGISTER_FN);
    return note;
}

void tools_gdb_remove(tools_note *note) {
    struct jit_code_entry **at = &__jit_debug_descriptor.first_entry, *before = NULL;
    while (*at != NULL && *at != &note->entry) {
        before = *at;
        at = &before->next_entry;
    }
    if (*at != NULL) {
        *at = note->entry.next_entry;
        if (*at != NULL)
            (*at)->prev_entry = before;
        tell(&note->entry, JIT_UNREGISTER_FN);
    }
    free(note);
}
