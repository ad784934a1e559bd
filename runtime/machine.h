/* machine.h: what the system says of its caches -> an ffn_machine that planning can trust, whatever was said */
#ifndef FFN_MACHINE_H
#define FFN_MACHINE_H

#include "ffn.h"

/* `folder` holds index0, index1, ... as /sys/devices/system/cpu/cpu0/cache does (it may be absent); `sysconf_bytes` is
 * what sysconf says of the three levels, 0 or less where it says nothing. */
void machine_read_from(const char *folder, const int64_t sysconf_bytes[3], ffn_machine *machine);

#endif
