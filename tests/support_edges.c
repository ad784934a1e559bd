/* support_edges.c: lists of activations and arguments -> the tables of docs/edges.md, and back: see support_edges.h */
#include "support_edges.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formula_ast.h"
#include "support_data.h"

/* ---- Arguments ---- */

/* How a row is called, where its number does not say it. */
typedef struct point {
    uint32_t bits;
    const char *label;
} point;

#define NEGATIVE(bits) (UINT32_C(0x80000000) | (bits))
#define BOTH(bits, label)         \
    {bits, label}, {              \
        NEGATIVE(bits), "-" label \
    }

/* Classes: what stands beside and above the tables of gated activations. */
static const point classes[] = {
    {0x7fc00000, "NaN"},          BOTH(0x7f800000, "infinity"), BOTH(0x7f7fffff, "FLT_MAX"), BOTH(0x7149f2ca, "1e30"),
    BOTH(0x3f800000, "1"),        BOTH(0x00800000, "FLT_MIN"),  BOTH(1, "2^-149"),           BOTH(0, "0"),
    {0xffc00000, "NaN, negative"}};
enum { CLASSES = sizeof classes / sizeof *classes, SHOWN = CLASSES - 1 }; /* one NaN is enough in a matrix */

/* More of plain ones: other NaN, the largest subnormal, then places where an activation saturates or its formula
 * branches, and the next f32 further out where the place itself is still on the near side. */
static const point more[] = {{0x7f800001, "NaN, signalling"},
                             {0xff812345, "NaN, signalling, negative"},
                             {0x7fffffff, "NaN, all bits set"},
                             BOTH(0x007fffff, "largest subnormal")};
enum { MORE = sizeof more / sizeof *more };
static const float places[] = {
    1e-10f,    0.5f,   0.9f,    1.5f,    2,      2.9999998f, 3,      4,     4.1f,  5,     6,    6.0000005f, 7,
    8.6643f,   9.01f,  9.02f,   9.1f,    10,     10.000001f, 10.1f,  10.3f, 10.7f, 10.9f, 11,   13,         13.2f,
    14.2f,     14.35f, 14.4f,   14.5f,   16.7f,  17.4f,      18,     25,    25.1f, 30,    60,   87.33654f,  87.33655f,
    88.72284f, 88.8f,  103.97f, 103.98f, 104.1f, 105,        108.6f, 109,   110,   1e10f, 1e20f};
enum { PLACES = sizeof places / sizeof *places, POINTS = CLASSES + MORE + 2 * PLACES };

static point point_at(int32_t i) {
    if (i < CLASSES)
        return classes[i];
    if (i < CLASSES + MORE)
        return more[i - CLASSES];
    const int32_t place = i - CLASSES - MORE;
    const float value = place % 2 ? -places[place / 2] : places[place / 2];
    point answer = {0, NULL};
    memcpy(&answer.bits, &value, sizeof value);
    return answer;
}

/* ---- Cases ---- */

enum { PARTS = 5 };
static const char *const part_titles[PARTS] = {"Plain activations", "Functions and operations of formulas",
                                               "Gated activations", "Fast forms, plain", "Fast forms, gated"};

/* Beside the rows of activations.def: parameters that take other ways through a formula. */
static const char *const variants[] = {"leaky_relu(-1.5)", "leaky_relu(2)", "swish(0.05)", "swish(1000)", "elu(-2)"};
static const char *const formulas[] = {"act(exp(x))",           "act(expm1(x))",  "act(log(x))",   "act(log1p(x))",
                                       "act(erf(x))",           "act(erfc(x))",   "act(min(x,6))", "act(max(0,x))",
                                       "act(clamp(x,-1,1))",    "act(abs(x))",    "act(sqrt(x))",  "act(1/x)",
                                       "act(select(x<0,-1,1))", "act(fma(x,x,1))"};

void *edges_room(size_t bytes) {
    void *memory = malloc(bytes);
    if (memory == NULL) {
        printf("no memory for edge values\n");
        exit(1);
    }
    return memory;
}

static void add(edges_list *list, const char *activation, uint32_t accuracy, bool gated) {
    edges_case *c = &list->cases[list->count++];
    memset(c, 0, sizeof *c);
    snprintf(c->activation, sizeof c->activation, "%s", activation);
    c->accuracy = accuracy;
    c->gated = gated;
    c->own = strncmp(activation, "act(", 4) == 0;
    c->classes = CLASSES;
    c->count = gated ? SHOWN * SHOWN : POINTS;
    const size_t bytes = (size_t)c->count * sizeof(float);
    c->g = edges_room(bytes);
    c->u = edges_room(bytes);
    c->want = edges_room(bytes);
    for (int32_t i = 0; i < c->count; i++) {
        const uint32_t g = point_at(gated ? i / SHOWN : i).bits, u = gated ? point_at(i % SHOWN).bits : 0x3f800000;
        memcpy(&c->g[i], &g, sizeof g);
        memcpy(&c->u[i], &u, sizeof u);
    }
}

static int32_t part_of(const edges_case *c) {
    return c->accuracy == FFN_FAST ? 3 + c->gated : c->own ? 1 : 2 * c->gated;
}

edges_list edges_make(void) {
    size_t rows = 0;
    while (activation_row_at(rows))
        rows++;
    enum { VARIANTS = sizeof variants / sizeof *variants, FORMULAS = sizeof formulas / sizeof *formulas };
    edges_list list = {0, edges_room((2 * rows + VARIANTS + FORMULAS) * sizeof(edges_case))};
    for (int32_t part = 0; part < PARTS; part++) {
        const bool fast = part >= 3, gated = part == 2 || part == 4;
        for (size_t i = 0; part != 1 && i < rows; i++) {
            const activation_row *row = activation_row_at(i);
            if (row->shown.gated == gated && (!fast || activation_fast(row)))
                add(&list, row->shown.name, fast ? FFN_FAST : FFN_ACCURATE, gated);
        }
        for (int32_t i = 0; part == 0 && i < VARIANTS; i++)
            add(&list, variants[i], FFN_ACCURATE, false);
        for (int32_t i = 0; part == 1 && i < FORMULAS; i++)
            add(&list, formulas[i], FFN_ACCURATE, false);
    }
    return list;
}

void edges_free(edges_list *list) {
    for (int32_t i = 0; i < list->count; i++) {
        free(list->cases[i].g);
        free(list->cases[i].u);
        free(list->cases[i].want);
    }
    free(list->cases);
}

/* ---- Tables: of the cases first .. end-1, side by side, or of one that is gated ---- */

enum { COLUMNS = 6, CELL_BYTES = 32 };

typedef struct table {
    int32_t first, end;
} table;

static bool next_table(const edges_list *list, table *t) {
    t->first = t->end;
    if (t->first == list->count)
        return false;
    const edges_case *c = &list->cases[t->first];
    const int32_t part = part_of(c);
    do
        t->end++;
    while (!c->gated && t->end < list->count && t->end - t->first < COLUMNS && part_of(&list->cases[t->end]) == part);
    return true;
}

static float *cell(const edges_list *list, table t, int32_t row, int32_t column) {
    const edges_case *c = &list->cases[t.first];
    return c->gated ? &c->want[row * SHOWN + column] : &list->cases[t.first + column].want[row];
}

/* Nine digits read back as the same f32. */
static void format(float value, char text[CELL_BYTES]) {
    if (isnan(value))
        snprintf(text, CELL_BYTES, "NaN");
    else
        snprintf(text, CELL_BYTES, "%.9g", (double)value);
}

static void write_label(int32_t row, FILE *file) {
    const point p = point_at(row);
    float value;
    char text[CELL_BYTES];
    memcpy(&value, &p.bits, sizeof value);
    format(value, text);
    fprintf(file, "%s", p.label ? p.label : text);
}

static void write_head(const edges_list *list, table t, FILE *file) {
    const edges_case *c = &list->cases[t.first];
    const int32_t columns = c->gated ? SHOWN : t.end - t.first;
    fprintf(file, c->gated ? "| g, u:" : "| x");
    for (int32_t i = 0; i < columns; i++) {
        fprintf(file, " | ");
        if (c->gated)
            write_label(i, file);
        else
            fprintf(file, "%s", list->cases[t.first + i].activation);
    }
    fprintf(file, " |\n|---");
    for (int32_t i = 0; i < columns; i++)
        fprintf(file, "|---");
    fprintf(file, "|\n");
}

void edges_write(const edges_list *list, FILE *file) {
    int32_t part = -1;
    for (table t = {0, 0}; next_table(list, &t);) {
        const edges_case *c = &list->cases[t.first];
        if (part_of(c) != part)
            fprintf(file, "\n## %s\n", part_titles[part = part_of(c)]);
        fprintf(file, c->gated ? "\n### %s\n\n" : "\n", c->activation);
        write_head(list, t, file);
        for (int32_t row = 0; row < (c->gated ? SHOWN : POINTS); row++) {
            fprintf(file, "| ");
            write_label(row, file);
            for (int32_t i = 0; i < (c->gated ? SHOWN : t.end - t.first); i++) {
                char text[CELL_BYTES];
                format(*cell(list, t, row, i), text);
                fprintf(file, " | %s", text);
            }
            fprintf(file, " |\n");
        }
    }
}

/* The numbers behind the label of a row. */
static bool read_row(const edges_list *list, table t, int32_t row, const char *line) {
    const int32_t columns = list->cases[t.first].gated ? SHOWN : t.end - t.first;
    const char *at = strstr(line + 1, " | ");
    for (int32_t i = 0; i < columns; i++) {
        char *end;
        if (at == NULL)
            return false;
        *cell(list, t, row, i) = strtof(at + 3, &end);
        at = end > at + 3 && strncmp(end, " |", 2) == 0 ? end : NULL;
    }
    return at != NULL;
}

bool edges_read(edges_list *list, const char *path, char why[EDGES_WHY_BYTES]) {
    enum { LINE_BYTES = 4096 };
    char line[LINE_BYTES];
    FILE *file = fopen(path, "r");
    bool marked = false, good = file != NULL;
    int32_t row = -2, rows = 0; /* of the table; the head and the line below are no rows */
    table t = {0, 0};
    snprintf(why, EDGES_WHY_BYTES, "%s cannot be read", path);
    while (good && fgets(line, sizeof line, file)) {
        marked = marked || strncmp(line, EDGES_MARK, strlen(EDGES_MARK)) == 0;
        if (!marked || line[0] != '|') {
            good = !marked || row == -2 || row == rows;
            row = row == rows ? -2 : row;
        } else {
            if (row == -2 && (good = next_table(list, &t)))
                rows = list->cases[t.first].gated ? SHOWN : POINTS;
            good = good && row < rows && (row < 0 || read_row(list, t, row, line));
            row++;
        }
        if (!good)
            snprintf(why, EDGES_WHY_BYTES, "not a row of this table: %.300s", line);
    }
    if (file != NULL)
        fclose(file);
    if (good && (t.end < list->count || (row != -2 && row != rows))) {
        snprintf(why, EDGES_WHY_BYTES, "the tables of %s end too soon: run scripts/edges.sh", path);
        good = false;
    }
    return good;
}

ffn_spec edges_spec(const edges_list *list, int32_t index) {
    const edges_case *c = &list->cases[index];
    const char *bias = c->gated ? "-bias_up-bias_gate" : "-bias_up", *fast = c->accuracy == FFN_FAST ? "-fast" : "";
    char text[FFN_SPEC_TEXT_BYTES];
    if (c->own)
        snprintf(text, sizeof text, "d1-f%d%s-%s", 65 + index % 16, bias, c->activation);
    else
        snprintf(text, sizeof text, "d1-f%d-%s%s%s", 65 + index % 16, c->activation, bias, fast);
    return support_spec(text);
}
