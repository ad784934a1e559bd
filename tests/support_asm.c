/* support_asm.c: see support_asm.h
 *
 * A loop is a branch back to a label; it is innermost if no other branch back lies inside. */
#define _GNU_SOURCE
#include "support_asm.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct line {
    const char *text;
    int length;
} line;

static bool holds(const line *l, const char *word) {
    size_t n = strlen(word);
    for (int i = 0; i + (int)n <= l->length; i++)
        if (!memcmp(l->text + i, word, n))
            return true;
    return false;
}

static bool is_label(const line *l) {
    return l->length > 1 && memchr(l->text, ':', (size_t)l->length) && !isspace((unsigned char)l->text[0]);
}

static bool is_instruction(const line *l) {
    return l->length > 1 && l->text[0] == '\t' && isalpha((unsigned char)l->text[1]);
}

/* The line of the label that a branch on this line goes to; -1 for any other line. */
static int branch_target(const line *lines, int at) {
    const line *l = &lines[at];
    bool x86 = is_instruction(l) && l->text[1] == 'j';
    bool arm = is_instruction(l) && (!strncmp(l->text + 1, "b.", 2) || !strncmp(l->text + 1, "cb", 2) ||
                                     !strncmp(l->text + 1, "tb", 2) || !strncmp(l->text + 1, "b\t", 2));
    const char *label = x86 || arm ? memmem(l->text, (size_t)l->length, ".LBB", 4) : NULL;
    if (!label)
        return -1;
    int length = (int)(l->text + l->length - label);
    for (int i = 0; i < at; i++)
        if (is_label(&lines[i]) && lines[i].length > length && !memcmp(lines[i].text, label, (size_t)length) &&
            lines[i].text[length] == ':')
            return i;
    return -1;
}

int asm_loops(const char *text, size_t bytes, void (*visit)(const asm_loop *loop, void *self), void *self) {
    int count = 0, found = 0;
    for (size_t i = 0; i < bytes; i++)
        count += text[i] == '\n';
    line *lines = calloc((size_t)count + 1, sizeof *lines);
    if (!lines)
        return 0;
    const char *at = text;
    for (int i = 0; i < count; i++) {
        const char *end = memchr(at, '\n', (size_t)(text + bytes - at));
        lines[i] = (line){at, (int)(end - at)};
        at = end + 1;
    }
    char function[64] = "";
    bool framed = false; /* else %rbp is a register like others */
    for (int i = 0, last_back = -1; i < count; i++) {
        if (is_label(&lines[i]) && lines[i].text[0] != '.') {
            snprintf(function, sizeof function, "%.*s", lines[i].length - 1, lines[i].text);
            framed = false;
        }
        framed = framed || holds(&lines[i], "%rsp, %rbp");
        int first = branch_target(lines, i);
        if (first < 0)
            continue;
        bool innermost = last_back < first;
        last_back = i;
        if (!innermost)
            continue;
        asm_loop loop = {.fmas = 0};
        memcpy(loop.function, function, sizeof function);
        for (int j = first; j <= i; j++) {
            if (!is_instruction(&lines[j]))
                continue;
            loop.instructions++;
            loop.fmas += holds(&lines[j], "fmadd") || holds(&lines[j], "fnmadd") || holds(&lines[j], "fmla");
            loop.stack += holds(&lines[j], "(%rsp") || (framed && holds(&lines[j], "(%rbp")) || holds(&lines[j], "[sp");
            loop.zmm += holds(&lines[j], "%zmm");
            loop.ymm += holds(&lines[j], "%ymm");
        }
        if (loop.fmas) {
            visit(&loop, self);
            found++;
        }
    }
    free(lines);
    return found;
}
