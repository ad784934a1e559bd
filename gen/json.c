/* json.c: JSON lines through cJSON */
#include "json.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

json_line json_begin(void) {
    cJSON *object = cJSON_CreateObject();
    return (json_line){object, object != NULL};
}

static void added(json_line *line, const cJSON *item) {
    line->complete = line->complete && item;
}

static cJSON *number(cJSON *object, const char *key, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.6g", value);
    return isfinite(value) ? cJSON_AddRawToObject(object, key, text) : cJSON_AddNullToObject(object, key);
}

void json_text(json_line *line, const char *key, const char *value) {
    added(line, cJSON_AddStringToObject(line->object, key, value));
}

void json_flag(json_line *line, const char *key, bool value) {
    added(line, cJSON_AddBoolToObject(line->object, key, value));
}

void json_integer(json_line *line, const char *key, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    added(line, cJSON_AddRawToObject(line->object, key, text));
}

void json_number(json_line *line, const char *key, double value) {
    added(line, number(line->object, key, value));
}

void json_float(json_line *line, const char *key, float value) {
    char text[32];
    snprintf(text, sizeof text, "%.9g", (double)value);
    added(line,
          isfinite(value) ? cJSON_AddRawToObject(line->object, key, text) : cJSON_AddNullToObject(line->object, key));
}

static cJSON *group_of(const json_line *line, const char *group) {
    cJSON *object = cJSON_GetObjectItemCaseSensitive(line->object, group);
    return object ? object : cJSON_AddObjectToObject(line->object, group);
}

void json_number_in(json_line *line, const char *group, const char *key, double value) {
    cJSON *object = group_of(line, group);
    added(line, object ? number(object, key, value) : NULL);
}

void json_text_in(json_line *line, const char *group, const char *key, const char *value) {
    cJSON *object = group_of(line, group);
    added(line, object ? cJSON_AddStringToObject(object, key, value) : NULL);
}

void json_bits(json_line *line, const char *key, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "0x%016" PRIx64, value);
    json_text(line, key, text);
}

bool json_end(json_line *line) {
    char *text = line->complete ? cJSON_PrintUnformatted(line->object) : NULL;
    bool out = text && puts(text) >= 0 && fflush(stdout) == 0;
    cJSON_free(text);
    cJSON_Delete(line->object);
    *line = (json_line){0};
    return out;
}
