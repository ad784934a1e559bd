/* machine_text.c: see machine_text.h
 *
 * A field is a row of one table. Ranges are wide enough for any machine that runs a kernel, and narrow enough to catch
 * a unit that was left out or put in twice. */
#define _POSIX_C_SOURCE 200809L /* strtok_r */
#include "machine_text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag.h"
#include "replace.h"
#include "text_file.h"

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define FILE_BYTES_MAX ((size_t)64 << 10)

typedef enum field_kind { SIZE, RATE } field_kind;

/* Of rates, the least is more than the fastest core of these years does in 10^9 a second, and the most less than a slow
 * one does in 10^3: numbers in these units are out of range. */
static const struct {
    const char *name;
    size_t offset;
    int64_t least, most;
    field_kind kind;
    const char *unit;
    bool none; /* 0 as well: there is no such thing */
} fields[] = {
    {"l1_bytes", offsetof(ffn_machine, l1_bytes), 4 * KIB, 4 * MIB, SIZE, "bytes", false},
    {"l2_bytes", offsetof(ffn_machine, l2_bytes), 32 * KIB, 1024 * MIB, SIZE, "bytes", false},
    {"l3_bytes", offsetof(ffn_machine, l3_bytes), 256 * KIB, 65536 * MIB, SIZE, "bytes", true},
    {"fma_mflops", offsetof(ffn_machine, fma_mflops), 500, 4000000, RATE, "10^6 operations a second", false},
    {"l1_mbs", offsetof(ffn_machine, l1_mbs), 1000, 8000000, RATE, "10^6 bytes a second", false},
    {"l2_mbs", offsetof(ffn_machine, l2_mbs), 500, 4000000, RATE, "10^6 bytes a second", false},
    {"l3_mbs", offsetof(ffn_machine, l3_mbs), 250, 2000000, RATE, "10^6 bytes a second", true},
    {"memory_mbs", offsetof(ffn_machine, memory_mbs), 200, 1000000, RATE, "10^6 bytes a second", false},
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* A level is never faster than this times the one nearer to the core, however noisy the measurement. */
enum { FASTER_MOST = 2 };

static int64_t *place(ffn_machine *machine, int i) {
    return (int64_t *)(void *)((char *)machine + fields[i].offset);
}

static const char *name_at(size_t i) {
    return i < FIELDS ? fields[i].name : NULL;
}

static ffn_status check_field(int i, int64_t value, ffn_diag *diag) {
    if ((value >= fields[i].least && value <= fields[i].most) || (fields[i].none && value == 0))
        return FFN_OK;
    return diag_fail(diag, FFN_BAD_ARGUMENT, "%s %" PRId64 ": it must be %" PRId64 " .. %" PRId64 " %s%s",
                     fields[i].name, value, fields[i].least, fields[i].most, fields[i].unit,
                     fields[i].none ? ", or 0 for none" : "");
}

static bool has_rates(const ffn_machine *machine) {
    return machine->fma_mflops || machine->l1_mbs || machine->l2_mbs || machine->l3_mbs || machine->memory_mbs;
}

static ffn_status check_rates(const ffn_machine *machine, ffn_diag *diag) {
    if (!has_rates(machine))
        return FFN_OK;
    if ((machine->l3_mbs == 0) != (machine->l3_bytes == 0))
        return diag_fail(diag, FFN_BAD_ARGUMENT,
                         "l3_mbs %" PRId64 " with l3_bytes %" PRId64 ": either both are 0 or none is", machine->l3_mbs,
                         machine->l3_bytes);
    const int64_t rates[] = {machine->l1_mbs, machine->l2_mbs, machine->l3_mbs, machine->memory_mbs};
    int64_t nearer = rates[0];
    for (int i = 1; i < (int)(sizeof rates / sizeof *rates); i++) {
        if (rates[i] > FASTER_MOST * nearer)
            return diag_fail(diag, FFN_BAD_ARGUMENT,
                             "a level of %" PRId64 " behind one of %" PRId64
                             " (10^6 bytes a second): what is farther away is not faster",
                             rates[i], nearer);
        nearer = rates[i] ? rates[i] : nearer;
    }
    return FFN_OK;
}

static ffn_status check_whole(const ffn_machine *machine, ffn_diag *diag) {
    if (machine->l1_bytes < machine->l2_bytes && (machine->l3_bytes == 0 || machine->l2_bytes < machine->l3_bytes))
        return check_rates(machine, diag);
    return diag_fail(diag, FFN_BAD_ARGUMENT,
                     "caches of %" PRId64 ", %" PRId64 " and %" PRId64 " bytes: each must be larger than the last",
                     machine->l1_bytes, machine->l2_bytes, machine->l3_bytes);
}

/* One line without comment -> a field; an empty one is none. */
static ffn_status parse_line(char *line, ffn_machine *machine, bool seen[FIELDS], ffn_diag *diag) {
    static const char blanks[] = " \t";
    char *rest = line, *name = strtok_r(line, blanks, &rest), *value = strtok_r(NULL, blanks, &rest);
    if (name == NULL)
        return FFN_OK;
    for (int i = 0; i < FIELDS; i++) {
        if (strcmp(name, fields[i].name) != 0)
            continue;
        if (seen[i])
            return diag_fail(diag, FFN_BAD_FILE, "%s stands there twice", name);
        int64_t number;
        if (value == NULL || strtok_r(NULL, blanks, &rest) != NULL || !text_fixed_parse(value, 0, INT64_MAX, &number))
            return diag_fail(diag, FFN_BAD_FILE, "%s: it must be followed by one number, in %s and without unit", name,
                             fields[i].unit);
        seen[i] = true;
        *place(machine, i) = number;
        return check_field(i, number, diag);
    }
    char near[64];
    diag_near_names(name, name_at, near, sizeof near);
    return diag_fail(diag, FFN_BAD_FILE, "\"%.40s\" is no field of a machine%s", name, near);
}

static ffn_status parse(char *text, const char *label, ffn_machine *machine, ffn_diag *diag) {
    ffn_machine read = {0};
    bool seen[FIELDS] = {false};
    ffn_diag detail;
    for (int number = 1; text != NULL; number++) {
        bool ended;
        char *line = text_file_line(&text, &ended);
        line[strcspn(line, "#")] = '\0';
        if (parse_line(line, &read, seen, &detail) != FFN_OK)
            return diag_fail(diag, FFN_BAD_FILE, "%s, line %d: %s", label, number, detail.text);
    }
    bool rates = false; /* one without the others is what is left of a file that was cut short */
    for (int i = 0; i < FIELDS; i++)
        rates = rates || (seen[i] && fields[i].kind == RATE);
    for (int i = 0; i < FIELDS; i++)
        if (!seen[i] && (fields[i].kind == SIZE || rates))
            return diag_fail(diag, FFN_BAD_FILE, "%s: %s is missing%s%s", label, fields[i].name,
                             fields[i].kind == RATE ? ": rates are given all together or not at all" : "",
                             fields[i].none ? " (0 for none)" : "");
    if (check_whole(&read, &detail) != FFN_OK)
        return diag_fail(diag, FFN_BAD_FILE, "%s: %s", label, detail.text);
    *machine = read;
    return FFN_OK;
}

ffn_status machine_file_find(const char *path, ffn_machine *machine, bool *missing, ffn_diag *diag) {
    char *text = NULL;
    ffn_status status = text_file_read(path, FILE_BYTES_MAX, &text, missing, diag);
    if (status == FFN_OK)
        status = parse(text, replace_label(path), machine, diag);
    free(text);
    return status;
}

ffn_status machine_file_read(const char *path, ffn_machine *machine, ffn_diag *diag) {
    return machine_file_find(path, machine, NULL, diag);
}

ffn_status machine_format(const ffn_machine *machine, char text[MACHINE_TEXT_BYTES], ffn_diag *diag) {
    static const char *const titles[] = {
        [SIZE] = "# what plans are made for: data caches that one core can use\n",
        [RATE] = "# what one core was measured to do: multiply-adds from registers, reading from each level\n",
    };
    ffn_machine copy = *machine;
    const bool rates = has_rates(machine);
    ffn_status status = check_whole(machine, diag);
    for (int i = 0; i < FIELDS && status == FFN_OK; i++)
        if (fields[i].kind == SIZE || rates)
            status = check_field(i, *place(&copy, i), diag);
    if (status != FFN_OK)
        return status;
    size_t at = 0;
    for (int i = 0; i < FIELDS; i++) {
        if (fields[i].kind == RATE && !rates)
            continue;
        const bool first = i == 0 || fields[i].kind != fields[i - 1].kind;
        at += (size_t)snprintf(text + at, MACHINE_TEXT_BYTES - at, "%s%s %" PRId64 "\n",
                               first ? titles[fields[i].kind] : "", fields[i].name, *place(&copy, i));
    }
    return FFN_OK;
}
