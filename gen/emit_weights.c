/* emit_weights.c: packed weights -> assembly lines that put them into read-only data (emit.h)
 *
 *     .ifndef .L<symbol>                        a second copy in one file is passed over
 *     .pushsection .rodata.<symbol>, group      copies in several files are one at the end
 *     .octa or .incbin
 *     .endif
 *
 * .octa is the smallest text and takes the least memory (docs/packed.md). A file that is longer or shorter than the
 * weights is refused by the assembler: by its own .incbin, which is told how much to read, by .space, whose size
 * becomes negative where an assembler gives less without a word, and by .org, which cannot go back. The one byte more
 * keeps assemblers from warning of a .space of nothing.
 */
#include "emit_weights.h"

#include <stdio.h>
#include <string.h>

#include "emit.h"

enum { OCTA_BYTES = 16, LINE_BYTES = 3 * OCTA_BYTES }; /* as many as a line of 120 columns holds */

/* As an assembler's string has it, each backslash of which a C string doubles. */
static void put_name(const char *file, bool in_c, text *to) {
    const char *backslash = in_c ? "\\\\" : "\\";
    for (; *file; file++) {
        const unsigned char c = (unsigned char)*file;
        if (c < 0x20 || c == 0x7f) {
            text_print(to, "%s%03o", backslash, c);
            continue;
        }
        if (c == '"' || c == '\\')
            text_put(to, backslash);
        if (in_c && (c == '"' || c == '\\'))
            text_put(to, "\\");
        text_add(to, file, 1);
    }
}

void emit_weights_name(const char *file, text *to) {
    put_name(file, true, to);
}

/* Sixteen bytes as the number that a little-endian machine keeps as these bytes; its leading zeros are left out. */
static size_t put_octa(const unsigned char *bytes, char *to) {
    static const char digits[] = "0123456789abcdef";
    int last = OCTA_BYTES - 1;
    while (last > 0 && bytes[last] == 0)
        last--;
    char *at = to;
    *at++ = '0';
    *at++ = 'x';
    for (; last >= 0; last--) {
        *at++ = digits[bytes[last] >> 4];
        *at++ = digits[bytes[last] & 15];
    }
    return (size_t)(at - to);
}

/* `bytes` is a multiple of 16: each part of a block is one of 64. */
static void put_data(const unsigned char *data, size_t bytes, text *to) {
    for (size_t begin = 0; begin < bytes; begin += LINE_BYTES) {
        char line[8 + 3 * (2 * OCTA_BYTES + 3)] = ".octa ";
        size_t used = strlen(line);
        for (size_t at = begin; at < begin + LINE_BYTES && at < bytes; at += OCTA_BYTES) {
            if (at != begin)
                line[used++] = ',';
            used += put_octa(data + at, line + used);
        }
        line[used++] = '\n';
        text_add(to, line, used);
    }
}

static void put_file(const char *file, const char *symbol, size_t bytes, text *to) {
    text_put(to, ".incbin \"");
    put_name(file, false, to);
    text_print(to, "\",0,%zu\n.incbin \"", bytes);
    put_name(file, false, to);
    text_print(to, "\",%zu\n.L%s_end:\n.space (.L%s_end-%s-%zu)*4096+1\n.org %s+%zu+1\n", bytes, symbol, symbol, symbol,
               bytes, symbol, bytes);
}

void emit_weights_symbol(const emit_kernel *kernel, char name[EMIT_SYMBOL_BYTES]) {
    snprintf(name, EMIT_SYMBOL_BYTES, "%s_packed_%08x", kernel->symbol, (unsigned)kernel->weights_checksum);
}

void emit_weights(const emit_kernel *kernel, text *to) {
    char symbol[EMIT_SYMBOL_BYTES];
    if (!kernel->weights && !kernel->weights_file)
        return;
    emit_weights_symbol(kernel, symbol);
    text_print(to, ".ifndef .L%s\n.set .L%s,0\n", symbol, symbol);
    text_print(to, ".pushsection .rodata.%s,\"aG\",@progbits,%s,comdat\n", symbol, symbol);
    text_print(to, ".p2align 6\n.weak %s\n.hidden %s\n.type %s,@object\n", symbol, symbol, symbol);
    text_print(to, ".size %s,%zu\n%s:\n", symbol, kernel->weights_bytes, symbol);
    if (kernel->weights_file)
        put_file(kernel->weights_file, symbol, kernel->weights_bytes, to);
    else
        put_data(kernel->weights, kernel->weights_bytes, to);
    text_put(to, ".popsection\n.endif\n");
}
