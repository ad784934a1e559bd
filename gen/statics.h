/* statics.h: LLVM's static objects -> objects that live as long as the process
 *
 * exit() destroys what was made last first, while other threads may still load LLVM or build. Objects that libLLVM
 * makes while libffngen is loaded, and those that it makes at their first use in a build of ours, are therefore kept:
 * its registrations with exit() then lead nowhere. */
#ifndef FFNGEN_STATICS_H
#define FFNGEN_STATICS_H

#include <stdbool.h>

/* `in_build` tells if the calling thread is in a build of ours: what LLVM makes for others is destroyed as ever. Call
 * it once, while libffngen is loaded: the objects of libLLVM's own load are kept only if it is initialised after us, as
 * the linker's -z initfirst asks for. False, and all stays as it is, where libLLVM cannot be found or changed. */
bool statics_keep(bool (*in_build)(void));

#endif
