/* team.h: threads that wait in a spin, so that handing them microseconds of work costs well under one
 *
 * A team of one has no threads and calls straight through. */
#ifndef BENCH_TEAM_H
#define BENCH_TEAM_H

typedef struct bench_team bench_team;

/* The work of one member, 0 <= member < size. */
typedef void (*bench_work)(void *self, int member, int size);

/* NULL if threads cannot be had. */
bench_team *bench_team_create(int size);
void bench_team_destroy(bench_team *team); /* NULL is allowed */
int bench_team_size(const bench_team *team);

/* Returns when every member is done; the caller is member 0. Wakes members that rest. */
void bench_team_run(bench_team *team, bench_work work, void *self);
/* Until the next run the members sleep: what one thread does alone is then measured without their spinning. */
void bench_team_rest(bench_team *team);
/* Inside work: returns when every member has come here. */
void bench_team_wait(bench_team *team);

#endif
