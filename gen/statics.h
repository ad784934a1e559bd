/* statics.h: static objects that LLVM makes at first use -> objects that live as long as the process
 *
 * exit() destroys what was made last first, so that nothing registered before a build can keep exit() from taking such
 * an object away under it. In builds of ours libLLVM's registrations with exit() therefore lead nowhere. */
#ifndef FFNGEN_STATICS_H
#define FFNGEN_STATICS_H

#include <stdbool.h>

/* `in_build` tells if the calling thread is in a build of ours: what LLVM makes for others is destroyed as ever. Call
 * it once, before the first build. Where libLLVM cannot be found or changed, all stays as it is. */
void statics_keep(bool (*in_build)(void));

#endif
