/* machine.c: what the system says of its caches -> an ffn_machine
 *
 * Invariant: 8 KiB <= l1 < l2, and l3 is 0 or l2 < l3 <= 1 GiB, whatever the system says. /sys goes first: it describes
 * the cache that one core sees, where sysconf in virtual machines gives the sum over the host. */
#include "machine.h"

#include "diag.h"
#include "isa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEVELS = 3, INDICES_MAX = 16 };

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)

/* Sizes outside of the range are taken as not reported. */
static const struct {
    int64_t min, max, usual;
    int64_t sysconf_max; /* more than this from sysconf is the sum of several caches */
} levels[LEVELS] = {
    {8 * KIB, 512 * KIB, 32 * KIB, 512 * KIB},
    {64 * KIB, 64 * MIB, 512 * KIB, 64 * MIB},
    {512 * KIB, 1024 * MIB, 8 * MIB, 32 * MIB},
};

/* The first word of a small file; false if there is none. */
static bool read_word(const char *folder, int index, const char *file, char word[32]) {
    char path[512];
    int length = snprintf(path, sizeof path, "%s/index%d/%s", folder, index, file);
    if (length < 0 || (size_t)length >= sizeof path)
        return false;
    FILE *stream = fopen(path, "re");
    if (!stream)
        return false;
    bool found = fscanf(stream, "%31s", word) == 1;
    fclose(stream);
    return found;
}

/* "32K" -> 32768; 0 for what is no size. */
static int64_t parse_size(const char *text) {
    static const char units[] = "KMG";
    if (*text < '0' || *text > '9')
        return 0;
    char *end;
    long long value = strtoll(text, &end, 10);
    if (value < 0 || value > 1024 * MIB)
        return 0;
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit)
        end++;
    return *end ? 0 : (int64_t)value << (unit ? 10 * (unit - units + 1) : 0);
}

static bool in_range(int level, int64_t bytes) {
    return bytes >= levels[level].min && bytes <= levels[level].max;
}

/* bytes[level] of the data caches listed in the folder; 0 where it lists none in range. */
static void read_folder(const char *folder, int64_t bytes[LEVELS]) {
    for (int index = 0; index < INDICES_MAX; index++) {
        char level_text[32], type[32], size[32];
        if (!read_word(folder, index, "level", level_text) || !read_word(folder, index, "type", type) ||
            !read_word(folder, index, "size", size))
            continue;
        int level = level_text[0] - '1';
        if (level_text[1] || level < 0 || level >= LEVELS || strcmp(type, "Instruction") == 0)
            continue;
        int64_t value = parse_size(size);
        if (in_range(level, value))
            bytes[level] = value;
    }
}

void machine_read_from(const char *folder, const int64_t sysconf_bytes[3], ffn_machine *machine) {
    int64_t bytes[LEVELS] = {0};
    read_folder(folder, bytes);
    bool listed = bytes[0] && bytes[1]; /* then a third level that is not listed is not there */
    for (int level = 0; level < LEVELS; level++) {
        int64_t said = sysconf_bytes[level];
        if (bytes[level] == 0 && !(level == 2 && listed) && in_range(level, said))
            bytes[level] = said < levels[level].sysconf_max ? said : levels[level].sysconf_max;
        if (bytes[level] == 0 && !(level == 2 && listed))
            bytes[level] = levels[level].usual;
    }
    if (bytes[1] <= bytes[0]) {
        bytes[0] = levels[0].usual;
        bytes[1] = levels[1].usual;
    }
    if (bytes[2] <= bytes[1])
        bytes[2] = 0;
    *machine = (ffn_machine){.l1_bytes = bytes[0], .l2_bytes = bytes[1], .l3_bytes = bytes[2]};
}

void ffn_machine_read(ffn_machine *machine) {
    int64_t sysconf_bytes[LEVELS] = {0};
#ifdef _SC_LEVEL1_DCACHE_SIZE
    sysconf_bytes[0] = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    sysconf_bytes[1] = sysconf(_SC_LEVEL2_CACHE_SIZE);
    sysconf_bytes[2] = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    machine_read_from("/sys/devices/system/cpu/cpu0/cache", sysconf_bytes, machine);
}

ffn_status ffn_machine_generic(ffn_isa isa, ffn_machine *machine, ffn_diag *diag) {
    if (!machine)
        return diag_fail(diag, FFN_BAD_ARGUMENT, "ffn_machine_generic: machine is NULL");
    const isa_row *row = isa_row_of(isa);
    if (!row) {
        const char *name = ffn_isa_name(isa);
        return diag_fail(diag, isa == FFN_ISA_PORTABLE ? FFN_UNSUPPORTED : FFN_BAD_ARGUMENT,
                         "ISA %s has no generic machine: name one that code is generated for (ffn_isa_name lists them)",
                         name ? name : "(no such number)");
    }
    *machine =
        (ffn_machine){.l1_bytes = row->l1_kib * KIB, .l2_bytes = row->l2_kib * KIB, .l3_bytes = row->l3_kib * KIB};
    return FFN_OK;
}
