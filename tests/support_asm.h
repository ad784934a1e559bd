/* support_asm.h: what the loops of generated assembly do, counted from its text (x86-64 and AArch64) */
#ifndef SUPPORT_ASM_H
#define SUPPORT_ASM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct asm_loop {
    char function[64];
    int instructions;
    int fmas;
    int stack; /* instructions that touch the stack: spilled registers */
    int zmm, ymm;
} asm_loop;

/* Calls `visit` for each innermost loop that holds a fused multiply-add. Returns how many there were. */
int asm_loops(const char *text, size_t bytes, void (*visit)(const asm_loop *loop, void *self), void *self);

#endif
