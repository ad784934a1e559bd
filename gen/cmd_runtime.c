/* cmd_runtime.c: what the runtime is told (--tools) and what it tells (its counters) */
#include "cmd.h"
#include "json.h"

#include "diag.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t bit;
} tool_rows[] = {{"perf", FFN_TOOL_PERF_MAP}, {"gdb", FFN_TOOL_GDB}};

static const char *tool_at(size_t i) {
    return i < sizeof tool_rows / sizeof tool_rows[0] ? tool_rows[i].name : NULL;
}

static uint32_t tool_bit(const char *name, size_t length) {
    for (size_t i = 0; tool_at(i); i++)
        if (strlen(tool_at(i)) == length && !strncmp(tool_at(i), name, length))
            return tool_rows[i].bit;
    return 0;
}

bool cmd_tools(const cmd *command, const char *names, uint32_t *tools) {
    uint32_t asked = 0;
    for (const char *at = names; at; at = *at ? at + 1 : NULL) {
        size_t length = strcspn(at, ",");
        uint32_t bit = tool_bit(at, length);
        if (!bit) {
            char word[32], near[96];
            snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), at);
            diag_near_names(word, tool_at, near, sizeof near);
            cmd_error(command, CMD_USAGE, "--tools: '%s' is neither perf nor gdb%s", word, near);
            return false;
        }
        asked |= bit;
        at += length;
    }
    *tools = asked;
    return true;
}

typedef struct counter {
    const char *key, *words;
    uint64_t count;
} counter;

enum { COUNTERS = 6 };

static void read_counters(const cmd_kernel *kernel, counter counters[COUNTERS]) {
    ffn_counters c;
    ffn_context_counters(kernel->context, &c);
    const counter all[COUNTERS] = {{"compiled", "compiled", c.compiled},    {"loaded", "loaded", c.loaded},
                                   {"hit", "found in memory", c.hit},       {"evicted", "evicted", c.evicted},
                                   {"fell_back", "fell back", c.fell_back}, {"failed", "failed", c.failed}};
    memcpy(counters, all, sizeof all);
}

void cmd_counters_json(const cmd_kernel *kernel, struct json_line *line) {
    counter counters[COUNTERS];
    read_counters(kernel, counters);
    for (int i = 0; i < COUNTERS; i++)
        json_number_in(line, "counters", counters[i].key, (double)counters[i].count);
}

void cmd_counters_text(const cmd_kernel *kernel, char *text, size_t text_bytes) {
    counter counters[COUNTERS];
    read_counters(kernel, counters);
    text[0] = '\0';
    for (int i = 0; i < COUNTERS; i++) {
        size_t used = strlen(text);
        if (counters[i].count)
            snprintf(text + used, text_bytes - used, "%s%llu %s", used ? ", " : "",
                     (unsigned long long)counters[i].count, counters[i].words);
    }
    if (!text[0])
        snprintf(text, text_bytes, "none");
}
