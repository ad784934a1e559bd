/* tune_record.c: the fields of a line of the log, as a table for those that are read back */
#include "tune_record.h"

#include "diag.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

json_line tune_record_line(const tune_record *r) {
    char spec[FFN_SPEC_TEXT_BYTES] = "";
    ffn_spec_format(&r->spec, spec, sizeof spec, NULL);
    json_line line = json_begin();
    json_text(&line, "spec", spec);
    json_text(&line, "isa", ffn_isa_name(r->isa));
    json_integer(&line, "n", r->n);
    json_text(&line, "n_class", ffn_n_class_name(ffn_n_class_of(r->n)));
    json_integer(&line, "threads", r->threads);
    json_text(&line, "plan", r->plan);
    json_text(&line, "status", tune_state_name(r->state));
    if (r->state == TUNE_OK) {
        json_number(&line, "ms_min", r->figures.ms_min);
        json_number(&line, "ms_median", r->figures.ms_median);
        json_number(&line, "spread", r->figures.spread);
        json_number(&line, "gflops", r->gflops);
        json_integer(&line, "rounds", r->figures.rounds);
        json_text(&line, "reference", r->reference);
        json_number(&line, "reference_ms", r->figures.reference_ms);
        json_number(&line, "ratio", r->figures.ratio);
        json_number(&line, "ratio_low", r->figures.ratio_low);
        json_number(&line, "ratio_high", r->figures.ratio_high);
        json_number(&line, "busy", r->busy);
    } else {
        json_text(&line, "reason", r->reason);
    }
    json_flag(&line, "verified", r->verified);
    json_flag(&line, "winner", r->winner);
    json_flag(&line, "cold", r->cold);
    json_flag(&line, "exhaustive", r->exhaustive);
    json_text(&line, "grid", r->grid);
    json_text(&line, "machine", r->machine);
    json_text(&line, "llvm", r->llvm);
    json_text(&line, "generator", r->generator);
    json_text(&line, "source", r->source);
    json_text(&line, "date", r->date);
    return line;
}

typedef enum field_kind { TEXT, COUNT, FLAG, ABOVE_ZERO, NUMBER } field_kind;

typedef struct field {
    const char *key;
    field_kind kind;
    size_t at, bytes; /* in a tune_record; bytes of a TEXT */
    bool timed;       /* only where status is ok */
} field;

#define AT(member) offsetof(tune_record, member)
#define TEXT_AT(member) TEXT, AT(member), sizeof(((tune_record *)0)->member)

static const field fields[] = {{"n", COUNT, AT(n), 0, false},
                               {"threads", COUNT, AT(threads), 0, false},
                               {"plan", TEXT_AT(plan), false},
                               {"verified", FLAG, AT(verified), 0, false},
                               {"winner", FLAG, AT(winner), 0, false},
                               {"cold", FLAG, AT(cold), 0, false},
                               {"exhaustive", FLAG, AT(exhaustive), 0, false},
                               {"grid", TEXT_AT(grid), false},
                               {"machine", TEXT_AT(machine), false},
                               {"llvm", TEXT_AT(llvm), false},
                               {"generator", TEXT_AT(generator), false},
                               {"source", TEXT_AT(source), false},
                               {"date", TEXT_AT(date), false},
                               {"ms_min", ABOVE_ZERO, AT(figures.ms_min), 0, true},
                               {"ms_median", ABOVE_ZERO, AT(figures.ms_median), 0, true},
                               {"spread", NUMBER, AT(figures.spread), 0, true},
                               {"gflops", ABOVE_ZERO, AT(gflops), 0, true},
                               {"reference", TEXT_AT(reference), true},
                               {"reference_ms", ABOVE_ZERO, AT(figures.reference_ms), 0, true},
                               {"ratio", ABOVE_ZERO, AT(figures.ratio), 0, true},
                               {"ratio_low", ABOVE_ZERO, AT(figures.ratio_low), 0, true},
                               {"ratio_high", ABOVE_ZERO, AT(figures.ratio_high), 0, true},
                               {"busy", NUMBER, AT(busy), 0, true}};

static const cJSON *item(const cJSON *object, const char *key) {
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

/* An item into its place; NULL, or what would be right. */
static const char *take(const cJSON *value, const field *of, char *place) {
    double number = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    switch (of->kind) {
    case TEXT:
        if (!cJSON_IsString(value) || strlen(value->valuestring) >= of->bytes)
            return "a text";
        strcpy(place, value->valuestring);
        return NULL;
    case COUNT:
        if (!(number >= 1 && number <= 1e15) || floor(number) != number)
            return "a count of 1 or more";
        *(int64_t *)(void *)place = (int64_t)number;
        return NULL;
    case FLAG:
        if (!cJSON_IsBool(value))
            return "true or false";
        *(bool *)(void *)place = cJSON_IsTrue(value);
        return NULL;
    case ABOVE_ZERO:
    case NUMBER:
        break;
    }
    if (!isfinite(number) || (of->kind == ABOVE_ZERO && !(number > 0)))
        return of->kind == ABOVE_ZERO ? "a number above 0" : "a number";
    *(double *)(void *)place = number;
    return NULL;
}

static ffn_status take_names(const cJSON *object, tune_record *r, ffn_diag *diag) {
    static const char *const keys[] = {"spec", "isa", "status"};
    const char *texts[3];
    for (int i = 0; i < 3; i++) {
        texts[i] = cJSON_GetStringValue(item(object, keys[i]));
        if (!texts[i])
            return diag_fail(diag, FFN_BAD_FILE, "%s is wanted as a text", keys[i]);
    }
    ffn_diag problem;
    if (ffn_spec_parse(texts[0], &r->spec, &problem))
        return diag_fail(diag, FFN_BAD_FILE, "spec: %.300s", problem.text);
    if (ffn_isa_parse(texts[1], &r->isa, &problem))
        return diag_fail(diag, FFN_BAD_FILE, "isa: %.300s", problem.text);
    for (r->state = TUNE_OK; r->state < TUNE_STATES; r->state++) {
        if (!strcmp(texts[2], tune_state_name(r->state)))
            return FFN_OK;
    }
    return diag_fail(diag, FFN_BAD_FILE, "status '%.40s' is none of ok, crashed, hung, wrong and refused", texts[2]);
}

static ffn_status take_all(const cJSON *object, tune_record *r, ffn_diag *diag) {
    if (!cJSON_IsObject(object))
        return diag_fail(diag, FFN_BAD_FILE, "no JSON object");
    ffn_status status = take_names(object, r, diag);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && !status; i++) {
        if (fields[i].timed && r->state != TUNE_OK)
            continue;
        const char *right = take(item(object, fields[i].key), &fields[i], (char *)r + fields[i].at);
        if (right)
            status = diag_fail(diag, FFN_BAD_FILE, "%s is wanted as %s", fields[i].key, right);
    }
    ffn_plan plan;
    if (!status && ffn_plan_parse(r->plan, &plan, NULL))
        status = diag_fail(diag, FFN_BAD_FILE, "plan '%.200s' is not as ffn_plan_format writes one", r->plan);
    const char *n_class = cJSON_GetStringValue(item(object, "n_class"));
    if (!status && (plan.isa != r->isa || plan.n_class != ffn_n_class_of(r->n) || !n_class ||
                    strcmp(n_class, ffn_n_class_name(plan.n_class)) != 0))
        status = diag_fail(diag, FFN_BAD_FILE, "plan '%.200s' is none for isa %s, n %lld and that n_class", r->plan,
                           ffn_isa_name(r->isa), (long long)r->n);
    const char *reason = cJSON_GetStringValue(item(object, "reason"));
    if (reason)
        snprintf(r->reason, sizeof r->reason, "%.*s", TUNE_REASON_BYTES - 1, reason);
    const cJSON *rounds = item(object, "rounds");
    r->figures.rounds = cJSON_IsNumber(rounds) ? rounds->valueint : 0;
    return status;
}

ffn_status tune_record_parse(const char *text, tune_record *record, ffn_diag *diag) {
    tune_record read = {0};
    cJSON *object = cJSON_ParseWithOpts(text, NULL, true);
    ffn_status status = take_all(object, &read, diag);
    cJSON_Delete(object);
    if (!status)
        *record = read;
    return status;
}

bool tune_record_alike(const tune_record *a, const tune_record *b) {
    return ffn_spec_equal(&a->spec, &b->spec) && a->isa == b->isa && a->n == b->n && a->threads == b->threads &&
           a->cold == b->cold && !strcmp(a->machine, b->machine) && !strcmp(a->llvm, b->llvm) &&
           !strcmp(a->generator, b->generator) && !strcmp(a->source, b->source);
}
