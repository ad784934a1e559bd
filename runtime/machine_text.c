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

static const struct {
    const char *name;
    size_t offset;
    int64_t least, most;
    bool none; /* 0 as well: there is no such thing */
} fields[] = {
    {"l1_bytes", offsetof(ffn_machine, l1_bytes), 4 * KIB, 4 * MIB, false},
    {"l2_bytes", offsetof(ffn_machine, l2_bytes), 32 * KIB, 1024 * MIB, false},
    {"l3_bytes", offsetof(ffn_machine, l3_bytes), 256 * KIB, 65536 * MIB, true},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static int64_t *place(ffn_machine *machine, int i) {
    return (int64_t *)(void *)((char *)machine + fields[i].offset);
}

static const char *name_at(size_t i) {
    return i < FIELDS ? fields[i].name : NULL;
}

static ffn_status check_field(int i, int64_t value, ffn_diag *diag) {
    if ((value >= fields[i].least && value <= fields[i].most) || (fields[i].none && value == 0))
        return FFN_OK;
    return diag_fail(diag, FFN_BAD_ARGUMENT, "%s %" PRId64 ": it must be %" PRId64 " .. %" PRId64 "%s", fields[i].name,
                     value, fields[i].least, fields[i].most, fields[i].none ? ", or 0 for none" : "");
}

static ffn_status check_order(const ffn_machine *machine, ffn_diag *diag) {
    if (machine->l1_bytes < machine->l2_bytes && (machine->l3_bytes == 0 || machine->l2_bytes < machine->l3_bytes))
        return FFN_OK;
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
            return diag_fail(diag, FFN_BAD_FILE, "%s: it must be followed by one number, in bytes and without unit",
                             name);
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
    for (int i = 0; i < FIELDS; i++)
        if (!seen[i])
            return diag_fail(diag, FFN_BAD_FILE, "%s: %s is missing%s", label, fields[i].name,
                             fields[i].none ? " (0 for none)" : "");
    if (check_order(&read, &detail) != FFN_OK)
        return diag_fail(diag, FFN_BAD_FILE, "%s: %s", label, detail.text);
    *machine = read;
    return FFN_OK;
}

ffn_status machine_file_read(const char *path, ffn_machine *machine, ffn_diag *diag) {
    char *text = NULL;
    ffn_status status = text_file_read(path, FILE_BYTES_MAX, &text, NULL, diag);
    if (status == FFN_OK)
        status = parse(text, replace_label(path), machine, diag);
    free(text);
    return status;
}

ffn_status machine_format(const ffn_machine *machine, char text[MACHINE_TEXT_BYTES], ffn_diag *diag) {
    ffn_machine copy = *machine;
    ffn_status status = check_order(machine, diag);
    for (int i = 0; i < FIELDS && status == FFN_OK; i++)
        status = check_field(i, *place(&copy, i), diag);
    if (status != FFN_OK)
        return status;
    int at = snprintf(text, MACHINE_TEXT_BYTES, "# what plans are made for: data caches that one core can use\n");
    for (int i = 0; i < FIELDS; i++)
        at +=
            snprintf(text + at, MACHINE_TEXT_BYTES - (size_t)at, "%s %" PRId64 "\n", fields[i].name, *place(&copy, i));
    return FFN_OK;
}
