/* machine.h: what the system says of its caches, and what was measured -> an ffn_machine that planning can trust,
 * whatever was said */
#ifndef FFN_MACHINE_H
#define FFN_MACHINE_H

#include "ffn.h"

/* `folder` holds index0, index1, ... as /sys/devices/system/cpu/cpu0/cache does (it may be absent); `sysconf_bytes` is
 * what sysconf says of the three levels, 0 or less where it says nothing. */
void machine_read_from(const char *folder, const int64_t sysconf_bytes[3], ffn_machine *machine);

/* ffn_machine_read, and the rates that `ffngen calibrate` kept for machines of this name, if it did. A file that cannot
 * be used leaves them 0; `remark` (NULL is allowed; its status stays FFN_OK) then names file, line and field, and is
 * empty otherwise. */
void machine_read_calibrated(ffn_machine *machine, ffn_diag *remark);
/* The same for a machine whose caches were read already, from this file. No such file is nothing to remark. */
void machine_take_rates(const char *path, ffn_machine *machine, ffn_diag *remark);
/* Where `ffngen calibrate` keeps them, in the user's folder of settings: machines/<name>. free() it; NULL and a problem
 * where there is no such folder. */
char *machine_calibration_path(ffn_diag *problem);

#endif
