/* tune_worker.c: the parent's side: starts the child, asks it, ends it */
#define _GNU_SOURCE
#include "tune_worker.h"

#include "diag.h"
#include "rounds.h"
#include "tune_child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_SECONDS 60              /* of a child that is not told a limit: x and y are made */
#define WAIT_MS 250                   /* after which a signal that came just before the wait is seen */
#define CHILD_BYTES ((rlim_t)2 << 30) /* on top of what the parent has */
#define SOCKET 3                      /* of the child */

typedef struct known {
    ffn_plan plan;
    int child; /* number of the child that has it prepared */
} known;

struct tune_worker {
    tune_setup setup;
    char folder[PATH_MAX];
    pid_t child; /* 0: none */
    int socket;
    int number; /* of the child, from 1 */
    known *plans;
    int count;
};

/* ---- Start and end ---- */

/* Kernels of its own are small; a plan that wants gigabytes is stopped before it takes the machine with it. The
 * sanitizers' own maps are larger. */
static void limit_memory(void) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    bool known_size = file && fscanf(file, "%*u %*u %*u %*u %*u %llu", &pages) == 1;
    if (file)
        fclose(file);
    struct rlimit limit;
    if (!known_size || getrlimit(RLIMIT_DATA, &limit))
        return;
    rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + CHILD_BYTES;
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > most)
        limit.rlim_cur = most;
    setrlimit(RLIMIT_DATA, &limit);
#endif
}

/* Nothing of the parent's stays open: a log that it has locked least of all. */
static void become_child(const tune_worker *worker, int socket, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    signal(SIGINT, SIG_IGN); /* of the terminal: the parent decides */
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    int quiet = open("/dev/null", O_RDWR);
    int kept = fcntl(socket, F_DUPFD, SOCKET + 1);
    for (int file = 0; file < SOCKET; file++)
        dup2(quiet, file);
    dup2(kept, SOCKET);
    close_range(SOCKET + 1, ~0U, 0);
    limit_memory();
    tune_child_serve(&worker->setup, worker->folder, SOCKET);
    _exit(0);
}

static void end_child(tune_worker *worker, int *status) {
    *status = 0;
    if (worker->child == 0)
        return;
    kill(worker->child, SIGKILL);
    while (waitpid(worker->child, status, 0) < 0 && errno == EINTR)
        ;
    close(worker->socket);
    worker->child = 0;
}

/* What is in a folder one level deep, and the folder. */
static void remove_folder(const char *folder) {
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        char path[PATH_MAX + 256];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlink(path);
    }
    if (entries)
        closedir(entries);
    rmdir(folder);
}

ffn_status tune_worker_create(const tune_setup *setup, tune_worker **worker, ffn_diag *diag) {
    tune_worker *made = calloc(1, sizeof *made);
    if (!made)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory for a worker");
    made->setup = *setup;
    const char *temporary = getenv("TMPDIR");
    if (!temporary || *temporary != '/')
        temporary = "/tmp";
    int length = snprintf(made->folder, sizeof made->folder, "%s/ffngen-tune-XXXXXX", temporary);
    if (length >= (int)sizeof made->folder || !mkdtemp(made->folder)) {
        int error = errno;
        free(made);
        return diag_fail(diag, FFN_SYSTEM, "no folder can be made in %.200s: %s", temporary, strerror(error));
    }
    *worker = made;
    return FFN_OK;
}

void tune_worker_destroy(tune_worker *worker) {
    if (!worker)
        return;
    int status;
    end_child(worker, &status);
    remove_folder(worker->folder);
    free(worker->plans);
    free(worker);
}

int tune_worker_child(const tune_worker *worker) {
    return worker->child;
}

const char *tune_worker_folder(const tune_worker *worker) {
    return worker->folder;
}

/* ---- Asking ---- */

static bool stopping(void *self) {
    const tune_worker *worker = self;
    return worker->setup.stopping && *worker->setup.stopping;
}

static double now(void *self) {
    (void)self;
    return bench_now_ms(BENCH_CLOCK_WALL) * 1e-3;
}

/* How a child ended that was not asked to. */
static void describe_end(int status, char reason[TUNE_REASON_BYTES]) {
    if (WIFSIGNALED(status))
        snprintf(reason, TUNE_REASON_BYTES, "its process died: %s", strsignal(WTERMSIG(status)));
    else
        snprintf(reason, TUNE_REASON_BYTES, "its process ended with status %d", WEXITSTATUS(status));
}

/* Waits for an answer. Without one there is no child afterwards. */
static tune_state listen_for(tune_worker *worker, double seconds, tune_answer *answer, char reason[TUNE_REASON_BYTES]) {
    double until = now(worker) + seconds;
    int status;
    for (;;) {
        double left = (until - now(worker)) * 1e3;
        struct pollfd wait = {.fd = worker->socket, .events = POLLIN};
        int ready = left > 0 && !stopping(worker) ? poll(&wait, 1, (int)ceil(fmin(left, WAIT_MS))) : 0;
        if (ready > 0) {
            ssize_t got = recv(worker->socket, answer, sizeof *answer, 0);
            if (got == (ssize_t)sizeof *answer)
                return TUNE_OK;
            if (got < 0 && errno == EINTR)
                continue;
            for (int i = 0; i < 100 && waitpid(worker->child, &status, WNOHANG | WNOWAIT) == 0; i++)
                poll(NULL, 0, 10); /* it is about to end by itself, and how it does is the reason */
            end_child(worker, &status);
            describe_end(status, reason);
            return TUNE_CRASHED;
        }
        if (stopping(worker)) {
            end_child(worker, &status);
            return TUNE_PENDING;
        }
        if (now(worker) >= until) {
            end_child(worker, &status);
            snprintf(reason, TUNE_REASON_BYTES, "no answer within %.3g s", seconds);
            return TUNE_HUNG;
        }
    }
}

static tune_state broken(char reason[TUNE_REASON_BYTES], const char *what, int error) {
    snprintf(reason, TUNE_REASON_BYTES, "%s: %s", what, strerror(error));
    return TUNE_BROKEN;
}

static tune_state start(tune_worker *worker, char reason[TUNE_REASON_BYTES]) {
    int sockets[2];
    if (worker->child)
        return TUNE_OK;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
        return broken(reason, "no sockets for a worker", errno);
    fflush(NULL);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        close(sockets[0]);
        become_child(worker, sockets[1], parent);
    }
    close(sockets[1]);
    if (child < 0) {
        int error = errno;
        close(sockets[0]);
        return broken(reason, "no process for a worker", error);
    }
    worker->child = child;
    worker->socket = sockets[0];
    worker->number++;
    tune_answer ready;
    tune_state state = listen_for(worker, START_SECONDS, &ready, reason);
    if (state == TUNE_OK && ready.status) {
        memcpy(reason, ready.text, TUNE_REASON_BYTES);
        return TUNE_BROKEN;
    }
    return state == TUNE_OK || state == TUNE_PENDING ? state : TUNE_BROKEN;
}

static tune_state ask(tune_worker *worker, const tune_request *request, double seconds, tune_answer *answer,
                      char reason[TUNE_REASON_BYTES]) {
    tune_state state = start(worker, reason);
    if (state != TUNE_OK)
        return state;
    send(worker->socket, request, sizeof *request, MSG_NOSIGNAL); /* a child that has gone does not answer */
    state = listen_for(worker, seconds, answer, reason);
    if (state != TUNE_OK || !answer->status)
        return state;
    memcpy(reason, answer->text, TUNE_REASON_BYTES);
    reason[TUNE_REASON_BYTES - 1] = '\0';
    return answer->status == FFN_VERIFY_FAILED ? TUNE_WRONG : TUNE_REFUSED;
}

static tune_state prepare_again(tune_worker *worker, int index, double seconds, bool *verified,
                                char reason[TUNE_REASON_BYTES]) {
    known *of = &worker->plans[index];
    tune_answer answer;
    const tune_request request = {.kind = TUNE_ASK_PREPARE, .index = index, .plan = of->plan};
    tune_state state = ask(worker, &request, seconds, &answer, reason);
    if (state == TUNE_OK) {
        of->child = worker->number;
        *verified = answer.verified;
    }
    return state;
}

static tune_state prepare(void *self, int index, const ffn_plan *plan, double seconds, bool *verified,
                          char reason[TUNE_REASON_BYTES]) {
    tune_worker *worker = self;
    if (index >= worker->count) {
        int count = 2 * index + 64;
        known *plans = realloc(worker->plans, (size_t)count * sizeof *plans);
        if (!plans)
            return broken(reason, "no memory for plans", ENOMEM);
        memset(plans + worker->count, 0, (size_t)(count - worker->count) * sizeof *plans);
        worker->plans = plans;
        worker->count = count;
    }
    worker->plans[index] = (known){.plan = *plan};
    return prepare_again(worker, index, seconds, verified, reason);
}

static tune_state take(void *self, int index, double seconds, tune_sample *sample, char reason[TUNE_REASON_BYTES]) {
    tune_worker *worker = self;
    tune_answer answer;
    bool verified;
    double until = now(worker) + seconds;
    tune_state state = TUNE_OK;
    if (worker->child == 0 || worker->plans[index].child != worker->number)
        state = prepare_again(worker, index, seconds, &verified, reason);
    const tune_request request = {.kind = TUNE_ASK_SAMPLE, .index = index};
    if (state == TUNE_OK)
        state = ask(worker, &request, until - now(worker), &answer, reason);
    if (state == TUNE_OK)
        *sample = answer.sample;
    return state;
}

tune_lab tune_worker_lab(tune_worker *worker) {
    return (tune_lab){.prepare = prepare, .sample = take, .now = now, .stopped = stopping, .self = worker};
}
