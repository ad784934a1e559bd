/* calls.h: who is inside LLVM, so that fork() and exit() do not catch it there */
#ifndef FFNGEN_CALLS_H
#define FFNGEN_CALLS_H

#include "ffn.h"

/* Every use of LLVM stands between the two. COMPILE_FAILED, and no calls_leave, in a child forked while a call was
 * under way in its parent, and while the process ends. exit() lets the calls under way end, and no new one begin,
 * before it destroys what LLVM made when it was loaded. */
ffn_status calls_enter(ffn_diag *diag);
void calls_leave(void);
/* For the first call of a process in which LLVM's static objects are not kept (statics.h): exit() then has to wait
 * before it destroys those that were made after us. */
void calls_watch_exit_again(void);
/* COMPILE_FAILED once the process ends. Asked between the steps of a call, and after a wait, so that exit() need not
 * wait for the whole of every call. */
ffn_status calls_go_on(ffn_diag *diag);

#endif
