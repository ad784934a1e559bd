/* fuzz_kernels.c: random specs, plans, data and calls -> whether every kernel does what it must and nothing else
 *
 *   fuzz_kernels [--seed N] [--cases N] [--seconds S] [--spec TEXT] [--plan LINE] [--seeds FILE]
 *
 * Cases from --seed on (default 1) until there were --cases of them or --seconds have passed. --seed N --cases 1
 * repeats one exactly. --spec and --plan stand in for what would be drawn. FILE has a line "SEED | SPEC | PLAN" for
 * each finding there was (docs/fuzzing.md): its group of cases is repeated first. Exit status: 0 no finding, 1
 * findings, 2 bad usage; a crash names its case and then takes its course. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fuzz_kernels.h"

enum { FINDINGS_MAX = 20, SECONDS_A_GROUP = 120, SECONDS_A_LINE = 60 };

typedef struct options {
    uint64_t seed;
    uint64_t cases; /* UINT64_MAX: no limit */
    double seconds; /* 0: no limit */
    fuzz_given given;
    const char *seeds;
} options;

/* ---- Whoever ends the program says where it was ---- */

static char about[ABOUT_BYTES];

static void say_where(void) {
    static const char words[] = "\nfuzz_kernels: CRASH in ";
    ssize_t written = write(STDERR_FILENO, words, sizeof words - 1);
    written += write(STDERR_FILENO, about, strlen(about));
    (void)written;
}

static struct sigaction before[NSIG];

/* The instruction that trapped runs again, under the handler that was there before. */
static void on_signal(int number) {
    say_where();
    sigaction(number, &before[number], NULL);
    if (number == SIGALRM || number == SIGABRT)
        raise(number);
}

/* Of a sanitizer's run time, where there is one. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void watch(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGALRM};
    static char stack[1 << 16];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, &before[signals[i]]);
    if (__sanitizer_set_death_callback != NULL)
        __sanitizer_set_death_callback(say_where);
}

/* ---- Counting what differs ---- */

enum { SET_SLOTS = 1 << 20 };

typedef struct set {
    uint64_t slots[SET_SLOTS];
    uint64_t count;
} set;

static void set_add(set *s, const char *text) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    hash += hash == 0;
    uint64_t at = hash % SET_SLOTS;
    while (s->slots[at] != 0 && s->slots[at] != hash)
        at = (at + 1) % SET_SLOTS;
    if (s->slots[at] == 0 && s->count < SET_SLOTS - 1) {
        s->slots[at] = hash;
        s->count++;
    }
}

/* ---- The run ---- */

typedef struct run {
    fuzz_arenas arenas;
    fuzz_subject subject;
    fuzz_weights weights;
    const void *packed;
    struct timespec start;
    uint64_t cases, compiled[FFN_ISA_COUNT], findings;
    double next_line;
} run;

static set specs, plans;

static double seconds_of(const run *r) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - r->start.tv_sec) + 1e-9 * (double)(now.tv_nsec - r->start.tv_nsec);
}

static void print_counts(const run *r, FILE *to) {
    uint64_t compiled = 0;
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++)
        compiled += r->compiled[isa];
    fprintf(to, "fuzz_kernels: %llu cases, %llu kernels compiled", (unsigned long long)r->cases,
            (unsigned long long)compiled);
    for (ffn_isa isa = FFN_ISA_PORTABLE + 1; isa < FFN_ISA_COUNT; isa++)
        if (r->compiled[isa] > 0)
            fprintf(to, ", %s%s %llu", ffn_isa_name(isa), ffn_isa_supported(isa) ? "" : " (run as AVX2 code)",
                    (unsigned long long)r->compiled[isa]);
    fprintf(to, "; %llu specs, %llu plans, %.1f s, %llu findings\n", (unsigned long long)specs.count,
            (unsigned long long)plans.count, seconds_of(r), (unsigned long long)r->findings);
    fflush(to);
}

static void print_finding(run *r, const char *finding) {
    r->findings++;
    printf("FINDING %s  %s\n", about, finding);
    fflush(stdout);
}

static bool is_over(const run *r, const options *o) {
    return r->findings >= FINDINGS_MAX || (o->seconds > 0 && seconds_of(r) >= o->seconds);
}

static bool begin_group(run *r, uint64_t group, const fuzz_given *given) {
    char finding[FINDING_BYTES] = "";
    snprintf(about, sizeof about, "seed %llu: making its kernel\n", (unsigned long long)(group * GROUP));
    alarm(SECONDS_A_GROUP);
    fuzz_subject_free(&r->subject);
    const bool made = fuzz_subject_make(group, given, &r->subject, finding);
    if (!made) {
        snprintf(about, sizeof about, "seed %llu: %s\n  plan %s\n", (unsigned long long)(group * GROUP),
                 r->subject.spec_text, r->subject.plan_text);
        print_finding(r, finding);
        return false;
    }
    set_add(&specs, r->subject.spec_text);
    r->compiled[r->subject.isa]++;
    if (r->subject.isa != FFN_ISA_PORTABLE)
        set_add(&plans, r->subject.plan_text);
    return true;
}

static bool begin_weights(run *r, uint64_t seed) {
    char finding[FINDING_BYTES];
    fuzz_weights_free(&r->weights);
    if (fuzz_weights_make(seed / SHARE, &r->subject, &r->arenas.packed, &r->packed, &r->weights, finding))
        return true;
    snprintf(about, sizeof about, "seed %llu: %s\n", (unsigned long long)seed, r->subject.spec_text);
    print_finding(r, finding);
    return false;
}

/* Cases first .. first + count - 1. A group has one finding: more of them would be the same one. */
static void run_cases(run *r, const options *o, const fuzz_given *given, uint64_t first, uint64_t count) {
    bool group_made = false, weights_made = false;
    char finding[FINDING_BYTES];
    for (uint64_t seed = first; seed - first < count && !is_over(r, o); seed++) {
        if (seed == first || seed % GROUP == 0)
            group_made = begin_group(r, seed / GROUP, given);
        if (!group_made)
            continue;
        if (seed == first || seed % SHARE == 0)
            weights_made = begin_weights(r, seed);
        group_made = weights_made;
        if (!weights_made)
            continue;
        fuzz_case_run(seed, &r->subject, &r->weights, &r->arenas, r->packed, about, finding);
        r->cases++;
        if (finding[0] != '\0') {
            print_finding(r, finding);
            group_made = false;
        }
        if (seconds_of(r) >= r->next_line) {
            r->next_line += SECONDS_A_LINE;
            print_counts(r, stderr);
        }
    }
}

static char *trimmed(char *text) {
    text += strspn(text, " \t");
    for (size_t end = strlen(text); end > 0 && strchr(" \t\n", text[end - 1]) != NULL; end--)
        text[end - 1] = '\0';
    return text;
}

static bool number_of(const char *text, uint64_t *number) {
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

/* False where the file is not one of seeds. */
static bool run_seeds(run *r, const options *o) {
    char line[2 * ABOUT_BYTES];
    FILE *file = fopen(o->seeds, "r");
    if (file == NULL)
        return false;
    bool good = true;
    while (good && fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#' || *trimmed(line) == '\0')
            continue;
        char *spec = strchr(line, '|'), *plan = spec != NULL ? strchr(spec + 1, '|') : NULL;
        good = plan != NULL;
        if (good) {
            uint64_t seed;
            *spec = *plan = '\0';
            const fuzz_given given = {trimmed(spec + 1), trimmed(plan + 1)};
            good = number_of(trimmed(line), &seed);
            if (good)
                run_cases(r, o, &given, seed / GROUP * GROUP, GROUP);
        }
    }
    good = good && !ferror(file); /* a folder opens, too */
    fclose(file);
    return good;
}

static bool options_of(int count, char **words, options *o) {
    for (int i = 1; i < count; i += 2) {
        const char *name = words[i], *value = i + 1 < count ? words[i + 1] : NULL;
        uint64_t seconds;
        bool good = value != NULL;
        if (!good)
            return false;
        if (strcmp(name, "--seed") == 0)
            good = number_of(value, &o->seed);
        else if (strcmp(name, "--cases") == 0)
            good = number_of(value, &o->cases);
        else if (strcmp(name, "--seconds") == 0)
            good = number_of(value, &seconds), o->seconds = (double)seconds;
        else if (strcmp(name, "--spec") == 0)
            o->given.spec = value;
        else if (strcmp(name, "--plan") == 0)
            o->given.plan = value;
        else if (strcmp(name, "--seeds") == 0)
            o->seeds = value;
        else
            good = false;
        if (!good)
            return false;
    }
    return true;
}

static void make_arenas(fuzz_arenas *arenas) {
    const size_t row = (2 * D_MAX + LD_EXTRA_MAX + 16) * sizeof(float);
    arenas->x = fuzz_arena_make(N_MAX * row);
    arenas->y = fuzz_arena_make(N_MAX * row);
    arenas->scratch = fuzz_arena_make((size_t)256 << 20); /* twelve pieces of the largest scratch drawn */
    arenas->hidden = fuzz_arena_make(N_MAX * row);
    arenas->packed = fuzz_arena_make((size_t)2 << 20);
}

int main(int count, char **words) {
    static run r;
    options o = {.seed = 1, .cases = UINT64_MAX};
    if (!options_of(count, words, &o) || (o.cases == UINT64_MAX && o.seconds == 0)) {
        fprintf(stderr, "usage: fuzz_kernels [--seed N] [--cases N] [--seconds S] [--spec TEXT] [--plan LINE] "
                        "[--seeds FILE]\none of --cases and --seconds must be given\n");
        return 2;
    }
    ffn_diag diag = {.text = ""};
    if (!fuzz_given_check(&o.given, &diag)) {
        fprintf(stderr, "fuzz_kernels: %s\n", diag.text);
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &r.start);
    r.next_line = SECONDS_A_LINE;
    make_arenas(&r.arenas);
    watch();
    if (o.seeds != NULL && !run_seeds(&r, &o)) {
        fprintf(stderr, "fuzz_kernels: %s cannot be read as lines of SEED | SPEC | PLAN\n", o.seeds);
        return 2;
    }
    run_cases(&r, &o, &o.given, o.seed, o.cases);
    fuzz_weights_free(&r.weights);
    fuzz_subject_free(&r.subject);
    print_counts(&r, stdout);
    return r.findings > 0;
}
