/* test_emit_weights.c: packed weights as assembly, in a header, named by one, or mapped from a file: the same bytes,
 * read-only, aligned and there once; files that are not those weights are refused */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emit.h"
#include "emit_weights.h"
#include "support_data.h"
#include "support_files.h"

TestSuite(emit_weights, .init = support_folder_make, .fini = support_folder_remove, .timeout = 300);

#define SPEC "d40-f72-swiglu-bias"
#define SYMBOL "net"
#define ODD_NAME "my \"w\" \\ file\t1.ffnw"

static const char *const compilers[] = {"gcc", "clang", "clang-19"};
enum { COMPILERS = sizeof compilers / sizeof *compilers, HEADER_COMPILERS = 2 };

static ffn_diag diag;

/* ---- What is emitted and compiled ---- */

typedef struct layer {
    emit_kernel kernel;
    void *packed;
    size_t bytes;
} layer;

static layer layer_of(const char *spec) {
    layer made = {.kernel = {.spec = support_spec(spec), .symbol = SYMBOL}};
    support_weights *w = support_random_weights(&made.kernel.spec, SUPPORT_NORMAL, 7);
    made.packed = support_packed(&made.kernel.spec, &w->weights);
    support_weights_free(w);
    cr_assert_eq(ffn_packed_bytes(&made.kernel.spec, &made.bytes, NULL), FFN_OK);
    made.kernel.weights = made.packed;
    made.kernel.weights_bytes = made.bytes;
    return made;
}

static bool run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A shell command in the test's folder; what it says goes to the file "said". */
static bool run(const char *format, ...) {
    char command[4096];
    int used =
        snprintf(command, sizeof command, "cd %.*s && { ", (int)strlen(support_path("x")) - 2, support_path("x"));
    va_list arguments;
    va_start(arguments, format);
    used += vsnprintf(command + used, sizeof command - (size_t)used, format, arguments);
    va_end(arguments);
    snprintf(command + used, sizeof command - (size_t)used, "; } > said 2>&1");
    return system(command) == 0;
}

static const char *said(void) {
    static char words[4096];
    FILE *file = fopen(support_path("said"), "r");
    const size_t bytes = file ? fread(words, 1, sizeof words - 1, file) : 0;
    words[bytes] = '\0';
    if (file)
        fclose(file);
    return words;
}

static bool has(const char *compiler) {
    return run("command -v %s", compiler);
}

static void write_text(const char *name, const text *t) {
    cr_assert(!t->failed);
    support_file_write(support_path(name), t->data, t->bytes);
}

static void write_assembly(const layer *l, const char *name, int copies) {
    text assembly = {0};
    for (int i = 0; i < copies; i++)
        emit_weights(&l->kernel, &assembly);
    write_text(name, &assembly);
    text_free(&assembly);
}

/* The same as C, with a function that tells the address. */
static void write_c(const layer *l, const char *name) {
    text assembly = {0}, c = {0};
    emit_weights(&l->kernel, &assembly);
    text_put(&c, "extern const unsigned char " SYMBOL "_packed_00000000[] __attribute__((visibility(\"hidden\")));\n"
                 "#ifndef NAME\n#define NAME where\n#endif\n"
                 "const void *NAME(void);\nconst void *NAME(void) { return " SYMBOL "_packed_00000000; }\n");
    emit_quoted(assembly.data, assembly.bytes, &c);
    write_text(name, &c);
    text_free(&assembly);
    text_free(&c);
}

static void *opened(const char *name) {
    void *library = dlopen(support_path(name), RTLD_NOW | RTLD_LOCAL);
    cr_assert(library, "%s", dlerror());
    return library;
}

typedef const void *(*where_function)(void);
static const void *address_in(void *library, const char *name) {
    where_function where;
    *(void **)&where = dlsym(library, name);
    cr_assert(where);
    return where();
}

static bool is_writable(const void *address) {
    char line[512], rights[8];
    unsigned long begin, end;
    bool found = false, writable = true;
    FILE *maps = fopen("/proc/self/maps", "r");
    cr_assert(maps);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3 && begin <= (uintptr_t)address &&
            (uintptr_t)address < end) {
            found = true;
            writable = rights[1] == 'w';
        }
    fclose(maps);
    cr_assert(found);
    return writable;
}

static void expect_block(const layer *l, const void *at, const char *what) {
    cr_expect_eq((uintptr_t)at % FFN_PACKED_ALIGN, 0u, "%s: at %p", what, at);
    cr_expect_arr_eq(at, l->packed, l->bytes, "%s: other bytes", what);
    cr_expect(!is_writable(at), "%s: writable", what);
}

/* ---- Assembly ---- */

/* Of an object: the one section that holds the symbol. */
static void expect_section(const char *path, size_t bytes) {
    size_t file_bytes;
    char *file = support_file_read(path, &file_bytes);
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)(void *)file;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(void *)(file + header->e_shoff);
    int symbols = 0;
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *table = (const Elf64_Sym *)(void *)(file + sections[i].sh_offset);
        const char *names = file + sections[sections[i].sh_link].sh_offset;
        for (size_t s = 0; s < sections[i].sh_size / sizeof *table; s++) {
            if (strcmp(names + table[s].st_name, SYMBOL "_packed_00000000") != 0)
                continue;
            const Elf64_Shdr *own = &sections[table[s].st_shndx];
            symbols++;
            cr_expect_eq(own->sh_flags, (Elf64_Xword)(SHF_ALLOC | SHF_GROUP), "flags %lx", own->sh_flags);
            cr_expect_eq(own->sh_addralign, 64u);
            cr_expect_eq(table[s].st_size, bytes);
            cr_expect(own->sh_size == bytes || own->sh_size == bytes + 1, "%zu bytes", (size_t)own->sh_size);
            cr_expect_eq(table[s].st_size, bytes);
            cr_expect_eq(ELF64_ST_BIND(table[s].st_info), STB_WEAK);
            cr_expect_eq(ELF64_ST_TYPE(table[s].st_info), STT_OBJECT);
            cr_expect_eq(ELF64_ST_VISIBILITY(table[s].st_other), STV_HIDDEN);
        }
    }
    cr_expect_eq(symbols, 1);
    free(file);
}

Test(emit_weights, assemble_to_the_block_in_a_read_only_section) {
    layer l = layer_of(SPEC);
    write_assembly(&l, "w.s", 1);
    write_c(&l, "w.c");
    int ran = 0;
    for (int c = 0; c < COMPILERS; c++) {
        if (!has(compilers[c]))
            continue;
        static const char *const options[] = {"-O2", "-O0 -g", "-O2 -flto -ffat-lto-objects", "-x c++ -O2"};
        cr_assert(run("%s -c w.s -o w.o", compilers[c]), "%s", said());
        expect_section(support_path("w.o"), l.bytes);
        for (size_t o = 0; o < sizeof options / sizeof *options; o++) {
            char name[64];
            if (strstr(options[o], "lto") && strcmp(compilers[c], "gcc") != 0)
                continue; /* clang's needs a plugin or lld */
            snprintf(name, sizeof name, "%s-%zu.so", compilers[c], o);
            cr_assert(run("%s %s -Wall -Wextra -Wpedantic -Werror '-DNAME=%s' -fPIC -shared w.c -o %s", compilers[c],
                          options[o], strstr(options[o], "c++") ? "__attribute__((weak)) where" : "where", name),
                      "%s", said());
            if (strstr(options[o], "c++"))
                continue; /* its name is mangled; that it compiles is what is asked */
            void *library = opened(name);
            expect_block(&l, address_in(library, "where"), name);
            dlclose(library);
        }
        ran++;
    }
    cr_assert_geq(ran, 1, "no compiler is there");
    free(l.packed);
}

Test(emit_weights, assemble_in_a_file_of_intel_syntax) {
    layer l = layer_of(SPEC);
    write_c(&l, "w.c");
    if (has("gcc") && run("gcc -v 2>&1 | grep -q 'Target: x86_64'")) {
        cr_assert(run("gcc -O2 -masm=intel -fPIC -shared w.c -o w.so"), "%s", said());
        void *library = opened("w.so");
        expect_block(&l, address_in(library, "where"), "-masm=intel");
        dlclose(library);
    }
    free(l.packed);
}

static int count_in_file(const char *path, const void *block, size_t bytes) {
    size_t file_bytes;
    char *file = support_file_read(path, &file_bytes);
    int count = 0;
    for (char *at = file; (at = memmem(at, file_bytes - (size_t)(at - file), block, bytes)) != NULL; at++)
        count++;
    free(file);
    return count;
}

Test(emit_weights, are_there_once_whoever_holds_them) {
    layer l = layer_of(SPEC);
    write_assembly(&l, "twice.s", 2);
    write_c(&l, "w.c");
    for (int c = 0; c < COMPILERS; c++) {
        if (!has(compilers[c]))
            continue;
        cr_assert(run("%s -c twice.s -o twice.o", compilers[c]), "%s", said());
        expect_section(support_path("twice.o"), l.bytes);
        cr_assert(run("%s -O2 -fPIC -c w.c -o a.o && %s -O2 -fPIC -DNAME=other -c w.c -o b.o && "
                      "%s -shared a.o b.o twice.o -o both-%s.so",
                      compilers[c], compilers[c], compilers[c], compilers[c]),
                  "%s", said());
        char name[64];
        snprintf(name, sizeof name, "both-%s.so", compilers[c]);
        cr_expect_eq(count_in_file(support_path(name), l.packed, l.bytes), 1);
        void *library = opened(name);
        cr_expect_eq(address_in(library, "where"), address_in(library, "other"));
        dlclose(library);
    }
    free(l.packed);
}

Test(emit_weights, lines_are_short_and_take_2_5_bytes_a_byte) {
    layer l = layer_of("d200-f300-relu");
    text assembly = {0}, quoted = {0};
    emit_weights(&l.kernel, &assembly);
    emit_quoted(assembly.data, assembly.bytes, &quoted);
    cr_assert(!assembly.failed && !quoted.failed);
    cr_expect_lt(quoted.bytes, l.bytes * 5 / 2 + 2000, "%zu for %zu", quoted.bytes, l.bytes);
    size_t column = 0, most = 0;
    for (size_t i = 0; i < assembly.bytes; i++) {
        column = assembly.data[i] == '\n' ? 0 : column + 1;
        most = column > most ? column : most;
    }
    cr_expect_leq(most, 110u); /* which leaves room for what C puts around them */
    text_free(&assembly);
    text_free(&quoted);
    free(l.packed);
}

Test(emit_weights, without_weights_nothing_is_written) {
    layer l = layer_of(SPEC);
    l.kernel.weights = NULL;
    text assembly = {0};
    emit_weights(&l.kernel, &assembly);
    cr_expect_eq(assembly.bytes, 0u);
    free(l.packed);
}

/* ---- A file that the assembler reads ---- */

Test(emit_weights, files_are_brought_in_whole_and_of_no_other_length) {
    layer l = layer_of(SPEC);
    const char *const names[] = {"w.ffnw", ODD_NAME};
    for (int n = 0; n < 2; n++) {
        l.kernel.weights = NULL;
        l.kernel.weights_file = names[n];
        write_assembly(&l, "w.s", 1);
        for (int c = 0; c < COMPILERS; c++) {
            if (!has(compilers[c]))
                continue;
            support_file_write(support_path(names[n]), l.packed, l.bytes);
            cr_assert(run("%s -c w.s -o w.o", compilers[c]), "%s", said());
            expect_section(support_path("w.o"), l.bytes);
            cr_expect_eq(count_in_file(support_path("w.o"), l.packed, l.bytes), 1);
            support_file_write(support_path(names[n]), l.packed, l.bytes - 1);
            cr_expect(!run("%s -c w.s -o w.o", compilers[c]), "%s took a short file", compilers[c]);
            char *longer = calloc(1, l.bytes + 1);
            memcpy(longer, l.packed, l.bytes);
            support_file_write(support_path(names[n]), longer, l.bytes + 1);
            cr_expect(!run("%s -c w.s -o w.o", compilers[c]), "%s took a long file", compilers[c]);
            free(longer);
            unlink(support_path(names[n]));
            cr_expect(!run("%s -c w.s -o w.o", compilers[c]), "%s needs no file", compilers[c]);
        }
    }
    free(l.packed);
}

/* ---- Headers ---- */

static void write_header(layer *l, const char *weights_file) {
    if (weights_file)
        l->kernel.weights = NULL;
    l->kernel.weights_file = weights_file;
    const emit_job job = {
        .prefix = SYMBOL, .file = "net.h", .portable = true, .kernels = &l->kernel, .kernel_count = 1};
    ffn_bytes header = {0};
    cr_assert_eq(emit_header(&job, &header, &diag), FFN_OK, "%s", diag.text);
    support_file_write(support_path("net.h"), header.data, header.bytes);
    header.release(header.data);
    static const char program[] = "#define NET_IMPLEMENTATION\n#include \"net.h\"\n"
                                  "#ifdef __cplusplus\nextern \"C\" {\n#endif\n"
                                  "#ifndef NET_LOADER\n"
                                  "const void *where(void);\nconst void *where(void) { return net_packed; }\n"
                                  "#else\nint loads(void);\nint loads(void) { return net_load(0, 0, 0); }\n#endif\n"
                                  "#ifdef __cplusplus\n}\n#endif\n";
    support_file_write(support_path("program.c"), program, sizeof program - 1);
}

#define WARNINGS "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-qual -Wunused -Werror"

Test(emit_weights, a_header_holds_them_or_names_the_file) {
    layer l = layer_of(SPEC);
    typedef int (*check_function)(const void *packed, size_t bytes);
    static const char *const languages[] = {"-std=c99", "-x c++ -std=c++11"};
    cr_assert_eq(mkdir(support_path("away"), 0700), 0);
    support_file_write(support_path("away/" ODD_NAME), l.packed, l.bytes);
    for (int named = 0; named < 2; named++) {
        write_header(&l, named ? ODD_NAME : NULL);
        for (int c = 0; c < HEADER_COMPILERS; c++)
            for (int i = 0; i < 2; i++) {
                char name[64];
                if (!has(compilers[c]))
                    continue;
                snprintf(name, sizeof name, "%s-%d-%d.so", compilers[c], named, i);
                cr_assert(run("%s %s -O0 " WARNINGS " %s -fPIC -shared -nostdlib program.c -o %s", compilers[c],
                              languages[i], named ? "-I away" : "", name),
                          "%s", said());
                void *library = opened(name);
                const void *block = address_in(library, "where");
                expect_block(&l, block, name);
                check_function check;
                *(void **)&check = dlsym(library, "net_check");
                cr_assert(check);
                cr_expect_eq(check(block, l.bytes), 0);
                dlclose(library);
            }
    }
    unlink(support_path("away/" ODD_NAME));
    rmdir(support_path("away"));
    free(l.packed);
}

Test(emit_weights, the_file_may_be_named_where_the_header_is_compiled) {
    layer l = layer_of(SPEC);
    write_header(&l, "absent.ffnw");
    support_file_write(support_path("here.ffnw"), l.packed, l.bytes);
    for (int c = 0; c < HEADER_COMPILERS; c++) {
        char name[64];
        if (!has(compilers[c]))
            continue;
        snprintf(name, sizeof name, "%s.so", compilers[c]);
        cr_expect(!run("%s -fPIC -shared program.c -o %s", compilers[c], name));
        /* The linker assembles with -flto: it knows absolute paths alone. */
        cr_assert(run("%s %s \"-DNET_WEIGHTS_FILE=\\\"$PWD/here.ffnw\\\"\" -fPIC -shared program.c -o %s", compilers[c],
                      strcmp(compilers[c], "gcc") == 0 ? "-flto" : "", name),
                  "%s", said());
        void *library = opened(name);
        expect_block(&l, address_in(library, "where"), name);
        dlclose(library);
    }
    free(l.packed);
}

/* ---- A file that the program maps ---- */

typedef struct loader {
    void *library;
    int (*load)(const char *path, const void **packed, size_t *bytes);
    void (*unload)(const void *packed, size_t bytes);
    int (*check)(const void *packed, size_t bytes);
} loader;

static loader loader_of(const char *compiler, const char *language) {
    char name[64];
    loader made;
    snprintf(name, sizeof name, "%s%s.so", compiler, strchr(language, '+') ? "++" : "");
    cr_assert(run("%s %s -O0 " WARNINGS " -DNET_LOADER -fPIC -shared program.c -o %s", compiler, language, name), "%s",
              said());
    made.library = opened(name);
    *(void **)&made.load = dlsym(made.library, "net_load");
    *(void **)&made.unload = dlsym(made.library, "net_unload");
    *(void **)&made.check = dlsym(made.library, "net_check");
    cr_assert(made.load && made.unload && made.check);
    cr_expect_null(dlsym(made.library, "net_forward"), "it has no weights to run on");
    return made;
}

enum { OK, BAD_ARGUMENT, BAD_WEIGHTS };

static void expect_load(const loader *by, const char *name, int status) {
    const void *packed = by;
    size_t bytes = 7;
    cr_expect_eq(by->load(support_path(name), &packed, &bytes), status, "%s", name);
    if (status != OK)
        cr_expect(packed == by && bytes == 7, "%s: refused and written", name);
}

static void write_changed(const layer *l, const char *name, size_t at) {
    unsigned char *copy = malloc(l->bytes);
    cr_assert(copy);
    memcpy(copy, l->packed, l->bytes);
    copy[at] ^= 1;
    support_file_write(support_path(name), copy, l->bytes);
    free(copy);
}

static void try_files(const loader *by, const layer *l) {
    const void *packed = NULL;
    size_t bytes = 0;
    support_file_write(support_path("good"), l->packed, l->bytes);
    cr_assert_eq(by->load(support_path("good"), &packed, &bytes), OK);
    cr_expect_eq(bytes, l->bytes);
    expect_block(l, packed, "the map");
    cr_expect_eq(by->check(packed, bytes), OK);
    by->unload(packed, bytes);
    by->unload(NULL, 0);

    expect_load(by, "absent", BAD_ARGUMENT);
    expect_load(by, "folder", BAD_WEIGHTS);
    expect_load(by, "pipe", BAD_WEIGHTS);
    expect_load(by, "foreign", BAD_WEIGHTS);
    static const size_t lengths[] = {0, 1, 255, 256};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        support_file_write(support_path("short"), l->packed, lengths[i]);
        expect_load(by, "short", BAD_WEIGHTS);
    }
    support_file_write(support_path("short"), l->packed, l->bytes - 1);
    expect_load(by, "short", BAD_WEIGHTS);
    char *longer = calloc(1, l->bytes + 64);
    memcpy(longer, l->packed, l->bytes);
    support_file_write(support_path("long"), longer, l->bytes + 64);
    expect_load(by, "long", BAD_WEIGHTS);
    free(longer);
    static const size_t fields[] = {0, 8, 12, 16, 24, 32, 36, 40, 48}; /* docs/packed.md */
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        write_changed(l, "changed", fields[i]);
        expect_load(by, "changed", BAD_WEIGHTS);
    }
    write_changed(l, "damaged", l->bytes - 1); /* which only reading it all can find */
    cr_assert_eq(by->load(support_path("damaged"), &packed, &bytes), OK);
    cr_expect_eq(by->check(packed, bytes), BAD_WEIGHTS);
    by->unload(packed, bytes);
    cr_expect_eq(by->load(NULL, &packed, &bytes), BAD_ARGUMENT);
    cr_expect_eq(by->load(support_path("good"), NULL, &bytes), BAD_ARGUMENT);
    cr_expect_eq(by->load(support_path("good"), &packed, NULL), BAD_ARGUMENT);
}

Test(emit_weights, the_loader_maps_a_whole_file_of_this_spec_and_no_other) {
    layer l = layer_of(SPEC), foreign = layer_of("d40-f72-geglu-bias"); /* of the same length */
    cr_assert_eq(l.bytes, foreign.bytes);
    write_header(&l, "never-read.ffnw");
    support_file_write(support_path("foreign"), foreign.packed, foreign.bytes);
    cr_assert_eq(mkdir(support_path("folder"), 0700), 0);
    cr_assert_eq(mkfifo(support_path("pipe"), 0600), 0);
    static const char *const languages[] = {"-std=c99", "-x c++ -std=c++11"};
    for (int c = 0; c < HEADER_COMPILERS; c++)
        for (int i = 0; i < 2; i++) {
            if (!has(compilers[c]))
                continue;
            loader by = loader_of(compilers[c], languages[i]);
            try_files(&by, &l);
            dlclose(by.library);
        }
    free(l.packed);
    free(foreign.packed);
}

Test(emit_weights, a_header_that_holds_them_can_load_others_too) {
    layer l = layer_of(SPEC);
    write_header(&l, NULL);
    cr_assert(has(compilers[0]) || has(compilers[1]));
    cr_assert(run("%s -std=c99 -O0 " WARNINGS " -DNET_LOADER -fPIC -shared program.c -o both.so",
                  has(compilers[0]) ? compilers[0] : compilers[1]),
              "%s", said());
    void *library = opened("both.so");
    cr_expect(dlsym(library, "net_load"));
    cr_expect(dlsym(library, "net_forward"));
    dlclose(library);
    free(l.packed);
}
