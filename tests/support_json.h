/* support_json.h: the JSON lines that the command prints, and their fields; the test ends where one is not what it must
 * be */
#ifndef SUPPORT_JSON_H
#define SUPPORT_JSON_H

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <string.h>

/* Lines of text, each a JSON object and ended, parsed; `text` is cut up. The array is the caller's. */
static inline cJSON *json_lines_of(char *text) {
    cJSON *all = cJSON_CreateArray();
    for (char *line = text, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        cr_assert(end, "the last line has no end: %s", line);
        *end = '\0';
        cJSON *parsed = cJSON_ParseWithOpts(line, NULL, true);
        cr_assert(cJSON_IsObject(parsed) && cJSON_AddItemToArray(all, parsed), "no JSON object: %s", line);
    }
    return all;
}

static inline double json_number_of(const cJSON *line, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, key);
    cr_assert(cJSON_IsNumber(item), "%s is not a number", key);
    return item->valuedouble;
}

static inline const char *json_text_of(const cJSON *line, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, key);
    cr_assert(cJSON_IsString(item), "%s is not a text", key);
    return item->valuestring;
}

#endif
