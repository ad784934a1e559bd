/* ir.c: see ir.h */
#include "ir.h"

#include <llvm/Config/llvm-config.h>
#include <stdio.h>
#include <string.h>

/* What the code does for the CPU's checks of control flow, and its notes say: landing pads where it may be entered
 * (endbr64, bti c) and returns that a shadow stack or a signature (of x30, where it is stored) can check. */
static const char *const cet_flags[] = {"cf-protection-branch", "cf-protection-return", NULL};
static const char *const pac_flags[] = {"branch-target-enforcement", "sign-return-address", NULL};

void ir_begin(ir *g, const isa_row *isa, int32_t lanes, const char *module_name) {
    memset(g, 0, sizeof *g);
    g->isa = isa;
    g->lanes = lanes;
    g->context = LLVMContextCreate();
    g->module = LLVMModuleCreateWithNameInContext(module_name, g->context);
    g->builder = LLVMCreateBuilderInContext(g->context);
    g->void_type = LLVMVoidTypeInContext(g->context);
    g->i1 = LLVMInt1TypeInContext(g->context);
    g->i8 = LLVMInt8TypeInContext(g->context);
    g->i32 = LLVMInt32TypeInContext(g->context);
    g->i64 = LLVMInt64TypeInContext(g->context);
    g->f32 = LLVMFloatTypeInContext(g->context);
    g->pointer = LLVMPointerTypeInContext(g->context, 0);
    g->vector = LLVMVectorType(g->f32, (unsigned)lanes);
    g->word_vector = LLVMVectorType(g->i32, (unsigned)lanes);
    LLVMSetTarget(g->module, isa->triple);
    for (const char *const *flag = isa->arch == FFN_ARCH_X86_64 ? cet_flags : pac_flags; *flag; flag++)
        LLVMAddModuleFlag(g->module, LLVMModuleFlagBehaviorOverride, *flag, strlen(*flag),
                          LLVMValueAsMetadata(LLVMConstInt(g->i32, 1, 0)));
}

void ir_end(ir *g) {
    LLVMDisposeBuilder(g->builder);
    if (g->module)
        LLVMDisposeModule(g->module);
    LLVMContextDispose(g->context);
}

static void attribute(ir *g, LLVMValueRef function, const char *key, const char *value) {
    LLVMAttributeRef a =
        LLVMCreateStringAttribute(g->context, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static void enum_attribute(ir *g, LLVMValueRef function, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(g->context, kind, 0));
}

LLVMValueRef ir_function(ir *g, const char *name, LLVMTypeRef result, const LLVMTypeRef *parameters, int32_t count,
                         ir_linkage linkage) {
    LLVMTypeRef types[16];
    memcpy(types, parameters, (size_t)count * sizeof *types);
    LLVMValueRef f = LLVMAddFunction(g->module, name, LLVMFunctionType(result, types, (unsigned)count, 0));
    attribute(g, f, "target-features", g->isa->features);
    attribute(g, f, "tune-cpu", g->isa->tune);
    attribute(g, f, "no-builtins", "");        /* a copy loop must not become a call to memcpy */
    attribute(g, f, "no-jump-tables", "true"); /* nor a switch a table of absolute addresses */
    const char *bits = g->lanes == 16 ? "512" : g->lanes == 8 ? "256" : "128";
    attribute(g, f, "prefer-vector-width", bits); /* without these two, 512-bit vectors are split */
    attribute(g, f, "min-legal-vector-width", bits);
    if (g->isa->arch == FFN_ARCH_AARCH64) { /* LLVM 19 looks for these at functions alone */
        attribute(g, f, "branch-target-enforcement", "true");
        attribute(g, f, "sign-return-address", "non-leaf");
        attribute(g, f, "sign-return-address-key", "a_key");
    }
    enum_attribute(g, f, "nounwind"); /* no .eh_frame */
    if (linkage == IR_INTERNAL) {
        LLVMSetLinkage(f, LLVMInternalLinkage);
        enum_attribute(g, f, "noinline");
    }
    g->function = f;
    LLVMPositionBuilderAtEnd(g->builder, ir_block(g, "entry"));
    return f;
}

void ir_cold(ir *g) {
    enum_attribute(g, g->function, "optnone");
    enum_attribute(g, g->function, "noinline"); /* the one is not valid without the other */
}

LLVMValueRef ir_parameter(ir *g, int32_t index, const char *name) {
    LLVMValueRef p = LLVMGetParam(g->function, (unsigned)index);
    LLVMSetValueName2(p, name, strlen(name));
    return p;
}

LLVMValueRef ir_call_pointer(ir *g, LLVMTypeRef type, LLVMValueRef pointer, const LLVMValueRef *arguments,
                             int32_t count) {
    LLVMValueRef copy[16];
    memcpy(copy, arguments, (size_t)count * sizeof *copy);
    return LLVMBuildCall2(g->builder, type, pointer, copy, (unsigned)count, "");
}

LLVMValueRef ir_call(ir *g, LLVMValueRef function, const LLVMValueRef *arguments, int32_t count) {
    return ir_call_pointer(g, LLVMGlobalGetValueType(function), function, arguments, count);
}

void ir_return(ir *g) {
    LLVMBuildRetVoid(g->builder);
}

LLVMBasicBlockRef ir_block(ir *g, const char *name) {
    return LLVMAppendBasicBlockInContext(g->context, g->function, name);
}

LLVMValueRef ir_int(ir *g, int64_t value) {
    return LLVMConstInt(g->i64, (unsigned long long)value, 1);
}

LLVMValueRef ir_add(ir *g, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildNSWAdd(g->builder, a, b, "");
}

LLVMValueRef ir_sub(ir *g, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildNSWSub(g->builder, a, b, "");
}

LLVMValueRef ir_mul(ir *g, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildNSWMul(g->builder, a, b, "");
}

LLVMValueRef ir_div(ir *g, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildUDiv(g->builder, a, b, "");
}

LLVMValueRef ir_rem(ir *g, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildURem(g->builder, a, b, "");
}

LLVMValueRef ir_ceil_div(ir *g, LLVMValueRef a, int64_t b) {
    return ir_div(g, ir_add(g, a, ir_int(g, b - 1)), ir_int(g, b));
}

LLVMValueRef ir_less(ir *g, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildICmp(g->builder, LLVMIntSLT, a, b, "");
}

LLVMValueRef ir_below(ir *g, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildICmp(g->builder, LLVMIntULT, a, b, "");
}

LLVMValueRef ir_equal(ir *g, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildICmp(g->builder, LLVMIntEQ, a, b, "");
}

LLVMValueRef ir_select(ir *g, LLVMValueRef condition, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildSelect(g->builder, condition, a, b, "");
}

LLVMValueRef ir_min(ir *g, LLVMValueRef a, LLVMValueRef b) {
    return ir_select(g, ir_less(g, a, b), a, b);
}

LLVMValueRef ir_at(ir *g, LLVMValueRef pointer, LLVMValueRef offset) {
    return LLVMBuildInBoundsGEP2(g->builder, g->f32, pointer, &offset, 1, "");
}

LLVMValueRef ir_at_const(ir *g, LLVMValueRef pointer, int64_t offset) {
    return offset == 0 ? pointer : ir_at(g, pointer, ir_int(g, offset));
}

LLVMValueRef ir_at_bytes(ir *g, LLVMValueRef pointer, int64_t bytes) {
    LLVMValueRef offset = ir_int(g, bytes);
    return LLVMBuildInBoundsGEP2(g->builder, g->i8, pointer, &offset, 1, "");
}

LLVMValueRef ir_load(ir *g, LLVMTypeRef type, LLVMValueRef pointer, uint32_t align) {
    LLVMValueRef v = LLVMBuildLoad2(g->builder, type, pointer, "");
    LLVMSetAlignment(v, align);
    return v;
}

void ir_store(ir *g, LLVMValueRef value, LLVMValueRef pointer, uint32_t align) {
    LLVMSetAlignment(LLVMBuildStore(g->builder, value, pointer), align);
}

LLVMValueRef ir_splat(ir *g, LLVMTypeRef vector, LLVMValueRef scalar) {
    LLVMValueRef undef = LLVMGetPoison(vector);
    LLVMValueRef first = LLVMBuildInsertElement(g->builder, undef, scalar, LLVMConstInt(g->i32, 0, 0), "");
    LLVMValueRef zeros = LLVMConstNull(LLVMVectorType(g->i32, LLVMGetVectorSize(vector)));
    return LLVMBuildShuffleVector(g->builder, first, undef, zeros, "");
}

LLVMValueRef ir_broadcast(ir *g, LLVMValueRef pointer) {
    return ir_splat(g, g->vector, ir_load(g, g->f32, pointer, 4));
}

LLVMValueRef ir_splat_bits(ir *g, uint32_t bits) {
    /* Built as an integer: a double on the way would lose the payload of a NaN. */
    LLVMValueRef word = LLVMConstInt(g->i32, bits, 0), lanes[16];
    for (int32_t i = 0; i < g->lanes; i++)
        lanes[i] = word;
    LLVMValueRef splat = LLVMConstBitCast(LLVMConstVector(lanes, (unsigned)g->lanes), g->vector);
    if (bits == 0 || g->isa != isa_row_of(FFN_ISA_AVX2))
        return splat;
    char name[32];
    snprintf(name, sizeof name, "splat_%08x", (unsigned)bits);
    LLVMValueRef constant = LLVMGetNamedGlobal(g->module, name);
    if (!constant) {
        constant = LLVMAddGlobal(g->module, g->vector, name);
        LLVMSetInitializer(constant, splat);
        LLVMSetGlobalConstant(constant, 1);
        LLVMSetLinkage(constant, LLVMInternalLinkage);
        LLVMSetAlignment(constant, 32);
    }
    return ir_load(g, g->vector, constant, 32);
}

static LLVMValueRef intrinsic(ir *g, const char *name, LLVMTypeRef *overloads, size_t count) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    return LLVMGetIntrinsicDeclaration(g->module, id, overloads, count);
}

LLVMValueRef ir_fma(ir *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef f = intrinsic(g, "llvm.fma", &type, 1);
    return ir_call(g, f, (LLVMValueRef[]){a, b, c}, 3);
}

LLVMValueRef ir_sum_words(ir *g, LLVMValueRef words) {
    LLVMValueRef f = intrinsic(g, "llvm.vector.reduce.add", &g->word_vector, 1);
    return ir_call(g, f, &words, 1);
}

void ir_free(ir *g, LLVMValueRef operation) {
#if LLVM_VERSION_MAJOR > 17
    if (g->free.math && LLVMIsAInstruction(operation) && LLVMCanValueUseFastMathFlags(operation))
        LLVMSetFastMathFlags(operation, g->free.math);
#else
    (void)g, (void)operation; /* LLVM's C API does not have them yet */
#endif
}

void ir_prefetch(ir *g, LLVMValueRef pointer, ir_cache cache) {
    LLVMValueRef f = intrinsic(g, "llvm.prefetch", &g->pointer, 1);
    LLVMValueRef read = LLVMConstInt(g->i32, 0, 0), locality = LLVMConstInt(g->i32, cache, 0);
    LLVMValueRef data = LLVMConstInt(g->i32, 1, 0);
    ir_call(g, f, (LLVMValueRef[]){pointer, read, locality, data}, 4);
}

void ir_pin_loads(ir *g) {
    LLVMTypeRef type = LLVMFunctionType(g->void_type, NULL, 0, 0);
    LLVMValueRef nothing = LLVMGetInlineAsm(type, "", 0, "~{memory}", 10, 1, 0, LLVMInlineAsmDialectATT, 0);
    LLVMBuildCall2(g->builder, type, nothing, NULL, 0, "");
}

LLVMValueRef ir_opaque(ir *g, LLVMValueRef value) {
    LLVMTypeRef type = LLVMFunctionType(g->i64, &g->i64, 1, 0);
    LLVMValueRef same = LLVMGetInlineAsm(type, "", 0, "=r,0", 4, 1, 0, LLVMInlineAsmDialectATT, 0);
    return LLVMBuildCall2(g->builder, type, same, &value, 1, "");
}

LLVMValueRef ir_ticks(ir *g) {
    static const struct {
        const char *code, *constraints;
    } read[] = {
        [FFN_ARCH_X86_64] = {"rdtsc\n\tshlq $$32, %rdx\n\torq %rdx, %rax", "={rax},~{rdx},~{flags},~{memory}"},
        [FFN_ARCH_AARCH64] = {"mrs $0, cntvct_el0", "=r,~{memory}"},
    };
    const char *code = read[g->isa->arch].code, *constraints = read[g->isa->arch].constraints;
    LLVMTypeRef type = LLVMFunctionType(g->i64, NULL, 0, 0);
    LLVMValueRef ticks =
        LLVMGetInlineAsm(type, code, strlen(code), constraints, strlen(constraints), 1, 0, LLVMInlineAsmDialectATT, 0);
    return LLVMBuildCall2(g->builder, type, ticks, NULL, 0, "");
}

void ir_hide(ir *g, LLVMValueRef *values[], int32_t count) {
    char constraints[8 * IR_HIDDEN_MAX]; /* as many results as arguments, each in the same register */
    LLVMTypeRef types[IR_HIDDEN_MAX];
    LLVMValueRef shown[IR_HIDDEN_MAX];
    size_t at = 0;
    for (int32_t i = 0; i < 2 * count; i++)
        at += (size_t)(i < count ? snprintf(constraints + at, sizeof constraints - at, "=r,")
                                 : snprintf(constraints + at, sizeof constraints - at, "%d,", i - count));
    for (int32_t i = 0; i < count; i++) {
        types[i] = LLVMTypeOf(*values[i]);
        shown[i] = *values[i];
    }
    LLVMTypeRef result = count == 1 ? types[0] : LLVMStructTypeInContext(g->context, types, (unsigned)count, 0);
    LLVMTypeRef type = LLVMFunctionType(result, types, (unsigned)count, 0);
    LLVMValueRef same = LLVMGetInlineAsm(type, "", 0, constraints, at - 1, 0, 0, LLVMInlineAsmDialectATT, 0);
    LLVMValueRef hidden = LLVMBuildCall2(g->builder, type, same, shown, (unsigned)count, "");
    for (int32_t i = 0; i < count; i++)
        *values[i] = count == 1 ? hidden : LLVMBuildExtractValue(g->builder, hidden, (unsigned)i, "");
}

void ir_copy_floats(ir *g, LLVMValueRef to, LLVMValueRef from, int64_t count) {
    int64_t done = 0;
    for (int64_t size = 16; size > 0; size /= 2) {
        if (count - done < size || (size > g->lanes && size > 1))
            continue;
        while (count - done >= size) {
            LLVMTypeRef type = size == 1 ? g->f32 : LLVMVectorType(g->f32, (unsigned)size);
            LLVMValueRef place = ir_at_const(g, to, done);
            ir_store(g, ir_load(g, type, ir_at_const(g, from, done), 4), place, 4);
            done += size;
        }
    }
}

ir_loop ir_loop_begin(ir *g, LLVMValueRef begin, LLVMValueRef end, LLVMValueRef step, const char *name) {
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->builder);
    ir_loop loop = {.head = ir_block(g, name), .step = step};
    LLVMBasicBlockRef body = ir_block(g, "body");
    loop.exit = ir_block(g, "after");
    LLVMBuildBr(g->builder, loop.head);
    LLVMPositionBuilderAtEnd(g->builder, loop.head);
    loop.i = LLVMBuildPhi(g->builder, g->i64, name);
    LLVMAddIncoming(loop.i, &begin, &before, 1);
    LLVMBuildCondBr(g->builder, ir_less(g, loop.i, end), body, loop.exit);
    LLVMPositionBuilderAtEnd(g->builder, body);
    return loop;
}

static void end_loop(ir *g, const ir_loop *loop, LLVMValueRef next) {
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(g->builder);
    LLVMAddIncoming(loop->i, &next, &latch, 1);
    LLVMBuildBr(g->builder, loop->head);
    LLVMPositionBuilderAtEnd(g->builder, loop->exit);
}

void ir_loop_end(ir *g, const ir_loop *loop) {
    LLVMValueRef next = ir_add(g, loop->i, loop->step);
    ir_hide(g, (LLVMValueRef *[]){&next}, 1);
    end_loop(g, loop, next);
}

void ir_loop_end_over_arrays(ir *g, const ir_loop *loop) {
    end_loop(g, loop, ir_add(g, loop->i, loop->step));
}

ir_if ir_if_begin(ir *g, LLVMValueRef condition, const char *name) {
    ir_if branch = {.exit = NULL};
    LLVMBasicBlockRef then = ir_block(g, name);
    branch.exit = ir_block(g, "end");
    LLVMBuildCondBr(g->builder, condition, then, branch.exit);
    LLVMPositionBuilderAtEnd(g->builder, then);
    return branch;
}

void ir_if_end(ir *g, const ir_if *branch) {
    LLVMBuildBr(g->builder, branch->exit);
    LLVMPositionBuilderAtEnd(g->builder, branch->exit);
}
