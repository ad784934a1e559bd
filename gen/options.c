/* options.c: getopt_long over a table, with messages of our own */
#define _GNU_SOURCE
#include "options.h"

#include "diag.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_BASE 256 /* getopt's values for rows of the table: beyond every letter */

/* diag_near_names asks for names by number alone. */
static _Thread_local const option_row *names_table;
static _Thread_local const char *const *names_choices;

static const char *option_name_at(size_t i) {
    return names_table[i].name;
}

static const char *choice_at(size_t i) {
    return names_choices[i];
}

/* "-o, --output FILE"; returns its length. */
static int option_form(const option_row *row, char *form, size_t form_bytes) {
    int length = row->letter ? snprintf(form, form_bytes, "-%c, ", row->letter) : 0;
    return length + snprintf(form + length, form_bytes - (size_t)length, "--%s%s%s", row->name,
                             row->argument ? " " : "", row->argument ? row->argument : "");
}

static void print_help(const cmd *command, const option_row *table) {
    printf("usage: ffngen %s %s\n\n%s\n", command->name, command->arguments, command->summary);
    if (command->details)
        printf("%s", command->details);
    printf("\noptions:\n");
    char form[64];
    int width = 0;
    for (const option_row *row = table; row->name; row++) {
        int length = option_form(row, form, sizeof form);
        width = length > width ? length : width;
    }
    for (const option_row *row = table; row->name; row++) {
        option_form(row, form, sizeof form);
        printf("  %-*s  %s\n", width, form, row->help);
    }
    printf("  %-*s  %s\n", width, "-h, --help", "this text");
}

static int bad_count(const cmd *command, const char *name, const char *text, int64_t least) {
    return cmd_error(command, CMD_USAGE, "--%s: '%s' is not a whole number from %lld to %lld", name, text,
                     (long long)least, (long long)INT32_MAX);
}

/* Row counts and the like: decimal digits alone, so that "1e3", "0x10" and " 5" are no surprise. */
static bool parse_count(const char *text, size_t length, int64_t least, int64_t *value) {
    int64_t total = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        total = total * 10 + (text[i] - '0');
        if (total > INT32_MAX)
            return false;
    }
    *value = total;
    return length > 0 && total >= least;
}

static int parse_counts(const cmd *command, const char *name, const char *text, option_counts *counts) {
    counts->count = 0;
    for (const char *item = text;; item++) {
        size_t length = strcspn(item, ",");
        char shown[32];
        snprintf(shown, sizeof shown, "%.*s", (int)(length < sizeof shown ? length : sizeof shown - 1), item);
        if (length == 0)
            return cmd_error(command, CMD_USAGE, "--%s: '%s' has an empty item; a list is like 1,16,128", name, text);
        if (counts->count == OPTION_COUNTS_MAX)
            return cmd_error(command, CMD_USAGE, "--%s: more than %d items", name, OPTION_COUNTS_MAX);
        if (!parse_count(item, length, 1, &counts->values[counts->count++]))
            return bad_count(command, name, shown, 1);
        item += length;
        if (!*item)
            return CMD_OK;
    }
}

static int parse_value(const cmd *command, const option_row *row, const char *text) {
    ffn_diag diag;
    char near[192], *end;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)row->value = true;
        return CMD_OK;
    case OPTION_TEXT:
        if (!*text)
            return cmd_error(command, CMD_USAGE, "--%s: the value is empty", row->name);
        *(const char **)row->value = text;
        return CMD_OK;
    case OPTION_COUNT:
    case OPTION_INDEX: {
        int64_t least = row->kind == OPTION_COUNT;
        return parse_count(text, strlen(text), least, row->value) ? CMD_OK : bad_count(command, row->name, text, least);
    }
    case OPTION_COUNTS:
        return parse_counts(command, row->name, text, row->value);
    case OPTION_SECONDS: {
        errno = 0;
        double seconds = strtod(text, &end);
        if (errno || end == text || *end || !(seconds > 0 && seconds <= 86400))
            return cmd_error(command, CMD_USAGE, "--%s: '%s' is not a number of seconds above 0", row->name, text);
        *(double *)row->value = seconds;
        return CMD_OK;
    }
    case OPTION_ISA:
        if (ffn_isa_parse(text, row->value, &diag))
            return cmd_error(command, CMD_USAGE, "--%s: %s", row->name, diag.text);
        return CMD_OK;
    case OPTION_CHOICE:
        for (int i = 0; row->choices[i]; i++) {
            if (!strcmp(row->choices[i], text)) {
                *(int *)row->value = i;
                return CMD_OK;
            }
        }
        names_choices = row->choices;
        diag_near_names(text, choice_at, near, sizeof near);
        return cmd_error(command, CMD_USAGE, "--%s: '%s' is not one of %s%s", row->name, text, row->argument, near);
    }
    return CMD_USAGE;
}

/* getopt has told the letter where it was one: what it was part of ("-json") has no place that is known. */
static int unknown_option(const cmd *command, const option_row *table, const char *given, int letter) {
    if (letter)
        return cmd_error(command, CMD_USAGE, "unknown option '-%c': names of more letters follow two dashes", letter);
    char near[192], name[64];
    snprintf(name, sizeof name, "%s", given + strspn(given, "-"));
    name[strcspn(name, "=")] = '\0';
    names_table = table;
    diag_near_names(name, option_name_at, near, sizeof near);
    return cmd_error(command, CMD_USAGE, "unknown or ambiguous option '%s'%s", given, near);
}

bool options_parse(const cmd *command, const option_row *table, int argc, char **argv, int *operands, int *status) {
    bool given[OPTIONS_MAX];
    return options_parse_given(command, table, argc, argv, operands, status, given);
}

bool options_heeded(const cmd *command, const option_row *table, const bool given[OPTIONS_MAX], const char *heeded,
                    const char *rest) {
    for (int i = 0; i < OPTIONS_MAX && table[i].name; i++) {
        const size_t length = strlen(table[i].name);
        bool found = !given[i];
        for (const char *at = heeded; !found && *at; at += strcspn(at, ","), at += *at == ',')
            found = strcspn(at, ",") == length && !strncmp(at, table[i].name, length);
        if (found)
            continue;
        cmd_error(command, CMD_USAGE, "--%s would not be heeded: %s", table[i].name, rest);
        return false;
    }
    return true;
}

bool options_parse_given(const cmd *command, const option_row *table, int argc, char **argv, int *operands, int *status,
                         bool given[OPTIONS_MAX]) {
    struct option longs[OPTIONS_MAX + 2] = {0};
    memset(given, 0, OPTIONS_MAX * sizeof *given);
    char letters[2 * OPTIONS_MAX + 4] = ":h";
    int count = 0;
    for (; count < OPTIONS_MAX && table[count].name; count++) {
        const option_row *row = &table[count];
        int takes = row->kind == OPTION_FLAG ? no_argument : required_argument;
        longs[count] = (struct option){row->name, takes, NULL, LONG_BASE + count};
        size_t length = strlen(letters);
        if (row->letter)
            snprintf(letters + length, sizeof letters - length, "%c%s", row->letter, takes ? ":" : "");
    }
    longs[count] = (struct option){"help", no_argument, NULL, 'h'};

    opterr = 0;
    optind = 0; /* glibc: start anew */
    *status = CMD_USAGE;
    for (int found; (found = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
        if (found == 'h') {
            print_help(command, table);
            *status = CMD_OK;
            return false;
        }
        int i = (found == '?' || found == ':' ? optopt : found) - LONG_BASE;
        for (int row = 0; i < 0 && row < count; row++) {
            if (table[row].letter && table[row].letter == i + LONG_BASE)
                i = row;
        }
        if (found == ':') {
            *status = cmd_error(command, CMD_USAGE, "--%s needs a value: %s", table[i].name, table[i].argument);
            return false;
        }
        if (found == '?') {
            *status = i >= 0 ? cmd_error(command, CMD_USAGE, "--%s takes no value", table[i].name)
                             : unknown_option(command, table, argv[optind - 1], optopt);
            return false;
        }
        if (given[i]) {
            *status = cmd_error(command, CMD_USAGE, "--%s is given twice", table[i].name);
            return false;
        }
        given[i] = true;
        *status = parse_value(command, &table[i], optarg);
        if (*status)
            return false;
    }
    *operands = optind;
    *status = CMD_OK;
    return true;
}
