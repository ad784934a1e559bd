/* guard.h: a task that uses LLVM -> a status, also where LLVM would end the process
 *
 * LLVM ends the process on errors it holds to be fatal, and where memory runs out. Under the guard both come back as
 * the task's status. LLVM has then been left in the middle, so it counts as dead for the rest of the process, and every
 * later call says so. */
#ifndef FFNGEN_GUARD_H
#define FFNGEN_GUARD_H

#include "ffn.h"

typedef ffn_status (*guard_task)(void *argument, ffn_diag *diag);

/* Also refuses where the stack is too short, or LLVM may not be entered (calls.h). What the task holds when LLVM dies
 * is lost. A task may not call guard_run. */
ffn_status guard_run(guard_task task, void *argument, ffn_diag *diag);

#endif
