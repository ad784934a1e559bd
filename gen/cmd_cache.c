/* cmd_cache.c: ffngen cache: the entries of a disk store, listed, checked or removed */
#include "cmd.h"
#include "image.h"
#include "json.h"
#include "options.h"
#include "report.h"
#include "store_file.h"
#include "store_folder.h"
#include "store_list.h"

#include "diag.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PLAN_TEXT_BYTES 512
#define IDENTITY_SHOWN 10 /* characters in the table; --json has them all */
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

typedef struct work {
    const cmd *command;
    const char *path;
    int folder; /* -1: not there yet, an empty store */
    bool json, failed;
    store_listing listing;
    report_table table;
} work;

/* What a file turned out to be. */
typedef struct finding {
    ffn_status status; /* OK; UNSUPPORTED: whole, but not for this CPU */
    char reason[FFN_DIAG_BYTES];
    image_header header; /* if status is one of these two */
    char identity[ENTRY_HEAD_BYTES];
} finding;

static void examine(const work *w, const store_listed *row, finding *f) {
    ffn_diag problem = {.status = FFN_OK};
    store_file file = {.image = NULL};
    f->status = FFN_BAD_FILE;
    if (store_file_read(w->folder, row->name, "", 0, &file, &problem)) {
        f->status = entry_check(row->name, file.head, file.image, file.image_bytes, f->identity, &problem);
        memcpy(&f->header, file.image, sizeof f->header);
        free(file.image);
    } else if (problem.status == FFN_OK) {
        diag_fail(&problem, FFN_BAD_FILE, "%llu bytes are no whole entry", (unsigned long long)row->bytes);
    }
    memcpy(f->reason, problem.text, sizeof f->reason);
}

static bool is_whole(const finding *f) {
    return f->status == FFN_OK || f->status == FFN_UNSUPPORTED;
}

/* "3 min": one unit is enough to see what goes first. */
static void age_text(int64_t seconds, char *text, size_t text_bytes) {
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = {{86400, "days"}, {3600, "h"}, {60, "min"}, {0, "s"}};
    int u = 0;
    while (seconds < 2 * units[u].seconds)
        u++;
    int64_t unit = units[u].seconds > 0 ? units[u].seconds : 1;
    snprintf(text, text_bytes, "%lld %s", (long long)(seconds / unit), units[u].name);
}

static void list_json(work *w, const store_listed *row, const finding *f, const char *spec, const char *plan,
                      int64_t age) {
    json_line line = json_begin();
    json_text(&line, "entry", row->name);
    if (is_whole(f)) {
        json_text(&line, "spec", spec);
        json_text(&line, "isa", ffn_isa_name((ffn_isa)f->header.isa));
        json_text(&line, "n_class", ffn_n_class_name(f->header.plan.n_class));
        json_text(&line, "plan", plan);
        json_text(&line, "generator", f->identity);
        json_flag(&line, "verified", f->header.verified != 0);
    } else {
        json_text(&line, "reason", f->reason);
    }
    json_flag(&line, "runs_here", f->status == FFN_OK);
    json_integer(&line, "bytes", (int64_t)row->bytes);
    json_integer(&line, "age_s", age);
    w->failed = !json_end(&line) || w->failed;
}

/* What libffngen calls itself: "generator <hash>, LLVM ..."; other sources call themselves what they like. */
static const char *generator_of(const char *identity) {
    static const char word[] = "generator ";
    return strncmp(identity, word, sizeof word - 1) == 0 ? identity + sizeof word - 1 : identity;
}

static void list_row(work *w, const store_listed *row) {
    finding f = {0};
    examine(w, row, &f);
    char spec[FFN_SPEC_TEXT_BYTES] = "", plan[PLAN_TEXT_BYTES] = "", age[32];
    int64_t seconds = (int64_t)time(NULL) - row->used_seconds;
    seconds = seconds > 0 ? seconds : 0;
    if (is_whole(&f)) {
        ffn_spec_format(&f.header.spec, spec, sizeof spec, NULL);
        cmd_plan_text(&f.header.plan, plan, sizeof plan);
    }
    if (w->json) {
        list_json(w, row, &f, spec, plan, seconds);
        return;
    }
    age_text(seconds, age, sizeof age);
    report_cell(&w->table, "%llu", (unsigned long long)row->bytes);
    report_cell(&w->table, "%s", age);
    report_cell(&w->table, "%s", !is_whole(&f) ? "damaged" : f.header.verified ? "yes" : "no");
    report_cell(&w->table, "%.*s", IDENTITY_SHOWN, is_whole(&f) ? generator_of(f.identity) : "-");
    report_cell(&w->table, "%s", is_whole(&f) ? f.header.llvm_version : "-");
    report_cell(&w->table, "%s", is_whole(&f) ? spec : row->name);
    report_cell(&w->table, "%s", is_whole(&f) ? plan : "-");
}

static int list(work *w) {
    static const report_column columns[] = {{"bytes", 0, true},      {"used", 0, true},  {"verified", 0, false},
                                            {"generator", 0, false}, {"LLVM", 0, false}, {"spec", 0, false},
                                            {"plan", 0, false}};
    if (!w->json && w->listing.count > 0)
        w->table = report_begin(columns, COUNT(columns), true);
    for (size_t i = w->listing.count; i-- > 0;) /* the one used last comes first */
        list_row(w, &w->listing.rows[i]);
    if (w->json) {
        json_line line = json_begin();
        json_text(&line, "store", w->path);
        json_integer(&line, "entries", (int64_t)w->listing.count);
        json_integer(&line, "bytes", (int64_t)w->listing.bytes);
        json_integer(&line, "limit_bytes", FFN_STORE_BYTES_DEFAULT);
        return json_end(&line) && !w->failed ? CMD_OK : CMD_FAILED;
    }
    if (w->listing.count > 0 && !report_end(&w->table))
        return CMD_FAILED;
    cmd_print("%s%s: %zu %s, %.1f KiB; the limit is %.0f MiB where a program sets no other", w->path,
              w->folder < 0 ? " (not there yet)" : "", w->listing.count, w->listing.count == 1 ? "entry" : "entries",
              (double)w->listing.bytes / 0x1p10, (double)FFN_STORE_BYTES_DEFAULT / 0x1p20);
    return CMD_OK;
}

static int verify(work *w) {
    size_t bad = 0, foreign = 0;
    for (size_t i = 0; i < w->listing.count; i++) {
        const store_listed *row = &w->listing.rows[i];
        finding f = {0};
        examine(w, row, &f);
        bad += !is_whole(&f);
        foreign += f.status == FFN_UNSUPPORTED;
        if (w->json) {
            json_line line = json_begin();
            json_text(&line, "entry", row->name);
            json_flag(&line, "passed", is_whole(&f));
            json_flag(&line, "runs_here", f.status == FFN_OK);
            if (*f.reason)
                json_text(&line, "reason", f.reason);
            w->failed = !json_end(&line) || w->failed;
        } else if (!is_whole(&f)) {
            cmd_print("bad: %s: %s", row->name, f.reason);
        }
    }
    if (!w->json)
        cmd_print("%s: %zu entries, %zu bad, %zu whole but not for this CPU", w->path, w->listing.count, bad, foreign);
    if (bad > 0)
        cmd_error(w->command, CMD_FAILED, "%zu of %zu entries are bad; none of them would be used", bad,
                  w->listing.count);
    return bad > 0 || w->failed ? CMD_FAILED : CMD_OK;
}

static int clear(work *w) {
    size_t entries = 0, temporary = w->folder >= 0 ? store_sweep(w->folder) : 0, stay = 0;
    for (size_t i = 0; i < w->listing.count; i++) {
        const store_listed *row = &w->listing.rows[i];
        bool removed = store_remove(w->folder, row->name);
        entries += removed;
        if (!removed && row->is_file && errno != ENOENT) {
            cmd_error(w->command, CMD_FAILED, "%s/%s: %s", w->path, row->name, strerror(errno));
            stay++;
        }
    }
    if (w->json) {
        json_line line = json_begin();
        json_text(&line, "store", w->path);
        json_integer(&line, "removed", (int64_t)entries);
        json_integer(&line, "removed_temporary", (int64_t)temporary);
        w->failed = !json_end(&line);
    } else {
        cmd_print("%s: %zu entries removed, %zu temporary files of writers that are gone", w->path, entries, temporary);
    }
    return stay > 0 || w->failed ? CMD_FAILED : CMD_OK;
}

static const struct {
    const char *name;
    int (*act)(work *w);
} actions[] = {{"list", list}, {"verify", verify}, {"clear", clear}};

static const char *action_at(size_t i) {
    return i < sizeof actions / sizeof actions[0] ? actions[i].name : NULL;
}

static int act(const cmd *command, int action, const char *folder, bool json) {
    ffn_diag problem = {.status = FFN_OK};
    char *path = store_folder_path(folder, &problem);
    if (!path)
        return cmd_error(command, CMD_FAILED, "%s", problem.text);
    work w = {.command = command, .path = path, .json = json};
    int status = CMD_OK;
    w.folder = store_folder_open(path, false, &problem);
    if (w.folder >= 0)
        store_list(w.folder, &w.listing, &problem);
    status = problem.status ? cmd_error(command, CMD_FAILED, "%s", problem.text) : actions[action].act(&w);
    store_listing_free(&w.listing);
    if (w.folder >= 0)
        close(w.folder);
    free(path);
    return status;
}

static int run(const cmd *command, int argc, char **argv) {
    const char *folder = NULL;
    bool json = false;
    const option_row table[] = {
        {"store", 0, OPTION_TEXT, &folder, "DIR", "default: $XDG_CACHE_HOME/ffngen or ~/.cache/ffngen", NULL},
        {"json", 0, OPTION_FLAG, &json, NULL, "one JSON object a line", NULL},
        {0}};
    int operands, status;
    if (!options_parse(command, table, argc, argv, &operands, &status))
        return status;
    if (operands == argc)
        return cmd_error(command, CMD_USAGE, "what is to be done? list, verify or clear");
    if (argc - operands > 1)
        return cmd_error(command, CMD_USAGE, "one thing at a time: '%s' is one more", argv[operands + 1]);
    for (int i = 0; i < COUNT(actions); i++) {
        if (!strcmp(actions[i].name, argv[operands]))
            return act(command, i, folder, json);
    }
    char near[192];
    diag_near_names(argv[operands], action_at, near, sizeof near);
    return cmd_error(command, CMD_USAGE, "'%s' is not one of list, verify, clear%s", argv[operands], near);
}

const cmd cmd_cache = {
    "cache", "list|verify|clear [options]", "Lists, checks or removes the kernels kept on disk.", NULL, run, false};
