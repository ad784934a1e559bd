/* ir.h: the few LLVM building blocks that kernels are made of
 *
 * A thin layer: it names the types once, and gives loops and branches a begin and an end so that the code of the nest
 * reads like the nest. Sizes are i64 values; pointers are untyped; offsets count floats. In one call at most one
 * argument may add instructions: C leaves the order of two to the compiler that built the generator. */
#ifndef FFNGEN_IR_H
#define FFNGEN_IR_H

#include <llvm-c/Core.h>

#include "free_order.h"
#include "isa.h"

typedef struct ir {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    const isa_row *isa;
    int32_t lanes;
    LLVMTypeRef void_type, i1, i8, i32, i64, f32, pointer;
    LLVMTypeRef vector, word_vector; /* `lanes` of f32, of i32 */
    LLVMValueRef function;           /* the one under construction */
    free_order free;                 /* all 0: the contract's order (free_order.h) */
    bool count_stages;               /* stages.h */
} ir;

typedef enum ir_linkage { IR_ENTRY, IR_INTERNAL } ir_linkage;

/* `lanes` of a vector: the ISA's own or, where a plan says so, fewer. */
void ir_begin(ir *g, const isa_row *isa, int32_t lanes, const char *module_name);
void ir_end(ir *g);

/* Adds a function with the attributes every kernel needs and leaves the builder in its entry block. */
LLVMValueRef ir_function(ir *g, const char *name, LLVMTypeRef result, const LLVMTypeRef *parameters, int32_t count,
                         ir_linkage linkage);
/* The function under construction runs so rarely that its code may be slow: it is compiled without optimisation. For
 * control alone: no vector goes through it. */
void ir_cold(ir *g);
LLVMValueRef ir_parameter(ir *g, int32_t index, const char *name);
LLVMValueRef ir_call(ir *g, LLVMValueRef function, const LLVMValueRef *arguments, int32_t count);
/* A function of this type that is chosen while the kernel runs. */
LLVMValueRef ir_call_pointer(ir *g, LLVMTypeRef type, LLVMValueRef pointer, const LLVMValueRef *arguments,
                             int32_t count);
void ir_return(ir *g);

LLVMValueRef ir_int(ir *g, int64_t value);
LLVMValueRef ir_add(ir *g, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef ir_sub(ir *g, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef ir_mul(ir *g, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef ir_div(ir *g, LLVMValueRef a, LLVMValueRef b); /* both are at least 0 and the divisor is not 0 */
LLVMValueRef ir_rem(ir *g, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef ir_ceil_div(ir *g, LLVMValueRef a, int64_t b);
LLVMValueRef ir_min(ir *g, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef ir_less(ir *g, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef ir_below(ir *g, LLVMValueRef a, LLVMValueRef b); /* of pointers */
LLVMValueRef ir_equal(ir *g, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef ir_select(ir *g, LLVMValueRef condition, LLVMValueRef a, LLVMValueRef b);

/* pointer + offset floats */
LLVMValueRef ir_at(ir *g, LLVMValueRef pointer, LLVMValueRef offset);
LLVMValueRef ir_at_const(ir *g, LLVMValueRef pointer, int64_t offset);
LLVMValueRef ir_at_bytes(ir *g, LLVMValueRef pointer, int64_t bytes);
LLVMValueRef ir_load(ir *g, LLVMTypeRef type, LLVMValueRef pointer, uint32_t align);
void ir_store(ir *g, LLVMValueRef value, LLVMValueRef pointer, uint32_t align);
/* One float, in every lane. */
LLVMValueRef ir_broadcast(ir *g, LLVMValueRef pointer);
LLVMValueRef ir_splat(ir *g, LLVMTypeRef vector, LLVMValueRef scalar);
LLVMValueRef ir_splat_bits(ir *g, uint32_t bits); /* the f32 with these bits, in every lane */
LLVMValueRef ir_fma(ir *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
LLVMValueRef ir_sum_words(ir *g, LLVMValueRef words); /* of a vector of i32, wrapping */
/* Gives an f32 operation the freedoms of g->free.math; none, in kernels that keep the contract. */
void ir_free(ir *g, LLVMValueRef operation);
/* The line at `pointer`, for reading, into the first- or second-level cache. */
typedef enum ir_cache { IR_CACHE_2 = 2, IR_CACHE_1 = 3 } ir_cache; /* the numbers are LLVM's localities */
void ir_prefetch(ir *g, LLVMValueRef pointer, ir_cache cache);
/* No instruction: loads that stand after this point are not scheduled before it. Keeps registers free where LLVM would
 * hoist more loads than there are registers. */
void ir_pin_loads(ir *g);
/* No instruction: the same i64, but nothing derived from it can be computed before this point and kept in registers. */
LLVMValueRef ir_opaque(ir *g, LLVMValueRef value);
/* The CPU's counter of time, an i64 of a constant rate; what stands before it in the code is before it. */
LLVMValueRef ir_ticks(ir *g);
/* No instruction: the same values (i64 or pointers, at most IR_HIDDEN_MAX), of which LLVM does not see what they were
 * made from. What a loop moves, hidden at the end of its body, is moved as it is written: nothing there for loop
 * strength reduction, which takes a fifth of the time and makes worse addresses for many rows at constant distances. */
enum { IR_HIDDEN_MAX = 16 };
void ir_hide(ir *g, LLVMValueRef *values[], int32_t count);
/* Copies a constant number of floats (0 .. 16) through registers. */
void ir_copy_floats(ir *g, LLVMValueRef to, LLVMValueRef from, int64_t count);

/* for (i = begin; i < end; i += step) */
typedef struct ir_loop {
    LLVMBasicBlockRef head, exit;
    LLVMValueRef i, step;
} ir_loop;
ir_loop ir_loop_begin(ir *g, LLVMValueRef begin, LLVMValueRef end, LLVMValueRef step, const char *name);
void ir_loop_end(ir *g, const ir_loop *loop); /* hides i */
/* For a short loop over arrays: LLVM may make pointers of i where that saves an instruction. */
void ir_loop_end_over_arrays(ir *g, const ir_loop *loop);

typedef struct ir_if {
    LLVMBasicBlockRef exit;
} ir_if;
ir_if ir_if_begin(ir *g, LLVMValueRef condition, const char *name);
void ir_if_end(ir *g, const ir_if *branch);

LLVMBasicBlockRef ir_block(ir *g, const char *name);

#endif
