/* fuzz_machine.c: any bytes as a machine file: an error that says something, or a machine that is written and read back
 * as it is. */
#define _GNU_SOURCE
#include "fuzz.h"
#include "machine_text.h"

#include <sys/mman.h>
#include <unistd.h>

static ffn_status read_bytes(const void *data, size_t size, ffn_machine *machine, ffn_diag *diag) {
    char path[64];
    const int file = memfd_create("machine", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const ffn_status status = machine_file_read(path, machine, diag);
    close(file);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ffn_diag diag = {0};
    ffn_machine machine, again;
    char text[MACHINE_TEXT_BYTES];
    if (read_bytes(data, size, &machine, &diag) != FFN_OK) {
        FUZZ_CHECK(*diag.text);
        return 0;
    }
    FUZZ_CHECK(machine_format(&machine, text, &diag) == FFN_OK);
    FUZZ_CHECK(read_bytes(text, strlen(text), &again, &diag) == FFN_OK);
    FUZZ_CHECK(memcmp(&machine, &again, sizeof machine) == 0);
    return 0;
}
