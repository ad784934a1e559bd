/* ffn_pool.h: a ready pool of threads for ffn_kernel_run_parallel, made of pthreadpool (libffnpool) */
#ifndef FFN_POOL_H
#define FFN_POOL_H

#include "ffn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ffn_pool ffn_pool;

/* A pool of so many threads, the calling one counted; 0: as many as there are CPUs that this thread may run on.
 * BAD_ARGUMENT, OUT_OF_MEMORY, or SYSTEM if the threads cannot be had. Between two runs the threads spin for some
 * milliseconds, then they sleep. */
FFN_API ffn_status ffn_pool_create(int64_t threads, ffn_pool **pool, ffn_diag *diag);
/* NULL is allowed. Nothing may be running on it. */
FFN_API void ffn_pool_destroy(ffn_pool *pool);

FFN_API int64_t ffn_pool_threads(const ffn_pool *pool);
/* What ffn_kernel_run_parallel takes, as long as the pool lives. Any thread may use it at any time: while the pool is
 * at work for one thread, others that use it, and tasks of its own that do, run their tasks themselves, one after the
 * other. So does a child process after fork, which has none of the pool's threads. Bits never depend on it. */
FFN_API const ffn_parallel_for *ffn_pool_parallel(const ffn_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
