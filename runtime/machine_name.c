/* machine_name.c: cpuid, MIDR_EL1 or uname -> the name of a kind of machine
 *
 * Invariant: see machine_name.h; every name is made by `tidy`, which can't fail. */
#include "machine_name.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "ffn.h"

static bool plain_letter(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Printable, and not what a record would have to escape. */
static bool allowed_in_name(unsigned char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '\'' && c != '\\' && c != '`';
}

static bool allowed_in_file(unsigned char c) {
    return plain_letter(c) || c == '.' || c == '-';
}

/* Runs of what is not allowed become one `gap`, none at an end; at most room - 1 characters. Returns how many. */
static size_t tidy(const char *text, bool (*allowed)(unsigned char), char gap, char *out, size_t room) {
    size_t at = 0;
    for (bool wait = false; *text != '\0'; text++) {
        if (!allowed((unsigned char)*text)) {
            wait = at > 0;
            continue;
        }
        if (at + wait + 1 >= room)
            break;
        if (wait)
            out[at++] = gap;
        wait = false;
        out[at++] = *text;
    }
    out[at] = '\0';
    return at;
}

/* The tail stays whole: it tells machines apart that the text alone does not. */
static void join(const char *text, const char *otherwise, const char *tail, char name[MACHINE_NAME_BYTES]) {
    size_t room = MACHINE_NAME_BYTES - strlen(tail);
    size_t at = tidy(text, allowed_in_name, ' ', name, room);
    if (at == 0)
        at = tidy(otherwise, allowed_in_name, ' ', name, room);
    memcpy(name + at, tail, strlen(tail) + 1);
}

void machine_name_plain(const char *text, char name[MACHINE_NAME_BYTES]) {
    join(text, "unknown machine", "", name);
}

void machine_name_x86(const char *brand, uint32_t signature, char name[MACHINE_NAME_BYTES]) {
    uint32_t family = signature >> 8 & 15, model = signature >> 4 & 15, stepping = signature & 15;
    if (family == 6 || family == 15)
        model += (signature >> 16 & 15) << 4;
    if (family == 15)
        family += signature >> 20 & 255;
    char tail[64];
    snprintf(tail, sizeof tail, " (%u.%u.%u)", family, model, stepping);
    join(brand, "x86-64", tail, name);
}

/* Numbers that Linux knows by these names (arch/arm64/include/asm/cputype.h). */
static const struct {
    uint32_t implementer, part;
    const char *name;
} cores[] = {
    {0x41, 0xd03, "ARM Cortex-A53"},     {0x41, 0xd04, "ARM Cortex-A35"},     {0x41, 0xd05, "ARM Cortex-A55"},
    {0x41, 0xd07, "ARM Cortex-A57"},     {0x41, 0xd08, "ARM Cortex-A72"},     {0x41, 0xd09, "ARM Cortex-A73"},
    {0x41, 0xd0a, "ARM Cortex-A75"},     {0x41, 0xd0b, "ARM Cortex-A76"},     {0x41, 0xd0c, "ARM Neoverse-N1"},
    {0x41, 0xd0d, "ARM Cortex-A77"},     {0x41, 0xd40, "ARM Neoverse-V1"},    {0x41, 0xd41, "ARM Cortex-A78"},
    {0x41, 0xd44, "ARM Cortex-X1"},      {0x41, 0xd46, "ARM Cortex-A510"},    {0x41, 0xd47, "ARM Cortex-A710"},
    {0x41, 0xd48, "ARM Cortex-X2"},      {0x41, 0xd49, "ARM Neoverse-N2"},    {0x41, 0xd4d, "ARM Cortex-A715"},
    {0x41, 0xd4e, "ARM Cortex-X3"},      {0x41, 0xd4f, "ARM Neoverse-V2"},    {0x41, 0xd80, "ARM Cortex-A520"},
    {0x41, 0xd81, "ARM Cortex-A720"},    {0x41, 0xd82, "ARM Cortex-X4"},      {0x41, 0xd84, "ARM Neoverse-V3"},
    {0x41, 0xd85, "ARM Cortex-X925"},    {0x41, 0xd8e, "ARM Neoverse-N3"},    {0x43, 0x0af, "Cavium ThunderX2"},
    {0x46, 0x001, "Fujitsu A64FX"},      {0x48, 0xd01, "HiSilicon TSV110"},   {0x4e, 0x004, "NVIDIA Carmel"},
    {0x61, 0x022, "Apple M1 Icestorm"},  {0x61, 0x023, "Apple M1 Firestorm"}, {0x61, 0x032, "Apple M2 Blizzard"},
    {0x61, 0x033, "Apple M2 Avalanche"}, {0xc0, 0xac3, "Ampere AmpereOne"},   {0xc0, 0xac4, "Ampere AmpereOne-A"},
};

void machine_name_arm(uint32_t midr, char name[MACHINE_NAME_BYTES]) {
    const uint32_t implementer = midr >> 24, part = midr >> 4 & 0xfff;
    char core[64], tail[32];
    snprintf(core, sizeof core, "AArch64 0x%02x.0x%03x", implementer, part);
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
        if (cores[i].implementer == implementer && cores[i].part == part)
            snprintf(core, sizeof core, "%s", cores[i].name);
    snprintf(tail, sizeof tail, " r%up%u", midr >> 20 & 15, midr & 15);
    join(core, "AArch64", tail, name);
}

/* "CPU part\t: 0xd0c" -> 0xd0c of the first such line. */
static bool cpuinfo_field(const char *cpuinfo, const char *key, uint32_t *value) {
    const char *line = strstr(cpuinfo, key);
    if (line == NULL)
        return false;
    line += strlen(key);
    line += strspn(line, " \t");
    if (*line != ':')
        return false;
    line += 1 + strspn(line + 1, " \t");
    char *end;
    const unsigned long number = strtoul(line, &end, 0);
    if (*line < '0' || *line > '9' || end == line || number > 0xfff)
        return false;
    *value = (uint32_t)number;
    return true;
}

bool machine_name_midr(const char *cpuinfo, uint32_t *midr) {
    uint32_t implementer, part, variant = 0, revision = 0;
    if (!cpuinfo_field(cpuinfo, "CPU implementer", &implementer) || !cpuinfo_field(cpuinfo, "CPU part", &part))
        return false;
    cpuinfo_field(cpuinfo, "CPU variant", &variant);
    cpuinfo_field(cpuinfo, "CPU revision", &revision);
    *midr = (implementer & 0xff) << 24 | (variant & 15) << 20 | 0xfU << 16 | part << 4 | (revision & 15);
    return true;
}

void machine_name_file(const char *name, char file[MACHINE_NAME_BYTES]) {
    size_t at = tidy(name, allowed_in_file, '_', file, MACHINE_NAME_BYTES);
    if (at == 0)
        snprintf(file, MACHINE_NAME_BYTES, "unknown_machine");
    else if (file[0] == '.')
        file[0] = '_';
}

/* ---- This machine ---------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)

#include <cpuid.h>

static bool ask(char name[MACHINE_NAME_BYTES]) {
    uint32_t words[12] = {0}, signature, other[3];
    if (!__get_cpuid(1, &signature, &other[0], &other[1], &other[2]))
        return false;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t *four = words + (size_t)4 * i;
        __get_cpuid(0x80000002U + i, &four[0], &four[1], &four[2], &four[3]);
    }
    char brand[sizeof words + 1] = "";
    memcpy(brand, words, sizeof words);
    machine_name_x86(brand, signature, name);
    return true;
}

#elif defined(__aarch64__)

/* At most text_bytes - 1 bytes of a file that the kernel makes up. */
static bool read_start(const char *path, char *text, size_t text_bytes) {
    FILE *stream = fopen(path, "re");
    if (!stream)
        return false;
    text[fread(text, 1, text_bytes - 1, stream)] = '\0';
    fclose(stream);
    return true;
}

/* cpu0's, where cores differ: the same on every machine of a kind. */
static bool ask(char name[MACHINE_NAME_BYTES]) {
    char text[4096];
    uint32_t midr = 0;
    if (read_start("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", text, sizeof text))
        midr = (uint32_t)strtoull(text, NULL, 16);
    if (midr == 0 && (!read_start("/proc/cpuinfo", text, sizeof text) || !machine_name_midr(text, &midr)))
        return false;
    machine_name_arm(midr, name);
    return true;
}

#else

static bool ask(char name[MACHINE_NAME_BYTES]) {
    (void)name;
    return false;
}

#endif

static char this_name[MACHINE_NAME_BYTES];

static void find_name(void) {
    struct utsname system;
    if (!ask(this_name))
        machine_name_plain(uname(&system) == 0 ? system.machine : "", this_name);
}

const char *ffn_machine_name(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_name);
    return this_name;
}
