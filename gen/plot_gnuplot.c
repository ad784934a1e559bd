/* plot_gnuplot.c: a script -> gnuplot's standard output, whole, or the reason why there is none
 *
 * The program is started from PATH, without a shell and without the user's own settings; script, picture and complaints
 * pass through sockets and pipes, never through a file. */
#define _GNU_SOURCE
#include "plot_script.h"

#include "diag.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SILENCE_MS 60000 /* without a byte in or out: it hangs */
#define PICTURE_BYTES_MAX ((size_t)256 << 20)
#define COMPLAINT_BYTES_MAX ((size_t)64 << 10)

extern char **environ;

enum { SCRIPT, PICTURE, COMPLAINT, STREAMS };

typedef struct run {
    pid_t child;
    int ours[STREAMS], theirs[STREAMS]; /* -1: closed */
    const char *script;
    size_t script_bytes;
    text picture, complaint;
} run;

static void close_one(int *file) {
    if (*file >= 0)
        close(*file);
    *file = -1;
}

/* A socket for the script, for a program that has gone is then an error of ours to see and no signal. */
static ffn_status open_streams(run *r, ffn_diag *diag) {
    int pair[2];
    for (int i = 0; i < STREAMS; i++)
        r->ours[i] = r->theirs[i] = -1;
    for (int i = 0; i < STREAMS; i++) {
        int failed = i == SCRIPT ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) : pipe2(pair, O_CLOEXEC);
        if (failed)
            return diag_fail(diag, FFN_SYSTEM, "no pipe to gnuplot: %s", strerror(errno));
        r->ours[i] = pair[0];
        r->theirs[i] = pair[1];
        fcntl(r->ours[i], F_SETFL, fcntl(r->ours[i], F_GETFL) | O_NONBLOCK);
    }
    return FFN_OK;
}

static ffn_status start(run *r, ffn_diag *diag) {
    char name[] = "gnuplot", plain[] = "-d"; /* -d: no gnuplotrc, no ~/.gnuplot */
    char *const arguments[] = {name, plain, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t signals;
    sigemptyset(&signals);
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "no memory to start gnuplot");
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        posix_spawnattr_setsigmask(&attributes, &signals);
        sigaddset(&signals, SIGPIPE);
        posix_spawnattr_setsigdefault(&attributes, &signals);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        for (int i = 0; i < STREAMS && !error; i++)
            error = posix_spawn_file_actions_adddup2(&actions, r->theirs[i], i);
        if (!error)
            error = posix_spawnp(&r->child, name, &actions, &attributes, arguments, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    if (error == ENOENT)
        return diag_fail(
            diag, FFN_UNSUPPORTED,
            "gnuplot, which draws the pictures, is not installed; Debian and Ubuntu have it in gnuplot-nox");
    if (error)
        return diag_fail(diag, FFN_SYSTEM, "gnuplot could not be started: %s", strerror(error));
    return FFN_OK;
}

static void send_some(run *r) {
    ssize_t sent = send(r->ours[SCRIPT], r->script, r->script_bytes, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (sent > 0) {
        r->script += sent;
        r->script_bytes -= (size_t)sent;
    }
    if (sent < 0 || r->script_bytes == 0)
        close_one(&r->ours[SCRIPT]); /* one that does not want the rest says why in its complaint */
}

/* False if there is more than can be. What is too long a complaint is read and forgotten. */
static bool take_some(run *r, int stream) {
    char bytes[1 << 14];
    text *to = stream == PICTURE ? &r->picture : &r->complaint;
    ssize_t got = read(r->ours[stream], bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0)
        close_one(&r->ours[stream]);
    else if (stream == PICTURE || to->bytes < COMPLAINT_BYTES_MAX)
        text_add(to, bytes, (size_t)got);
    return r->picture.bytes <= PICTURE_BYTES_MAX;
}

static ffn_status talk(run *r, ffn_diag *diag) {
    if (r->script_bytes == 0)
        close_one(&r->ours[SCRIPT]);
    while (r->ours[PICTURE] >= 0 || r->ours[COMPLAINT] >= 0) {
        struct pollfd polled[STREAMS];
        for (int i = 0; i < STREAMS; i++)
            polled[i] = (struct pollfd){.fd = r->ours[i], .events = i == SCRIPT ? POLLOUT : POLLIN};
        int ready = poll(polled, STREAMS, SILENCE_MS);
        if (ready == 0)
            return diag_fail(diag, FFN_SYSTEM, "gnuplot hangs: nothing came for %d s", SILENCE_MS / 1000);
        if (ready < 0 && errno != EINTR)
            return diag_fail(diag, FFN_SYSTEM, "gnuplot could not be waited for: %s", strerror(errno));
        if (ready < 0)
            continue;
        if (polled[SCRIPT].revents)
            send_some(r);
        for (int i = PICTURE; i <= COMPLAINT; i++) {
            if (polled[i].revents && !take_some(r, i))
                return diag_fail(diag, FFN_SYSTEM, "gnuplot's picture is too large");
        }
    }
    return FFN_OK;
}

/* Its first line that says something. */
static ffn_status complain(run *r, int status, ffn_diag *diag) {
    text_add(&r->complaint, "", 1);
    char *line = r->complaint.failed ? NULL : r->complaint.data + strspn(r->complaint.data, " \t\r\n");
    if (line)
        line[strcspn(line, "\r\n")] = 0;
    if (line && *line) {
        diag_printable(line);
        return diag_fail(diag, FFN_SYSTEM, "gnuplot failed: %.200s", line);
    }
    if (WIFSIGNALED(status))
        return diag_fail(diag, FFN_SYSTEM, "gnuplot was ended by signal %d", WTERMSIG(status));
    return diag_fail(diag, FFN_SYSTEM, "gnuplot gave no picture and said nothing; exit status %d", WEXITSTATUS(status));
}

static ffn_status finish(run *r, ffn_status status, ffn_diag *diag) {
    int ended = 0;
    if (status)
        kill(r->child, SIGKILL);
    while (waitpid(r->child, &ended, 0) < 0 && errno == EINTR)
        ;
    if (!status && (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0 || r->picture.bytes == 0))
        status = complain(r, ended, diag);
    return status;
}

ffn_status plot_gnuplot(const char *script, size_t script_bytes, ffn_bytes *picture, ffn_diag *diag) {
    run r = {.script = script, .script_bytes = script_bytes};
    ffn_status status = open_streams(&r, diag);
    if (!status)
        status = start(&r, diag);
    for (int i = 0; i < STREAMS; i++)
        close_one(&r.theirs[i]);
    if (!status)
        status = finish(&r, talk(&r, diag), diag);
    for (int i = 0; i < STREAMS; i++)
        close_one(&r.ours[i]);
    if (!status)
        status = text_take(&r.picture, picture, diag);
    else
        text_free(&r.picture);
    text_free(&r.complaint);
    return status;
}
