/* machine_name.h: what CPU and system say of themselves -> the name of a kind of machine
 *
 * Whatever they say, a name has 1 to 127 printable ASCII characters: neither quotes nor backslashes, no blank at an end
 * and no two in a row. So it stands in a record of a tuned table as it is, and on one line. */
#ifndef FFN_MACHINE_NAME_H
#define FFN_MACHINE_NAME_H

#include <stdbool.h>
#include <stdint.h>

#define MACHINE_NAME_BYTES 128

/* The brand string of cpuid and its signature (leaf 1, eax): "AMD EPYC (25.1.1)", since a virtual machine's brand may
 * be no more than that. */
void machine_name_x86(const char *brand, uint32_t signature, char name[MACHINE_NAME_BYTES]);
/* The register MIDR_EL1: "ARM Neoverse-N1 r3p1", numbers where the core is not in the table. */
void machine_name_arm(uint32_t midr, char name[MACHINE_NAME_BYTES]);
/* The first core in the text of /proc/cpuinfo -> what its MIDR_EL1 would be. False: it names none. */
bool machine_name_midr(const char *cpuinfo, uint32_t *midr);
/* Anything else, as uname's machine. */
void machine_name_plain(const char *text, char name[MACHINE_NAME_BYTES]);

/* The name as that of a file: letters, digits, '.', '-' and '_' alone, the first one no point. */
void machine_name_file(const char *name, char file[MACHINE_NAME_BYTES]);

#endif
