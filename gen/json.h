/* json.h: results -> one JSON object a line on standard output */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stdint.h>

/* A line in the making. A field that finds no memory makes the whole line fail at json_end. */
typedef struct json_line {
    struct cJSON *object;
    bool complete;
} json_line;

json_line json_begin(void);
void json_text(json_line *line, const char *key, const char *value);
void json_flag(json_line *line, const char *key, bool value);
void json_integer(json_line *line, const char *key, int64_t value);
/* With 6 digits; null where it is not finite, since JSON has no such number. */
void json_number(json_line *line, const char *key, double value);
/* With 9 digits, which read back as the same f32; null as above. */
void json_float(json_line *line, const char *key, float value);
/* With 6 digits inside the object `group` of the line, made when first named. */
void json_number_in(json_line *line, const char *group, const char *key, double value);
void json_text_in(json_line *line, const char *group, const char *key, const char *value);
/* "0x0123456789abcdef": more digits than a JSON number holds. */
void json_bits(json_line *line, const char *key, uint64_t value);
/* Prints and frees. False if the line is not out, whole. */
bool json_end(json_line *line);

#endif
