/* team.c: a spinning team; the caller raises an epoch, the members follow it */
#include "team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define SPINS_BEFORE_YIELD 20000 /* some tens of microseconds: then others may need the core */

typedef struct member {
    bench_team *team;
    pthread_t thread;
    int number;
} member;

struct bench_team {
    int size, started;
    bench_work work; /* NULL tells the members to end */
    void *self;
    _Alignas(64) atomic_uint epoch;
    _Alignas(64) atomic_int busy;
    _Alignas(64) atomic_int arrived;
    _Alignas(64) atomic_uint phase;
    _Alignas(64) atomic_bool resting; /* changes under the lock */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    member members[];
};

static void pause_briefly(int *spins) {
    if (++*spins > SPINS_BEFORE_YIELD)
        sched_yield();
#if defined(__x86_64__)
    else
        __builtin_ia32_pause();
#endif
}

static void rest(bench_team *team) {
    pthread_mutex_lock(&team->lock);
    while (atomic_load_explicit(&team->resting, memory_order_relaxed))
        pthread_cond_wait(&team->wake, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

static void set_resting(bench_team *team, bool resting) {
    if (atomic_load_explicit(&team->resting, memory_order_relaxed) == resting)
        return;
    pthread_mutex_lock(&team->lock);
    atomic_store_explicit(&team->resting, resting, memory_order_relaxed);
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);
}

static void *follow(void *argument) {
    member *self = argument;
    bench_team *team = self->team;
    for (unsigned seen = 0;;) {
        for (int spins = 0; atomic_load_explicit(&team->epoch, memory_order_acquire) == seen;) {
            if (atomic_load_explicit(&team->resting, memory_order_relaxed))
                rest(team);
            pause_briefly(&spins);
        }
        seen++;
        if (!team->work)
            return NULL;
        team->work(team->self, self->number, team->size);
        atomic_fetch_sub_explicit(&team->busy, 1, memory_order_release);
    }
}

bench_team *bench_team_create(int size) {
    size_t bytes = (sizeof(bench_team) + (size_t)size * sizeof(member) + 63) / 64 * 64;
    bench_team *team = aligned_alloc(64, bytes);
    if (!team)
        return NULL;
    *team = (bench_team){.size = size, .started = 1};
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->wake, NULL);
    for (int i = 1; i < size; i++) {
        team->members[i] = (member){.team = team, .number = i};
        if (pthread_create(&team->members[i].thread, NULL, follow, &team->members[i])) {
            bench_team_destroy(team);
            return NULL;
        }
        team->started++;
    }
    return team;
}

void bench_team_destroy(bench_team *team) {
    if (!team)
        return;
    team->work = NULL;
    atomic_fetch_add_explicit(&team->epoch, 1, memory_order_release);
    set_resting(team, false);
    for (int i = 1; i < team->started; i++)
        pthread_join(team->members[i].thread, NULL);
    pthread_cond_destroy(&team->wake);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

int bench_team_size(const bench_team *team) {
    return team->size;
}

void bench_team_run(bench_team *team, bench_work work, void *self) {
    if (team->size > 1) {
        team->work = work;
        team->self = self;
        atomic_store_explicit(&team->busy, team->size - 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&team->epoch, 1, memory_order_release);
        set_resting(team, false);
    }
    work(self, 0, team->size);
    for (int spins = 0; atomic_load_explicit(&team->busy, memory_order_acquire) > 0;)
        pause_briefly(&spins);
}

void bench_team_rest(bench_team *team) {
    if (team->size > 1)
        set_resting(team, true);
}

void bench_team_wait(bench_team *team) {
    if (team->size == 1)
        return;
    unsigned phase = atomic_load_explicit(&team->phase, memory_order_acquire);
    if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) == team->size - 1) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&team->phase, 1, memory_order_release);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&team->phase, memory_order_acquire) == phase;)
        pause_briefly(&spins);
}
