/* support_memory.h: how much memory this process takes: what is mapped in several places is counted once */
#ifndef SUPPORT_MEMORY_H
#define SUPPORT_MEMORY_H

/* Now; 0 where the kernel does not tell. */
long support_memory_kib(void);

/* The most of it between the two, looked at by a thread of its own every few milliseconds. One watch at a time. */
void support_memory_watch_begin(void);
long support_memory_watch_end(void);

#endif
