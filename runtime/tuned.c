/* tuned.c: see tuned.h
 *
 * A table is the lines of its file in order, each a record or a text that is kept as it is. Invariant: no two records
 * have the same key, and each can be written to a line and read back the same. */
#define _DEFAULT_SOURCE /* flock, strdup */
#include "tuned.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "diag.h"
#include "replace.h"
#include "text_file.h"
#include "tuned_line.h"

#define FILE_BYTES_MAX ((size_t)16 << 20)

typedef struct entry {
    uint64_t key;         /* hash of a record's key */
    char *text;           /* NULL: the record */
    tuned_record *record; /* NULL: the text */
} entry;

struct tuned {
    entry **entries;
    size_t count, room;
    size_t *index;     /* by key, at the first free place from its hash on: place of the record + 1; 0: free */
    size_t index_room; /* a power of two, at least twice the room */
};

static ffn_status no_memory(ffn_diag *diag) {
    return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for the table of tuned plans");
}

/* ---- Keys -------------------------------------------------------------------------------------------------- */

static uint64_t hash_text(const char *text, uint64_t seed) {
    return XXH3_64bits_withSeed(text, strlen(text), seed);
}

static uint64_t key_of(const tuned_record *r) {
    const int64_t numbers[] = {r->spec.d_model, r->spec.d_ff,    r->spec.bias, r->spec.accuracy,
                               r->plan.isa,     r->plan.n_class, r->threads};
    uint64_t hash = XXH3_64bits(numbers, sizeof numbers);
    hash = hash_text(r->spec.activation, hash);
    hash = hash_text(r->machine, hash);
    hash = hash_text(r->llvm, hash);
    return hash_text(r->generator, hash);
}

static bool same_key(const tuned_record *a, const tuned_record *b) {
    return a->plan.isa == b->plan.isa && a->plan.n_class == b->plan.n_class && a->threads == b->threads &&
           strcmp(a->machine, b->machine) == 0 && strcmp(a->llvm, b->llvm) == 0 &&
           strcmp(a->generator, b->generator) == 0 && ffn_spec_equal(&a->spec, &b->spec);
}

/* Where the index has the record of that key, or has room for it. */
static size_t *find_key(const tuned *table, const entry *wanted) {
    size_t at = (size_t)wanted->key & (table->index_room - 1);
    while (table->index[at] != 0) {
        const entry *have = table->entries[table->index[at] - 1];
        if (have->key == wanted->key && same_key(have->record, wanted->record))
            break;
        at = (at + 1) & (table->index_room - 1);
    }
    return &table->index[at];
}

/* ---- Entries ----------------------------------------------------------------------------------------------- */

static void entry_free(entry *of) {
    if (of) {
        free(of->text);
        free(of->record);
    }
    free(of);
}

static entry *entry_of_record(const tuned_record *record) {
    entry *made = calloc(1, sizeof *made);
    if (made)
        made->record = malloc(sizeof *made->record);
    if (made && made->record) {
        *made->record = *record;
        made->key = key_of(record);
        return made;
    }
    entry_free(made);
    return NULL;
}

static entry *entry_of_text(const char *text) {
    entry *made = calloc(1, sizeof *made);
    if (made)
        made->text = strdup(text);
    if (made && made->text)
        return made;
    entry_free(made);
    return NULL;
}

static bool reserve(tuned *table, size_t more) {
    if (more <= table->room - table->count)
        return true;
    const size_t room = table->count + more > 2 * table->room ? table->count + more : 2 * table->room;
    entry **grown = realloc(table->entries, room * sizeof(entry *));
    if (!grown)
        return false;
    table->entries = grown;
    size_t index_room = 16;
    while (index_room < 2 * room)
        index_room *= 2;
    size_t *index = calloc(index_room, sizeof *index);
    if (!index)
        return false;
    free(table->index);
    table->index = index;
    table->index_room = index_room;
    table->room = room;
    for (size_t i = 0; i < table->count; i++)
        if (!table->entries[i]->text)
            *find_key(table, table->entries[i]) = i + 1;
    return true;
}

/* Room is reserved; the better of two stays, where the first stood. `merged` counts what became of it. */
static void put(tuned *table, entry *own, tuned_merged *merged) {
    size_t *place = own->text ? NULL : find_key(table, own);
    if (!place || *place == 0) {
        table->entries[table->count++] = own;
        if (place)
            *place = table->count;
        merged->added++;
        return;
    }
    entry **have = &table->entries[*place - 1], *worse = own;
    if (own->record->ms < (*have)->record->ms) {
        worse = *have;
        *have = own;
        merged->better++;
    } else {
        merged->kept++;
    }
    entry_free(worse);
}

/* ---- Tables ------------------------------------------------------------------------------------------------ */

ffn_status tuned_create(tuned **table, ffn_diag *diag) {
    tuned *made = calloc(1, sizeof *made);
    if (!made)
        return no_memory(diag);
    *table = made;
    return FFN_OK;
}

void tuned_free(tuned *table) {
    if (!table)
        return;
    for (size_t i = 0; i < table->count; i++)
        entry_free(table->entries[i]);
    free(table->entries);
    free(table->index);
    free(table);
}

ffn_status tuned_add(tuned *table, const tuned_record *record, ffn_diag *diag) {
    char line[TUNED_LINE_BYTES];
    ffn_status status = tuned_line_format(record, line, diag);
    if (status)
        return status;
    entry *own = reserve(table, 1) ? entry_of_record(record) : NULL;
    if (!own)
        return no_memory(diag);
    tuned_line_round(own->record);
    put(table, own, &(tuned_merged){0});
    return FFN_OK;
}

static ffn_status merge(tuned *table, const tuned *from, tuned_merged *merged, ffn_diag *diag) {
    if (table == from)
        return FFN_OK;
    tuned copies = {.count = 0};
    bool whole = reserve(table, from->count) && reserve(&copies, from->count);
    for (size_t i = 0; i < from->count && whole; i++) {
        if (from->entries[i]->text)
            continue;
        entry *copy = entry_of_record(from->entries[i]->record);
        whole = copy != NULL;
        if (copy)
            copies.entries[copies.count++] = copy;
    }
    for (size_t i = 0; i < copies.count; i++)
        if (whole)
            put(table, copies.entries[i], merged);
        else
            entry_free(copies.entries[i]);
    free(copies.entries);
    free(copies.index);
    return whole ? FFN_OK : no_memory(diag);
}

ffn_status tuned_merge(tuned *table, const tuned *from, ffn_diag *diag) {
    return merge(table, from, &(tuned_merged){0}, diag);
}

const tuned_record *tuned_at(const tuned *table, size_t i) {
    for (size_t at = 0; at < table->count; at++)
        if (!table->entries[at]->text && i-- == 0)
            return table->entries[at]->record;
    return NULL;
}

const tuned_record *tuned_next(const tuned *table, size_t *at) {
    while (*at < table->count) {
        const entry *e = table->entries[(*at)++];
        if (!e->text)
            return e->record;
    }
    return NULL;
}

/* ---- Finding ----------------------------------------------------------------------------------------------- */

/* Whether a goes before b, both of one machine or both hints: the faster; then by names, so that no order of lines
 * decides. */
static bool is_better(const tuned_record *a, const tuned_record *b) {
    if (a->ms != b->ms)
        return a->ms < b->ms;
    int order = a->threads != b->threads ? (a->threads < b->threads ? -1 : 1) : strcmp(a->machine, b->machine);
    order = order ? order : strcmp(a->generator, b->generator);
    order = order ? order : strcmp(a->llvm, b->llvm);
    return order < 0;
}

const tuned_record *tuned_find(const tuned *table, const tuned_query *query, bool *hint) {
    const tuned_record *best = NULL;
    bool best_here = false;
    for (size_t i = 0; i < table->count; i++) {
        const tuned_record *r = table->entries[i]->record;
        if (table->entries[i]->text || r->plan.isa != query->isa || r->plan.n_class != query->n_class ||
            (query->threads != 0 && r->threads != query->threads) || !ffn_spec_equal(&r->spec, query->spec))
            continue;
        const bool here = query->machine && strcmp(r->machine, query->machine) == 0;
        if (!best || here > best_here || (here == best_here && is_better(r, best))) {
            best = r;
            best_here = here;
        }
    }
    if (best && hint)
        *hint = !best_here;
    return best;
}

/* ---- Files ------------------------------------------------------------------------------------------------- */

static bool is_comment(const char *line) {
    line += strspn(line, " \t");
    return *line == '#' || *line == '\0';
}

static ffn_status parse_line(tuned *table, char *line, bool first, ffn_diag *detail) {
    if (first)
        return strcmp(line, TUNED_MAGIC) == 0
                   ? FFN_OK
                   : diag_fail(detail, FFN_BAD_FILE, "\"%.40s\" stands where \"" TUNED_MAGIC "\" must", line);
    tuned_record record;
    entry *own;
    if (is_comment(line)) {
        own = entry_of_text(line);
    } else {
        const ffn_status status = tuned_line_parse(line, &record, detail);
        if (status)
            return status;
        own = entry_of_record(&record);
    }
    if (!own || !reserve(table, 1)) {
        entry_free(own);
        return no_memory(detail);
    }
    put(table, own, &(tuned_merged){0});
    return FFN_OK;
}

ffn_status tuned_load_present(const char *path, tuned **table, bool *missing, ffn_diag *diag) {
    char *text = NULL;
    tuned *made = NULL;
    ffn_diag detail;
    ffn_status status = text_file_read(path, FILE_BYTES_MAX, &text, missing, diag);
    if (!status)
        status = tuned_create(&made, diag);
    char *rest = text;
    for (int number = 1; !status && rest; number++) {
        bool ended;
        char *line = text_file_line(&rest, &ended);
        /* What comes in pieces may have lost its last one. */
        status = ended ? parse_line(made, line, number == 1, &detail)
                       : diag_fail(&detail, FFN_BAD_FILE, "the line does not end: the file is cut short");
        if (status)
            diag_fail(diag, status, "%s, line %d: %s", replace_label(path), number, detail.text);
    }
    free(text);
    if (status)
        tuned_free(made);
    else
        *table = made;
    return status;
}

ffn_status tuned_load(const char *path, tuned **table, ffn_diag *diag) {
    return tuned_load_present(path, table, NULL, diag);
}

ffn_status tuned_format(const tuned *table, char **text, size_t *bytes, ffn_diag *diag) {
    size_t room = sizeof TUNED_MAGIC "\n";
    for (size_t i = 0; i < table->count; i++)
        room += table->entries[i]->text ? strlen(table->entries[i]->text) + 1 : TUNED_LINE_BYTES;
    char *made = malloc(room);
    if (!made)
        return no_memory(diag);
    size_t used = (size_t)sprintf(made, TUNED_MAGIC "\n");
    for (size_t i = 0; i < table->count; i++) {
        const entry *e = table->entries[i];
        ffn_status status = FFN_OK;
        if (e->text)
            strcpy(made + used, e->text);
        else
            status = tuned_line_format(e->record, made + used, diag);
        if (status) {
            free(made);
            return status;
        }
        used += strlen(made + used);
        made[used++] = '\n';
    }
    *text = made;
    *bytes = used;
    return FFN_OK;
}

ffn_status tuned_save(const tuned *table, const char *path, ffn_diag *diag) {
    char *text = NULL;
    size_t bytes = 0;
    ffn_status status = tuned_format(table, &text, &bytes, diag);
    if (!status)
        status = text_file_write(path, text, bytes, diag);
    free(text);
    return status;
}

/* The folder of the file that a path leads to, locked until it is closed; -1 with errno. Processes that are told
 * different links to one file must wait for each other too. */
static int folder_lock(const char *path) {
    char *target = realpath(path, NULL), *folder = target ? target : strdup(path);
    if (!folder)
        return -1;
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder ? 1 : 0] = '\0';
    int file = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    int failed = 0;
    while (file >= 0 && (failed = flock(file, LOCK_EX)) != 0 && errno == EINTR)
        ;
    if (failed) {
        const int error = errno;
        close(file);
        errno = error;
        return -1;
    }
    return file;
}

ffn_status tuned_save_counted(const tuned *table, const char *path, tuned_merged *merged, ffn_diag *diag) {
    const int lock = folder_lock(path);
    if (lock < 0)
        return diag_fail(diag, FFN_SYSTEM, "%s: its folder cannot be locked: %s", replace_label(path), strerror(errno));
    tuned *both = NULL;
    bool missing = false;
    ffn_diag detail;
    ffn_status status = tuned_load_present(path, &both, &missing, &detail);
    if (missing)
        status = tuned_create(&both, &detail);
    if (status && diag)
        *diag = detail;
    tuned_merged counts = {0};
    if (!status)
        status = merge(both, table, &counts, diag);
    if (!status)
        status = tuned_save(both, path, diag);
    if (!status)
        *merged = counts;
    tuned_free(both);
    close(lock);
    return status;
}

ffn_status tuned_save_merged(const tuned *table, const char *path, ffn_diag *diag) {
    return tuned_save_counted(table, path, &(tuned_merged){0}, diag);
}
