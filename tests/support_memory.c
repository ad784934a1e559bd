/* support_memory.c: /proc/self/smaps_rollup -> KiB
 *
 * ru_maxrss and VmRSS count a page once for each place it is mapped in, which a block of verification does hundreds of
 * times. Pss shares it out among them. Nothing keeps the peak of that, so it is watched. */
#include "support_memory.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

static pthread_t watcher;
static atomic_bool watching;
static long most;

long support_memory_kib(void) {
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long kib = 0;
    while (file != NULL && kib == 0 && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "Pss: %ld kB", &kib);
    if (file != NULL)
        fclose(file);
    return kib;
}

static void *watch(void *unused) {
    static const struct timespec pause = {.tv_nsec = 1000000};
    while (atomic_load(&watching)) {
        const long kib = support_memory_kib();
        most = kib > most ? kib : most;
        nanosleep(&pause, NULL);
    }
    return unused;
}

void support_memory_watch_begin(void) {
    most = 0;
    atomic_store(&watching, true);
    cr_assert_eq(pthread_create(&watcher, NULL, watch, NULL), 0);
}

long support_memory_watch_end(void) {
    atomic_store(&watching, false);
    cr_assert_eq(pthread_join(watcher, NULL), 0);
    return most;
}
