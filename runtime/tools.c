/* tools.c: a mapped image -> its named parts -> whoever was asked for
 *
 * One lock guards the perf map and gdb's list. A fork may happen while another thread holds it: the child, which has
 * not that thread, starts with a new lock, and what the lock guards is whole at every moment (see tools_gdb.c). */
#include "tools.h"

#include <pthread.h>
#include <stdlib.h>

#include "isa.h"
#include "tools_code.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void renew_lock(void) {
    pthread_mutex_init(&lock, NULL);
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, renew_lock);
}

static int by_address(const void *a, const void *b) {
    uint64_t left = ((const tools_part *)a)->address, right = ((const tools_part *)b)->address;
    return left < right ? -1 : left > right;
}

static tools_part part_at(const image *mapped, int which, uint64_t offset) {
    tools_part part = {.address = (uint64_t)(uintptr_t)mapped->base + offset};
    symbol_name(&mapped->header->spec, &mapped->header->plan, which, part.name);
    return part;
}

/* A part ends where the next begins; the image knows no more. */
void tools_code_of(const image *mapped, tools_code *code) {
    const image_header *header = mapped->header;
    const isa_row *isa = isa_row_of((ffn_isa)header->isa);
    tools_part all[SYMBOL_PARTS] = {part_at(mapped, SYMBOL_TILES, header->text_offset)}; /* none begins before it */
    for (int e = 0; e < IMAGE_ENTRIES; e++)
        all[1 + e] = part_at(mapped, e, header->entries[e]);
    qsort(all + 1, IMAGE_ENTRIES, sizeof all[0], by_address);
    *code = (tools_code){
        .arch = isa != NULL ? isa->arch : FFN_ARCH_OTHER, .address = all[0].address, .bytes = header->text_bytes};
    for (int p = 0; p < SYMBOL_PARTS; p++) {
        uint64_t end = p + 1 < SYMBOL_PARTS ? all[p + 1].address : code->address + code->bytes;
        all[p].bytes = end - all[p].address;
        if (all[p].bytes != 0)
            code->parts[code->count++] = all[p];
    }
}

tools_note *tools_register(uint32_t tools, const image *mapped) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if ((tools & (FFN_TOOL_PERF_MAP | FFN_TOOL_GDB)) == 0 || mapped == NULL || mapped->base == NULL)
        return NULL;
    pthread_once(&once, watch_forks);
    tools_code code;
    tools_code_of(mapped, &code);
    tools_note *note = NULL;
    pthread_mutex_lock(&lock);
    if (tools & FFN_TOOL_PERF_MAP)
        tools_perf_write(&code);
    if (tools & FFN_TOOL_GDB)
        note = tools_gdb_add(&code);
    pthread_mutex_unlock(&lock);
    return note;
}

void tools_unregister(tools_note *note) {
    if (note == NULL)
        return;
    pthread_mutex_lock(&lock);
    tools_gdb_remove(note);
    pthread_mutex_unlock(&lock);
}
