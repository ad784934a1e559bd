/* write.c: bytes -> a file, all of them, without a signal
 *
 * A write that crosses RLIMIT_FSIZE raises SIGXFSZ, whose default ends the process; a library must not. Asking for the
 * limit first would not do: another thread may lower it in between, and for a file that others append to nobody knows
 * where the limit is reached. The signal goes to the thread that writes; so that thread holds it back for the time of
 * the write, and takes what the write raised. What was pending before stays pending, and other threads and the
 * program's handler see nothing. */
#define _XOPEN_SOURCE 700 /* pwrite, sigtimedwait */
#include "write.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static bool write_parts(int file, const char *from, size_t bytes, int64_t at) {
    while (bytes > 0) {
        const ssize_t written = at < 0 ? write(file, from, bytes) : pwrite(file, from, bytes, (off_t)at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written == 0)
            errno = EIO;
        if (written <= 0)
            return false;
        from += written;
        at += at < 0 ? 0 : written;
        bytes -= (size_t)written;
    }
    return true;
}

static bool is_pending(int number) {
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, number) == 1;
}

bool write_all(int file, const void *data, size_t bytes, int64_t at) {
    sigset_t limit, before;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    const bool held = pthread_sigmask(SIG_BLOCK, &limit, &before) == 0;
    const bool raised = is_pending(SIGXFSZ);
    const bool whole = write_parts(file, data, bytes, at);
    const int error = errno;
    if (!whole && error == EFBIG && held && !raised)
        while (sigtimedwait(&limit, NULL, &(struct timespec){0, 0}) < 0 && errno == EINTR)
            ;
    if (held)
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return whole;
}
