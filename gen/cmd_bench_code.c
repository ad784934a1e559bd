/* cmd_bench_code.c: see cmd_bench_code.h */
#define _GNU_SOURCE
#include "cmd_bench_code.h"

#include "diag.h"
#include "ffngen.h"
#include "image.h"
#include "isa.h"
#include "machine.h"
#include "packed.h"
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct answer {
    double ms;
    int64_t bytes;
    ffn_status status;
    ffn_diag diag;
} answer;

static double process_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static double ms_of(struct timeval time) {
    return (double)time.tv_sec * 1e3 + (double)time.tv_usec * 1e-3;
}

ffn_status bench_code_load(double *ms, ffn_diag *diag) {
    enum { TIMES = 3 };
    *ms = INFINITY;
    for (int i = 0; i < TIMES; i++) {
        struct rusage usage;
        int state = -1;
        const pid_t child = fork();
        if (child == 0) {
            const int nowhere = open("/dev/null", O_WRONLY);
            if (nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0)
                execl("/proc/self/exe", "ffngen", "--version", (char *)NULL);
            _exit(1);
        }
        while (child > 0 && wait4(child, &state, 0, &usage) < 0 && errno == EINTR)
            ;
        if (state)
            return diag_fail(diag, FFN_SYSTEM, "a process that loads LLVM and does nothing else could not be run");
        *ms = fmin(*ms, ms_of(usage.ru_utime) + ms_of(usage.ru_stime));
    }
    return FFN_OK;
}

static ffn_status compile(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class, const ffn_machine *machine,
                          int64_t *bytes, ffn_diag *diag) {
    ffn_plan plan;
    ffn_bytes out = {.data = NULL};
    image_header header;
    ffn_status status = ffn_plan_make(spec, isa, n_class, machine, &plan, diag);
    status = status ? status : ffngen_emit(spec, &plan, FFNGEN_IMAGE, &out, diag);
    if (status)
        return status;
    memcpy(&header, out.data, sizeof header);
    *bytes += (int64_t)(header.text_bytes + header.rodata_bytes);
    out.release(out.data);
    return FFN_OK;
}

static void compile_classes(const ffn_spec *spec, ffn_isa isa, int first, int last, answer *of) {
    ffn_machine machine;
    machine_read_calibrated(&machine, NULL);
    double begin = process_ms();
    for (int c = first; c <= last && !of->status; c++)
        of->status = compile(spec, isa, (ffn_n_class)c, &machine, &of->bytes, &of->diag);
    of->ms = process_ms() - begin;
}

/* A pipe holds an answer whole, so that the child never waits for its reader. */
static ffn_status in_child(const ffn_spec *spec, ffn_isa isa, int first, int last, answer *of, ffn_diag *diag) {
    int ends[2], state;
    *of = (answer){.status = FFN_OK};
    if (pipe(ends))
        return diag_fail(diag, FFN_SYSTEM, "no pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        compile_classes(spec, isa, first, last, of);
        _exit(write(ends[1], of, sizeof *of) != (ssize_t)sizeof *of);
    }
    close(ends[1]);
    ssize_t got = child > 0 ? read(ends[0], of, sizeof *of) : -1;
    close(ends[0]);
    if (child < 0)
        return diag_fail(diag, FFN_SYSTEM, "no process to compile in: %s", strerror(errno));
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    if (got != (ssize_t)sizeof *of)
        return diag_fail(diag, FFN_COMPILE_FAILED, "the process that compiles ended before it was done");
    return of->status ? diag_fail(diag, of->status, "%s", of->diag.text) : FFN_OK;
}

ffn_status bench_code_measure(const ffn_spec *spec, ffn_isa isa, bench_code *code, ffn_diag *diag) {
    answer of;
    *code = (bench_code){0};
    for (int c = 0; c < FFN_N_CLASSES; c++) {
        ffn_status status = in_child(spec, isa, c, c, &of, diag);
        if (status)
            return status;
        if (of.ms > code->one_ms) {
            code->one_ms = of.ms;
            code->dearest = (ffn_n_class)c;
        }
    }
    for (int i = 0; i < FFN_ISA_COUNT; i++) {
        if (!isa_row_of((ffn_isa)i))
            continue;
        ffn_status status = in_child(spec, (ffn_isa)i, 0, FFN_N_CLASSES - 1, &of, diag);
        if (status)
            return status;
        code->bytes[i] = of.bytes;
        if (i == (int)isa)
            code->all_ms = of.ms;
    }
    return FFN_OK;
}

ffn_status bench_memory_measure(const ffn_spec *spec, ffn_isa isa, bench_memory *memory, ffn_diag *diag) {
    packed_layout layout;
    ffn_machine machine;
    ffn_plan plan;
    int64_t floats = (ffn_spec_gated(spec) ? 3 : 2) * spec->d_model * spec->d_ff;
    floats += (spec->bias & FFN_BIAS_UP ? spec->d_ff : 0) + (spec->bias & FFN_BIAS_GATE ? spec->d_ff : 0) +
              (spec->bias & FFN_BIAS_DOWN ? spec->d_model : 0);
    *memory = (bench_memory){0};
    ffn_status status = packed_layout_of(spec, &layout, diag);
    machine_read_calibrated(&machine, NULL);
    for (int c = 0; c < FFN_N_CLASSES && !status; c++) {
        status = ffn_plan_make(spec, isa, (ffn_n_class)c, &machine, &plan, diag);
        int64_t bytes = status ? 0 : plan_scratch_bytes(spec, &plan);
        if (bytes > memory->scratch_bytes)
            *memory = (bench_memory){.scratch_bytes = bytes, .largest = (ffn_n_class)c};
    }
    if (!status)
        memory->packed_over_weights = (double)layout.total_bytes / ((double)floats * sizeof(float));
    return status;
}
