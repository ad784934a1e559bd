/* machine_calibrated.c: the file that `ffngen calibrate` kept for machines of this name -> the rates of an ffn_machine
 *
 * Invariant: the caches are always the system's. Rates of a file are taken all together or not at all, and only where
 * they were measured for these very caches: those of a virtual machine change under the same name. */
#include "machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "config_folder.h"
#include "diag.h"
#include "machine_name.h"
#include "machine_text.h"
#include "replace.h"

#define FOLDER "machines/"

char *machine_calibration_path(ffn_diag *problem) {
    char file[MACHINE_NAME_BYTES], name[sizeof FOLDER + sizeof file];
    machine_name_file(ffn_machine_name(), file);
    snprintf(name, sizeof name, FOLDER "%s", file);
    return config_file_path(name, problem);
}

static void say_nothing(ffn_diag *remark) {
    if (remark != NULL)
        *remark = (ffn_diag){.status = FFN_OK};
}

void machine_take_rates(const char *path, ffn_machine *machine, ffn_diag *remark) {
    ffn_machine measured;
    ffn_diag detail;
    bool missing;
    say_nothing(remark);
    if (machine_file_find(path, &measured, &missing, &detail) != FFN_OK) {
        if (missing)
            return;
        diag_fail(remark, FFN_OK, "measured rates are not used: %s", detail.text);
    } else if (measured.l1_bytes != machine->l1_bytes || measured.l2_bytes != machine->l2_bytes ||
               measured.l3_bytes != machine->l3_bytes) {
        diag_fail(remark, FFN_OK,
                  "measured rates are not used: %s is of a machine with caches of %" PRId64 ", %" PRId64 " and %" PRId64
                  " bytes, this one has %" PRId64 ", %" PRId64 " and %" PRId64 ": `ffngen calibrate` measures anew",
                  replace_label(path), measured.l1_bytes, measured.l2_bytes, measured.l3_bytes, machine->l1_bytes,
                  machine->l2_bytes, machine->l3_bytes);
    } else {
        *machine = measured;
    }
}

void machine_read_calibrated(ffn_machine *machine, ffn_diag *remark) {
    ffn_machine_read(machine);
    say_nothing(remark);
    char *path = machine_calibration_path(remark);
    if (path != NULL)
        machine_take_rates(path, machine, remark);
    else
        say_nothing(remark); /* without a folder of settings there are none to read */
    free(path);
}
