/* support_json.h: fields of the JSON lines that the command prints; the test ends where one is not what it must be */
#ifndef SUPPORT_JSON_H
#define SUPPORT_JSON_H

#include <cjson/cJSON.h>
#include <criterion/criterion.h>

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
