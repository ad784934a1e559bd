/* ffn.h: the whole public API of libffn, in the order of the flow
 *
 *     spec text -> spec -> plan -> (a compiler, reached through ffn_source) -> image -> kernel -> run
 *
 * A kernel computes one position-wise feed-forward network for n independent rows (tokens):
 *
 *     plain   h = act(x W_up + b_up)                               y = h W_down + b_down
 *     gated   h = phi(x W_gate + b_gate, x W_up + b_up)            y = h W_down + b_down
 *
 * x is [n][d_model], h is [n][d_ff] (it never leaves the caches), y is [n][d_model]; all f32. For one spec the
 * bits of a row of y depend on that row of x and on the weights alone: not on n, the position of the row, the
 * plan, the number of threads, the ISA, or who generated the code.
 *
 * Conventions. Sizes named `_bytes` are bytes; every other size and every stride is in elements. The caller owns
 * x, y, packed weights and scratch. A function that can fail returns ffn_status; on failure its outputs are
 * untouched, and the optional `ffn_diag` (may be NULL) tells the details. The library never prints, exits or
 * aborts, starts no thread, raises no signal, and leaves MXCSR and FPCR alone. Compiling needs 1 MiB of stack,
 * verifying 128 KiB (and what a `product` takes), everything else 64 KiB. */
#ifndef FFN_H
#define FFN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(FFN_SHARED) && defined(__GNUC__)
#define FFN_API __attribute__((visibility("default")))
#else
#define FFN_API
#endif

/* Before 1.0 structs may grow with any version: a program runs with the libffn whose ffn.h it was compiled with. */
#define FFN_VERSION "0.1.0"

/* ---- Status and details ------------------------------------------------------------------------------------ */

#define FFN_STATUS_LIST(X)                                                         \
    X(OK, "success")                                                               \
    X(BAD_ARGUMENT, "an argument cannot be used as given")                         \
    X(BAD_SPEC, "the spec or its formula is not valid")                            \
    X(BAD_FILE, "a file is not what it should be")                                 \
    X(BAD_IMAGE, "a kernel image is damaged or made for something else")           \
    X(BAD_WEIGHTS, "packed weights do not belong to this spec")                    \
    X(UNSUPPORTED, "no generated code path serves this; the portable kernel does") \
    X(OUT_OF_MEMORY, "memory could not be allocated")                              \
    X(SYSTEM, "the operating system refused a request")                            \
    X(COMPILE_FAILED, "the compiler could not produce a kernel")                   \
    X(VERIFY_FAILED, "a kernel gave wrong results and was not published")

typedef enum ffn_status {
#define FFN_STATUS_ENUM(name, text) FFN_##name,
    FFN_STATUS_LIST(FFN_STATUS_ENUM)
#undef FFN_STATUS_ENUM
} ffn_status;

#define FFN_DIAG_BYTES 512

/* Details of the last failure, owned by the caller. `text` names the offending thing and what would be right. Functions
 * that say so may leave a remark after a success: status is then FFN_OK, and text is empty where there is none. */
typedef struct ffn_diag {
    ffn_status status;
    char text[FFN_DIAG_BYTES];
} ffn_diag;

/* A constant sentence for a status; "unknown status" for a number that is none. */
FFN_API const char *ffn_status_text(ffn_status status);

/* ---- Spec: what is computed -------------------------------------------------------------------------------- */

/* Limits: d_model and d_ff are 1 .. FFN_DIM_MAX, and the packed weights must fit in FFN_PACKED_BYTES_MAX. */
#define FFN_DIM_MAX (INT64_C(1) << 24)
#define FFN_PACKED_BYTES_MAX (INT64_C(1) << 46)

#define FFN_ACTIVATION_BYTES 1024
#define FFN_SPEC_TEXT_BYTES (FFN_ACTIVATION_BYTES + 128)
#define FFN_SPEC_NAME_BYTES 128

enum { FFN_BIAS_UP = 1, FFN_BIAS_GATE = 2, FFN_BIAS_DOWN = 4 };

/* How far a built-in activation may be from the exact one. Bits are the same everywhere with either; between the two
 * they differ.
 *   FFN_ACCURATE   2 units of the last place (docs/accuracy.md)
 *   FFN_FAST       1e-6 max(1, |x|), absolute; of a gated one its gate's function, times the up factor. At most 14
 *                  operations a vector (docs/fast.md). Not for a formula of your own, which computes what it says. */
enum { FFN_ACCURATE = 0, FFN_FAST = 1 };

/* A plain value. Two specs are the same if every field is (ffn_spec_equal). `activation` is the canonical text:
 * a name of templates/activations.def ("gelu", "swiglu"), a name with parameters ("leaky_relu(0.2)"), or the
 * user's own formula: "act(F)" with F a formula of x, or "gated(F)" with F of the gate value g and the up value u. */
typedef struct ffn_spec {
    int64_t d_model;
    int64_t d_ff;
    uint32_t bias;     /* FFN_BIAS_* of the products that have one */
    uint32_t accuracy; /* FFN_ACCURATE or FFN_FAST */
    char activation[FFN_ACTIVATION_BYTES];
} ffn_spec;

/* Text -> spec. The text is a preset name ("bert-base", "bert-base-fast") or
 * d<d_model>-f<d_ff>-<activation>[-bias...][-fast][-f32]:
 *     d512-f2048-relu-bias      d4096-f14336-swiglu      d64-f256-gelu-bias_up-bias_down-fast
 *     d512-f2048-bias-act(x*sigmoid(1.702*x))            (a formula is always the last field)
 * BAD_SPEC names the field and what would be right; near names are offered for an unknown one. */
FFN_API ffn_status ffn_spec_parse(const char *text, ffn_spec *spec, ffn_diag *diag);
/* Spec -> canonical text, at most FFN_SPEC_TEXT_BYTES with its end; parses back to an equal spec. */
FFN_API ffn_status ffn_spec_format(const ffn_spec *spec, char *text, size_t text_bytes, ffn_diag *diag);
/* Spec -> name for files and symbols, at most FFN_SPEC_NAME_BYTES: a formula stands as fx and 16 hex digits. With
 * `symbol`, '-' becomes '_'. */
FFN_API ffn_status ffn_spec_name(const ffn_spec *spec, bool symbol, char *name, size_t name_bytes, ffn_diag *diag);
FFN_API ffn_status ffn_spec_check(const ffn_spec *spec, ffn_diag *diag);
FFN_API bool ffn_spec_equal(const ffn_spec *a, const ffn_spec *b);
/* True if the activation takes a gate value and an up value. False for an invalid spec. */
FFN_API bool ffn_spec_gated(const ffn_spec *spec);

/* Known models (templates/presets.def) and activations (templates/activations.def), for listings. */
typedef struct ffn_preset {
    const char *name, *spec, *source; /* source: the model's published configuration */
} ffn_preset;
typedef struct ffn_activation {
    const char *name, *parameters, *formula, *notes; /* parameters: "a=0.01" or "alpha=1.702,limit=7" or "" */
    bool gated;
} ffn_activation;
/* The i-th row, or NULL past the end. */
FFN_API const ffn_preset *ffn_preset_at(size_t i);
FFN_API const ffn_activation *ffn_activation_at(size_t i);

/* ---- CPU and machine --------------------------------------------------------------------------------------- */

typedef enum ffn_isa {
    FFN_ISA_AUTO, /* the widest that CPU and operating system support */
    FFN_ISA_PORTABLE,
#define FFN_ISA_ROW(ID, ...) FFN_ISA_##ID,
#include "../templates/isas.def"
    FFN_ISA_COUNT
} ffn_isa;

/* "avx2", "portable", ...; NULL for a number that is none. */
FFN_API const char *ffn_isa_name(ffn_isa isa);
/* BAD_ARGUMENT offers near names. */
FFN_API ffn_status ffn_isa_parse(const char *name, ffn_isa *isa, ffn_diag *diag);
/* True if this CPU has each feature the ISA's code uses and the operating system saves its registers. */
FFN_API bool ffn_isa_supported(ffn_isa isa);
FFN_API ffn_isa ffn_isa_best(void);

/* What planning needs to know of a machine. The bits of results never depend on it. */
typedef struct ffn_machine {
    int64_t l1_bytes, l2_bytes, l3_bytes; /* data caches one core can use; l3 0 where there is none */
    /* What one core can do, as `ffngen calibrate` measures it; 0 where that was not done: usual rates are taken then.
     */
    int64_t fma_mflops;                         /* multiply-adds from registers, 10^6 operations a second */
    int64_t l1_mbs, l2_mbs, l3_mbs, memory_mbs; /* reading from that level, 10^6 bytes a second */
} ffn_machine;

/* The caches of this machine, read from the system; a cache it does not report gets a usual size. */
FFN_API void ffn_machine_read(ffn_machine *machine);
/* The name that tuned plans and measured rates of this machine carry: the CPU's own name and its model numbers, 1 to
 * 127 printable characters, the same for every machine of a kind. Constant; thread-safe. */
FFN_API const char *ffn_machine_name(void);
/* The fixed machine of templates/isas.def that ahead-of-time emission plans for. */
FFN_API ffn_status ffn_machine_generic(ffn_isa isa, ffn_machine *machine, ffn_diag *diag);

/* ---- Plan: how it is computed ------------------------------------------------------------------------------ */

#define FFN_PANEL 16 /* columns of a packed panel: one cache line of f32 */
#define FFN_TILES_MAX 16

/* n classes: one image each. Any class can run any n. */
typedef enum ffn_n_class { FFN_N_1, FFN_N_2_4, FFN_N_5_16, FFN_N_17_UP, FFN_N_CLASSES } ffn_n_class;

FFN_API ffn_n_class ffn_n_class_of(int64_t n);
FFN_API const char *ffn_n_class_name(ffn_n_class n_class);

/* One register-blocked micro-tile: mr rows x `panels` panels of columns. */
typedef struct ffn_tile {
    int32_t mr;
    int32_t panels;
} ffn_tile;

/* How the rows of a block are cut into row tiles. */
typedef enum ffn_row_split {
    FFN_ROWS_LEAST_WORK, /* what is left below two of the tallest tile by what takes the least work: 7 = 4 + 3 */
    FFN_ROWS_TALLEST,    /* always the tallest that fits: 7 = 6 + 1 */
    FFN_ROW_SPLITS
} ffn_row_split;

/* A plan is data; it changes the speed and never the bits. */
typedef struct ffn_plan {
    ffn_isa isa;
    ffn_n_class n_class;
    int64_t m_block;  /* rows of x and y that pass through the nest together */
    int64_t f_block;  /* hidden columns kept in scratch at a time */
    int64_t k_block;  /* terms of d_model summed before the partial sums go back to scratch */
    int32_t unroll;   /* k steps in one turn of the hot loop */
    int32_t prefetch; /* cache lines of each of the next panels prefetched in one turn of the hot loop; 0: none */
    int32_t ahead;    /* how many cache lines ahead of its own place in the weights a tile prefetches; 0: it does not */
    ffn_row_split row_split;
    int32_t vector_bits; /* of the vectors in use: 0: the ISA's own; 256 on AVX-512: half as wide, as many registers */
    int32_t chunk;       /* terms of a sum that all row tiles take before any takes the next ones; 0: all of a block */
    int32_t group;       /* panels that pass through the row tiles together; 0: as many as the widest tile has */
    int32_t copy_x; /* 1: a block of x is copied to scratch first, where its rows do not share sets of the caches; 2: x
                     * and h are, in the order in which tiles read them (from 5 rows on, d_model and d_ff above 64) */
    int32_t hold_y; /* 1: sums wait slanted in y from one block of hidden columns to the next: for the same reason */
    int32_t tile_count;
    ffn_tile tiles[FFN_TILES_MAX]; /* tallest first, for one height widest first; the last is 1x1 */
} ffn_plan;

/* The plan the cost model chooses. UNSUPPORTED for the portable kernel, which has none. */
FFN_API ffn_status ffn_plan_make(const ffn_spec *spec, ffn_isa isa, ffn_n_class n_class, const ffn_machine *machine,
                                 ffn_plan *plan, ffn_diag *diag);
/* BAD_ARGUMENT if code for this plan cannot be generated or would spill registers. */
FFN_API ffn_status ffn_plan_check(const ffn_spec *spec, const ffn_plan *plan, ffn_diag *diag);
/* One line: "avx2 17+ m96 f384 k768 u4 p1 6x1 5x1 4x1 1x1"; after p, where they are not 0, a<ahead>, r<row_split> and
 * v<vector_bits>, c<chunk>, g<group>, x<copy_x>, y<hold_y>. parse reads it back, and does not check it. */
FFN_API ffn_status ffn_plan_format(const ffn_plan *plan, char *text, size_t text_bytes, ffn_diag *diag);
FFN_API ffn_status ffn_plan_parse(const char *text, ffn_plan *plan, ffn_diag *diag);

/* ---- Packed weights ---------------------------------------------------------------------------------------- */

/* Orientation of a weight matrix as it is given: IN_OUT is element (in, out) at [in * ld + out], OUT_IN at
 * [out * ld + in]. Never guessed: square matrices look alike. */
typedef enum ffn_layout { FFN_IN_OUT, FFN_OUT_IN } ffn_layout;

/* How gate and up are given. The fused forms stand in `up`, a matrix with 2 d_ff outputs; `gate` is then empty. The
 * biases follow: bias_up has then 2 d_ff elements. */
typedef enum ffn_gate_order {
    FFN_GATE_SEPARATE,    /* two matrices */
    FFN_GATE_FIRST,       /* outputs 0..d_ff-1 gate, d_ff..2d_ff-1 up */
    FFN_UP_FIRST,         /* outputs 0..d_ff-1 up, d_ff..2d_ff-1 gate */
    FFN_GATE_INTERLEAVED, /* outputs 2j gate, 2j+1 up */
} ffn_gate_order;

typedef struct ffn_matrix {
    const float *data; /* any float-aligned address */
    int64_t ld;        /* elements between rows as stored; 0 means dense */
    ffn_layout layout;
} ffn_matrix;

typedef struct ffn_weights {
    ffn_matrix up, gate; /* d_model in, d_ff out */
    ffn_matrix down;     /* d_ff in, d_model out */
    ffn_gate_order gate_order;
    const float *bias_up, *bias_gate, *bias_down; /* [d_ff], [d_ff], [d_model]; NULL exactly where the spec has none */
} ffn_weights;

#define FFN_PACKED_ALIGN 64

/* Bytes of the packed weights of a spec, header included: depends on the spec alone, not on ISA, plan or n. */
FFN_API ffn_status ffn_packed_bytes(const ffn_spec *spec, size_t *bytes, ffn_diag *diag);
/* Fills `packed` (FFN_PACKED_ALIGN aligned, packed_bytes >= ffn_packed_bytes). Read-only from then on; any number of
 * kernels and threads may share it; it holds no pointer, so it may be written to a file, mapped and moved. */
FFN_API ffn_status ffn_pack(const ffn_spec *spec, const ffn_weights *weights, void *packed, size_t packed_bytes,
                            ffn_diag *diag);
/* Header, size and checksum against the spec; reads the whole block. `run` checks the header only. */
FFN_API ffn_status ffn_packed_check(const ffn_spec *spec, const void *packed, size_t packed_bytes, ffn_diag *diag);

/* ffn_pack into a file: written beside `path` and renamed when it is whole, so that no reader sees a part. Needs a few
 * MiB of memory whatever the size. SYSTEM names the file and what the system said; nothing is left behind then. */
FFN_API ffn_status ffn_pack_file(const ffn_spec *spec, const ffn_weights *weights, const char *path, ffn_diag *diag);
/* A file of packed weights -> memory, read-only and shared with every process that maps it. Header and size are checked
 * (BAD_FILE, BAD_WEIGHTS), the checksum is not: that is ffn_packed_check, which reads it all. Who may shorten the file
 * in place while it is mapped can end its readers (SIGBUS); ffn_pack_file never does. */
FFN_API ffn_status ffn_packed_map(const ffn_spec *spec, const char *path, const void **packed, size_t *packed_bytes,
                                  ffn_diag *diag);
/* NULL is allowed. No kernel may be running on it. */
FFN_API void ffn_packed_unmap(const void *packed, size_t packed_bytes);

/* ---- Source of code ---------------------------------------------------------------------------------------- */

typedef struct ffn_bytes {
    void *data;
    size_t bytes;
    void (*release)(void *data); /* NULL for static storage */
} ffn_bytes;

/* Code of one spec and plan that is part of the program already, as an emitted header's is: nothing to map. The entries
 * have the contracts of docs/image.md. Everything named lives as long as the program. */
typedef struct ffn_native {
    ffn_plan plan;
    size_t scratch_bytes;
    void (*fused)(const float *x, int64_t ldx, float *y, int64_t ldy, const void *packed, void *scratch,
                  int64_t row_begin, int64_t row_end);
    void (*expand)(const float *x, int64_t ldx, const void *packed, float *hidden, void *scratch, int64_t n,
                   int64_t col_begin, int64_t col_end);
    void (*contract)(const float *hidden, const void *packed, float *y, int64_t ldy, void *scratch, int64_t n,
                     int64_t col_begin, int64_t col_end);
    void (*activate)(int64_t count, const float *g, const float *u, float *out);
} ffn_native;

/* The only way from libffn to code. `build` turns spec and plan into an image (docs/image.md), by preference with that
 * plan; `find`, which is asked first, names code that is there already, by preference with that plan. Either may be
 * NULL (not both); both may be called from several threads at once, and must return: no exception and no longjmp may
 * leave them, nor may they prepare the kernel that asks. UNSUPPORTED: none for this spec, ISA or class. libffngen's
 * ffngen_source() is one; the table of an emitted header, PREFIX_source(), is another. */
typedef struct ffn_source {
    ffn_status (*build)(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_bytes *image, ffn_diag *diag);
    void *self;
    /* One line that changes whenever the image of a spec and plan may: the generator and the LLVM below it. Its images
     * are kept in the disk store under this name; NULL: they are not kept. */
    const char *identity;
    ffn_status (*find)(void *self, const ffn_spec *spec, const ffn_plan *plan, ffn_native *native, ffn_diag *diag);
} ffn_source;

/* ---- Verification ------------------------------------------------------------------------------------------ */

typedef enum ffn_verify_mode { FFN_VERIFY_FIRST_USE, FFN_VERIFY_ALWAYS, FFN_VERIFY_NEVER } ffn_verify_mode;

/* An independent matrix product, c[m][n] = a[m][k] b[k][n], row-major doubles, dense; libffnblas wraps OpenBLAS. */
typedef struct ffn_product {
    void (*multiply)(void *self, int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c);
    const char *(*describe)(void *self); /* name, version, core type: named when the product is the wrong side */
    void *self;
} ffn_product;

/* ---- Context and kernels ----------------------------------------------------------------------------------- */

typedef struct ffn_context ffn_context; /* the cache: kernels made through it are shared, counted and evicted */
typedef struct ffn_kernel ffn_kernel;   /* the code (one image per n class) of one spec */

enum { FFN_TOOL_PERF_MAP = 1, FFN_TOOL_GDB = 2 };

#define FFN_CACHE_BYTES_DEFAULT ((size_t)64 << 20)
#define FFN_STORE_BYTES_DEFAULT ((size_t)256 << 20)

typedef struct ffn_options { /* all zero is the default */
    ffn_isa isa;             /* AUTO: ffn_isa_best(). One the CPU lacks is UNSUPPORTED. */
    ffn_verify_mode verify;
    const ffn_source *source;   /* NULL: libffngen, loaded when something must be compiled */
    const char *compiler;       /* file of libffngen's shared library; NULL: looked for beside libffn; "": none; a
                                   relative one is meant from the folder that is current at create */
    const ffn_product *product; /* NULL: verification runs without check (c) */
    const ffn_machine *machine; /* NULL: ffn_machine_read */
    const ffn_plan *plan;       /* NULL: tuned, else ffn_plan_make; else used for every class (tests, tuning) */
    const char *tuned;          /* file of tuned plans (docs/tuned.md) that is looked into before the user's own,
                                   $XDG_CONFIG_HOME/ffngen/tuned or ~/.config/ffngen/tuned; NULL: that one alone; "": neither */
    int32_t threads;            /* that will share a run: which tuned plans fit; 0: 1 */
    const char *store;  /* folder of the disk store; NULL: $XDG_CACHE_HOME/ffngen or ~/.cache/ffngen; "": none */
    size_t store_bytes; /* the store's limit; 0: FFN_STORE_BYTES_DEFAULT */
    size_t cache_bytes; /* memory for kernels before those that nobody holds go; 0: FFN_CACHE_BYTES_DEFAULT */
    uint32_t tools;     /* FFN_TOOL_*: who is told of generated code */
} ffn_options;

typedef struct ffn_counters {
    uint64_t compiled;  /* images the source built and that were published */
    uint64_t loaded;    /* code published from the store, by ffn_kernel_load or by ffn_source.find */
    uint64_t hit;       /* prepares served from memory, waiting for another thread's build included */
    uint64_t evicted;   /* kernels that left the cache for its limit */
    uint64_t fell_back; /* prepares that left the class without code of its own */
    uint64_t failed;    /* builds and loads that failed for a reason other than UNSUPPORTED */
} ffn_counters;

/* Options are copied, their texts too; what the other pointers name must outlive the context. Thread-safe from then
 * on. Tuned plans and what was measured of the machine are read when the first kernel is created, the disk store and
 * the compiler are not touched before the first ffn_kernel_prepare. */
FFN_API ffn_status ffn_context_create(const ffn_options *options, ffn_context **context, ffn_diag *diag);
/* NULL is allowed. Every kernel of the context must have been destroyed. */
FFN_API void ffn_context_destroy(ffn_context *context);
FFN_API void ffn_context_counters(ffn_context *context, ffn_counters *counters);

/* The kernel of a spec, held until it is destroyed as often as it was created: two creates of one spec in one context
 * return the same kernel. Compiles nothing yet: the portable kernel serves until a class is prepared. A kernel that
 * nobody holds stays in the cache until its limit asks for room. */
FFN_API ffn_status ffn_kernel_create(ffn_context *context, const ffn_spec *spec, ffn_kernel **kernel, ffn_diag *diag);
/* NULL is allowed. */
FFN_API void ffn_kernel_destroy(ffn_kernel *kernel);
/* Finds the class of n in memory, in the store or builds it, verifies and publishes it. One thread builds a class,
 * others wait for it. On failure the kernel still runs, by another class or by the portable kernel; the status says
 * why. Other threads may run the kernel meanwhile: calls that begin later use the new code. On success diag may hold a
 * remark, said once a context, that the store or a file of tuned plans or measured rates could not be used. Compiling
 * needs 1 MiB of stack. */
FFN_API ffn_status ffn_kernel_prepare(ffn_kernel *kernel, int64_t n, ffn_diag *diag);
/* Publishes an image made earlier for this spec (`ffngen emit --format image`) after checking it. */
FFN_API ffn_status ffn_kernel_load(ffn_kernel *kernel, const void *image, size_t image_bytes, ffn_diag *diag);

typedef enum ffn_origin {
    FFN_FROM_FALLBACK,
    FFN_FROM_COMPILER,
    FFN_FROM_STORE,
    FFN_FROM_IMAGE,
    FFN_FROM_NATIVE /* ffn_source.find */
} ffn_origin;

/* Where a plan came from. A hint is a tuned plan of another machine: used where this one has none. */
typedef enum ffn_plan_origin { FFN_PLAN_MODEL, FFN_PLAN_TUNED, FFN_PLAN_HINT, FFN_PLAN_GIVEN } ffn_plan_origin;

typedef struct ffn_kernel_info {
    ffn_isa isa;               /* of the code that would serve n */
    ffn_origin source;         /* where it came from; IMAGE: ffn_kernel_load */
    ffn_plan plan;             /* tile_count 0 for the portable kernel */
    ffn_plan_origin plan_from; /* who chose it; GIVEN for images and native code with a plan of their own */
    bool verified;
    double compile_ms, verify_ms, load_ms;
    size_t image_bytes, code_bytes;
} ffn_kernel_info;

FFN_API const ffn_spec *ffn_kernel_spec(const ffn_kernel *kernel);
FFN_API void ffn_kernel_inspect(const ffn_kernel *kernel, int64_t n, ffn_kernel_info *info);

/* Who serves n rows, in one line of at most FFN_DESCRIBE_BYTES: spec, ISA, plan, bytes, source, verified or not. */
#define FFN_DESCRIBE_BYTES 512
FFN_API ffn_status ffn_kernel_describe(const ffn_kernel *kernel, int64_t n, char *text, size_t text_bytes,
                                       ffn_diag *diag);
/* Three lines of at most FFN_DESCRIBE_BYTES together: the ISAs this library was built for, the features that this CPU
 * and its operating system have, and the ISA in use for n rows (that of the best code where kernel is NULL). */
FFN_API ffn_status ffn_cpu_describe(const ffn_kernel *kernel, int64_t n, char *text, size_t text_bytes, ffn_diag *diag);

/* ---- Run --------------------------------------------------------------------------------------------------- */

#define FFN_SCRATCH_ALIGN 64
#define FFN_STAGE_ROWS_MAX 16

/* Scratch of ffn_kernel_run and _run_rows for each thread that calls them at once: the same for every n, enough for
 * every class of this kernel. The contents before a call do not matter and afterwards mean nothing. */
FFN_API size_t ffn_kernel_scratch_bytes(const ffn_kernel *kernel);

/* x: [n][d_model] at stride ldx >= d_model; y: [n][d_model] at stride ldy >= d_model. Floats need the alignment of
 * float only. x and y must not overlap (y == x is refused); elements between d_model and the stride are never touched.
 * n = 0 is a success that does nothing, whatever the pointers. */
typedef struct ffn_args {
    int64_t n;
    const float *x;
    int64_t ldx;
    float *y;
    int64_t ldy;
    const void *packed;
    void *scratch; /* FFN_SCRATCH_ALIGN aligned */
    size_t scratch_bytes;
} ffn_args;

/* Takes no lock, allocates nothing, compiles nothing. Thread-safe with distinct y and scratch. BAD_ARGUMENT and
 * BAD_WEIGHTS leave y untouched. */
FFN_API ffn_status ffn_kernel_run(const ffn_kernel *kernel, const ffn_args *args, ffn_diag *diag);
/* Rows row_begin <= i < row_end of the same arguments: how several threads share a large n. */
FFN_API ffn_status ffn_kernel_run_rows(const ffn_kernel *kernel, const ffn_args *args, int64_t row_begin,
                                       int64_t row_end, ffn_diag *diag);

/* The two stages over column ranges: how several threads share a small n (n <= FFN_STAGE_ROWS_MAX). All threads expand
 * their ranges of d_ff into one shared `hidden`, wait for each other, then contract their ranges of d_model. Ranges are
 * in columns; a begin is a multiple of FFN_PANEL, an end too or the whole width. `hidden` is FFN_SCRATCH_ALIGN aligned,
 * ffn_kernel_hidden_bytes long; scratch is one for each thread. */
FFN_API size_t ffn_kernel_hidden_bytes(const ffn_kernel *kernel);
FFN_API ffn_status ffn_kernel_expand(const ffn_kernel *kernel, const ffn_args *args, float *hidden, int64_t col_begin,
                                     int64_t col_end, ffn_diag *diag);
FFN_API ffn_status ffn_kernel_contract(const ffn_kernel *kernel, const ffn_args *args, const float *hidden,
                                       int64_t col_begin, int64_t col_end, ffn_diag *diag);

/* ---- Threads ------------------------------------------------------------------------------------------------ */

/* A run cut into pieces that any threads of the caller's may run: by rows in one phase where n is large, by columns of
 * d_ff and then of d_model in two phases where it is small. Every piece of a phase may run at the same time as the
 * others, in any order; all of phase 0 must have ended before one of phase 1 begins. The bits of y do not depend on the
 * number of pieces. Small work has few pieces or one. A plain value without resources. One thread makes it, and all run
 * that one or copies of it: two works of the same call need not be cut alike. */
typedef struct ffn_work {
    int phases;        /* 0 (n = 0), 1 or 2 */
    int64_t pieces[2]; /* of each phase, at most pieces_max */
    /* what follows belongs to the library */
    const ffn_kernel *kernel;
    const void *code; /* that serves; NULL: the portable kernel */
    ffn_args args;
    int64_t groups;  /* of rows */
    int64_t unit[2]; /* panels dealt out together */
    float *hidden;
    size_t slice_bytes; /* of scratch, for each piece */
} ffn_work;

/* Bytes of args->scratch that ffn_work_make wants for n rows and up to pieces_max pieces (>= 1; usually the number of
 * threads): ffn_kernel_scratch_bytes for each piece and, where columns are cut, n rows of h. 0 where none is needed
 * (n = 0) or ffn_work_make refuses: kernel NULL, n < 0, pieces_max < 1, more bytes than the address space has. */
FFN_API size_t ffn_work_scratch_bytes(const ffn_kernel *kernel, int64_t n, int64_t pieces_max);
/* Checks all arguments as ffn_kernel_run does; they must stay valid until the last piece has run. */
FFN_API ffn_status ffn_work_make(const ffn_kernel *kernel, const ffn_args *args, int64_t pieces_max, ffn_work *work,
                                 ffn_diag *diag);
/* Runs one piece, 0 <= piece < work->pieces[phase]. Takes no lock and allocates nothing. Cannot fail on a work that
 * ffn_work_make filled and a piece inside its range. */
FFN_API ffn_status ffn_work_run(const ffn_work *work, int phase, int64_t piece, ffn_diag *diag);

/* A pool that a program brings. `run` calls task(argument, i) once for each 0 <= i < count, on any threads, and returns
 * when all have ended. */
typedef struct ffn_parallel_for {
    void (*run)(void *self, int64_t count, void (*task)(void *argument, int64_t i), void *argument);
    void *self;
    int64_t threads;
} ffn_parallel_for;

/* ffn_work on a pool: args->scratch has ffn_work_scratch_bytes(kernel, n, pool->threads). */
FFN_API ffn_status ffn_kernel_run_parallel(const ffn_kernel *kernel, const ffn_args *args, const ffn_parallel_for *pool,
                                           ffn_diag *diag);

/* The activation alone, out[i] = act(g[i]) or phi(g[i], u[i]) (u is ignored where the activation is not gated), by the
 * class that serves n rows: for tests, sweeps and the roof. Any float-aligned pointers; out may be g or u. */
FFN_API ffn_status ffn_kernel_activate(const ffn_kernel *kernel, int64_t n_rows, int64_t count, const float *g,
                                       const float *u, float *out, ffn_diag *diag);

/* ---- Checks for users -------------------------------------------------------------------------------------- */

typedef struct ffn_verify_report {
    double ms;
    double max_error, error_bound; /* of check (c); 0 where it did not run */
    double worst_case_share;       /* the largest error as a share of the textbook bound, which grows with the number of
                                      terms: at most 1 means that such a bound alone would pass the code */
    int64_t compared;              /* outputs compared bit for bit */
    uint64_t bits;                 /* digest of the outputs; every NaN counts as 0x7fc00000 */
} ffn_verify_report;

/* Checks (a) and (b) of docs/verification.md on the class that serves n, and (c) if `product` is not NULL. */
FFN_API ffn_status ffn_kernel_verify(const ffn_kernel *kernel, int64_t n, const ffn_product *product,
                                     ffn_verify_report *report, ffn_diag *diag);

/* A digest of an [n][d_model] array at stride ld, equal for equal bits; every NaN counts as 0x7fc00000. */
FFN_API uint64_t ffn_digest(const float *values, int64_t n, int64_t d_model, int64_t ld);

#ifdef __cplusplus
}
#endif
#endif
