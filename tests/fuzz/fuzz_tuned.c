/* fuzz_tuned.c: any bytes as a tuned table: an error that says something, or records that are written and read back as
 * they are. */
#define _GNU_SOURCE
#include "fuzz.h"
#include "tuned.h"
#include "tuned_line.h"

#include <sys/mman.h>
#include <unistd.h>

static char saved[64];

static void expect_same(const tuned *a, const tuned *b) {
    ffn_diag diag;
    for (size_t i = 0;; i++) {
        const tuned_record *of_a = tuned_at(a, i), *of_b = tuned_at(b, i);
        FUZZ_CHECK(!of_a == !of_b);
        if (!of_a)
            return;
        char line_a[TUNED_LINE_BYTES], line_b[TUNED_LINE_BYTES];
        FUZZ_CHECK(tuned_line_format(of_a, line_a, &diag) == FFN_OK &&
                   tuned_line_format(of_b, line_b, &diag) == FFN_OK);
        FUZZ_CHECK(strcmp(line_a, line_b) == 0);
    }
}

static void remove_saved(void) {
    unlink(saved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    ffn_diag diag = {0};
    tuned *table = NULL, *again = NULL;
    if (!*saved) {
        snprintf(saved, sizeof saved, "/tmp/fuzz_tuned_%ld", (long)getpid());
        atexit(remove_saved);
    }
    const int file = memfd_create("tuned", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const ffn_status status = tuned_load(path, &table, &diag);
    close(file);
    if (status != FFN_OK) {
        FUZZ_CHECK(*diag.text);
        return 0;
    }
    FUZZ_CHECK(tuned_save(table, saved, &diag) == FFN_OK && tuned_load(saved, &again, &diag) == FFN_OK);
    expect_same(table, again);
    tuned_free(table);
    tuned_free(again);
    return 0;
}
