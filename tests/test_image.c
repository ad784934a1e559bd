/* test_image.c: bytes that are not exactly an image are refused, whatever they are; what is mapped is never writable
 * and executable at once */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu.h"
#include "isa.h"
#include "support_data.h"
#include "support_image.h"

static fake_source fake;

static ffn_bytes an_image(void) {
    ffn_spec spec = support_spec("d64-f256-gelu-bias");
    ffn_plan plan = support_plan(&spec, FFN_N_17_UP);
    fake_source_init(&fake);
    return support_image(&fake, &spec, &plan);
}

static void drop(ffn_bytes bytes) {
    bytes.release(bytes.data);
    fake_source_free(&fake);
}

static image_header *header_of(ffn_bytes bytes) {
    return bytes.data;
}

static bool line_of_map_is_rwx(const char *line) {
    const char *rights = strchr(line, ' ');
    return rights != NULL && rights[2] == 'w' && rights[3] == 'x';
}

static bool any_page_is_rwx(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    cr_assert_not_null(maps);
    char line[512];
    bool found = false;
    while (fgets(line, sizeof line, maps) != NULL) {
        found = found || line_of_map_is_rwx(line);
    }
    fclose(maps);
    return found;
}

static char rights_of(const void *address, int which) {
    FILE *maps = fopen("/proc/self/maps", "r");
    cr_assert_not_null(maps);
    char line[512], rights[8] = "????";
    char found = '?';
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3 && (unsigned long)(uintptr_t)address >= begin &&
            (unsigned long)(uintptr_t)address < end) {
            found = rights[which];
        }
    }
    fclose(maps);
    return found;
}

/* The rows of the table in docs/image.md: a document that lags behind the header misleads whoever reads images by it.
 */
Test(image, is_laid_out_as_its_document_says) {
#define ROW(field, bytes) \
    { #field, offsetof(image_header, field), bytes }
#define OF(field) ROW(field, sizeof(((image_header *)NULL)->field))
    static const struct {
        const char *name;
        size_t offset, bytes;
    } rows[] = {OF(magic),
                OF(version),
                OF(header_bytes),
                OF(total_bytes),
                OF(checksum),
                OF(generator_hash),
                OF(llvm_version),
                OF(isa),
                OF(verified),
                OF(cpu_needs),
                OF(scratch_bytes),
                ROW(text_offset, 16),
                ROW(rodata_offset, 16),
                OF(entries),
                OF(plan),
                OF(spec)};
#undef OF
#undef ROW
    enum { ROWS = sizeof rows / sizeof *rows };
    FILE *document = fopen(FFN_SOURCE_DIR "/docs/image.md", "r");
    cr_assert_not_null(document);
    char line[512], name[64], first_line[64];
    size_t found = 0, offset, bytes;
    unsigned version = 0;
    bool header_size = false;
    snprintf(first_line, sizeof first_line, "    offset 0      header, %zu bytes\n", sizeof(image_header));
    while (fgets(line, sizeof line, document) != NULL) {
        header_size = header_size || strcmp(line, first_line) == 0;
        if (sscanf(line, "| %zu | %zu | %63[a-z_]", &offset, &bytes, name) != 3)
            continue;
        cr_assert_lt(found, ROWS);
        cr_expect_str_eq(name, rows[found].name);
        cr_expect_eq(offset, rows[found].offset, "%s stands at %zu, not %zu", name, rows[found].offset, offset);
        cr_expect_eq(bytes, rows[found].bytes, "%s has %zu bytes, not %zu", name, rows[found].bytes, bytes);
        found++;
        if (strcmp(name, "version") == 0)
            sscanf(line, "| %*u | %*u | version | %u", &version);
        if (strcmp(name, "header_bytes") == 0)
            cr_expect(sscanf(line, "| %*u | %*u | header_bytes | %zu", &bytes) == 1 && bytes == sizeof(image_header));
    }
    fclose(document);
    cr_expect_eq(found, ROWS);
    cr_expect_eq(version, IMAGE_VERSION);
    cr_expect(header_size, "not there: %s", first_line);
}

Test(image, maps_text_executable_and_the_rest_readable) {
    NEEDS_IMAGES();
    ffn_bytes bytes = an_image();
    image mapped;
    ffn_diag diag = {.status = FFN_OK};
    cr_assert_eq(image_map(bytes.data, bytes.bytes, &mapped, &diag), FFN_OK, "%s", diag.text);
    const image_header *header = header_of(bytes);
    const char *base = mapped.base;
    cr_expect_eq(memcmp(base, bytes.data, bytes.bytes), 0);
    cr_expect_eq(rights_of(base, 0), 'r');
    cr_expect_eq(rights_of(base, 1), '-');
    cr_expect_eq(rights_of(base, 2), '-');
    cr_expect_eq(rights_of(base + header->text_offset, 1), '-');
    cr_expect_eq(rights_of(base + header->text_offset, 2), 'x');
    cr_expect_eq(rights_of(base + header->rodata_offset, 1), '-');
    cr_expect_eq(rights_of(base + header->rodata_offset, 2), '-');
    cr_expect_not(any_page_is_rwx());
    float g[3] = {-1, 0, 1}, out[3];
    mapped.activate(3, g, g, out);
    cr_expect_eq(out[1], 0);
    cr_expect_gt(out[2], 0.8f);
    image_unmap(&mapped);
    cr_expect_null(mapped.base);
    image_unmap(&mapped);
    drop(bytes);
}

Test(image, maps_from_any_address) {
    NEEDS_IMAGES();
    ffn_bytes bytes = an_image();
    char *moved = malloc(bytes.bytes + 1);
    memcpy(moved + 1, bytes.data, bytes.bytes);
    image mapped;
    cr_assert_eq(image_map(moved + 1, bytes.bytes, &mapped, NULL), FFN_OK);
    image_unmap(&mapped);
    free(moved);
    drop(bytes);
}

/* The bytes end at an unmapped page, so that reading past them would crash. */
Test(image, truncated_at_every_byte) {
    NEEDS_IMAGES();
    ffn_bytes bytes = an_image();
    ffn_diag diag;
    image mapped = {.base = &diag};
    for (size_t size = 0; size < bytes.bytes; ++size) {
        if (size < 4096 || size % 64 == 0) { /* each a system call or two */
            char *cut = support_guarded(size > 0 ? size : 1, true);
            memcpy(cut, bytes.data, size);
            cr_assert_eq(image_check(cut, size, &diag), FFN_BAD_IMAGE, "%zu bytes", size);
            cr_assert_eq(image_map(cut, size, &mapped, &diag), FFN_BAD_IMAGE, "%zu bytes", size);
            support_guarded_free(cut, size > 0 ? size : 1);
        } else {
            cr_assert_eq(image_check(bytes.data, size, &diag), FFN_BAD_IMAGE, "%zu bytes", size);
        }
    }
    cr_expect_eq(mapped.base, (void *)&diag, "a failure wrote its output");
    drop(bytes);
}

Test(image, every_byte_flipped) {
    NEEDS_IMAGES();
    ffn_bytes bytes = an_image();
    unsigned char *at = bytes.data;
    ffn_diag diag;
    image mapped = {0};
    for (size_t i = 0; i < bytes.bytes; ++i) {
        at[i] ^= (unsigned char)(1u << i % 8);
        cr_assert_eq(image_check(at, bytes.bytes, &diag), FFN_BAD_IMAGE, "byte %zu", i);
        if (i < sizeof(image_header)) {
            cr_assert_eq(image_map(at, bytes.bytes, &mapped, &diag), FFN_BAD_IMAGE, "byte %zu", i);
        }
        at[i] ^= (unsigned char)(1u << i % 8);
    }
    cr_expect_eq(image_check(at, bytes.bytes, &diag), FFN_OK, "%s", diag.text);
    drop(bytes);
}

Test(image, longer_than_its_header_says) {
    NEEDS_IMAGES();
    ffn_bytes bytes = an_image();
    char *longer = calloc(1, bytes.bytes + 64);
    memcpy(longer, bytes.data, bytes.bytes);
    support_image_seal(longer, bytes.bytes + 64);
    ffn_diag diag = {.status = FFN_OK};
    cr_expect_eq(image_check(longer, bytes.bytes + 64, &diag), FFN_BAD_IMAGE);
    cr_expect(strstr(diag.text, "its header says") != NULL, "%s", diag.text);
    free(longer);
    drop(bytes);
}

/* The same with a right checksum, as one who makes an image by hand would: a crash or a call outside the text is
 * what must not happen, whatever the header says. */
Test(image, every_bit_of_the_header_flipped_and_sealed) {
    NEEDS_IMAGES();
    ffn_bytes bytes = an_image();
    unsigned char *at = bytes.data;
    for (size_t bit = 0; bit < sizeof(image_header) * 8; ++bit) {
        at[bit / 8] ^= (unsigned char)(1u << bit % 8);
        support_image_seal(at, bytes.bytes);
        image mapped;
        ffn_diag diag = {.status = FFN_OK};
        ffn_status status = image_map(at, bytes.bytes, &mapped, &diag);
        if (status == FFN_OK) {
            const image_header *header = mapped.header;
            for (int e = 0; e < IMAGE_ENTRIES; ++e) {
                cr_assert(header->entries[e] >= header->text_offset &&
                          header->entries[e] < header->text_offset + header->text_bytes);
            }
            cr_assert_leq(header->text_offset + header->text_bytes, bytes.bytes);
            image_unmap(&mapped);
        } else {
            cr_assert(status == FFN_BAD_IMAGE || status == FFN_UNSUPPORTED, "bit %zu: %d", bit, status);
            cr_assert_neq(diag.text[0], '\0');
        }
        at[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    drop(bytes);
}

typedef struct lie {
    size_t offset;
    uint64_t value;
    ffn_status status;
    const char *says;
} lie;

#define FIELD(name) offsetof(image_header, name)

Test(image, lying_offsets) {
    NEEDS_IMAGES();
    static const lie lies[] = {
        {FIELD(text_offset), 0, FFN_BAD_IMAGE, "text"},
        {FIELD(text_offset), IMAGE_ALIGN + 64, FFN_BAD_IMAGE, "text"},
        {FIELD(text_offset), UINT64_MAX - IMAGE_ALIGN + 1, FFN_BAD_IMAGE, "text"},
        {FIELD(text_bytes), 0, FFN_BAD_IMAGE, "text"},
        {FIELD(text_bytes), UINT64_MAX, FFN_BAD_IMAGE, "text"},
        {FIELD(text_bytes), UINT64_MAX - IMAGE_ALIGN + 1, FFN_BAD_IMAGE, "text"},
        {FIELD(text_bytes), IMAGE_ALIGN * 2 + 1, FFN_BAD_IMAGE, "text"},
        {FIELD(text_bytes), IMAGE_ALIGN + 1, FFN_BAD_IMAGE, "constants"},
        {FIELD(rodata_offset), IMAGE_ALIGN, FFN_BAD_IMAGE, "constants"},
        {FIELD(rodata_offset), 0, FFN_BAD_IMAGE, "constants"},
        {FIELD(rodata_bytes), UINT64_MAX - 1, FFN_BAD_IMAGE, "constants"},
        {FIELD(entries), 0, FFN_BAD_IMAGE, "fused"},
        {FIELD(entries) + 8, IMAGE_ALIGN - 1, FFN_BAD_IMAGE, "expand"},
        {FIELD(entries) + 16, UINT64_MAX, FFN_BAD_IMAGE, "contract"},
        {FIELD(entries) + 24, IMAGE_ALIGN * 2, FFN_BAD_IMAGE, "activate"},
        {FIELD(total_bytes), UINT64_MAX, FFN_BAD_IMAGE, "its header says"},
        {FIELD(scratch_bytes), UINT64_MAX, FFN_BAD_IMAGE, "plan"},
        {FIELD(cpu_needs), UINT64_C(1) << 63, FFN_UNSUPPORTED, "lacks"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; ++i) {
        ffn_bytes bytes = an_image();
        memcpy((char *)bytes.data + lies[i].offset, &lies[i].value, sizeof lies[i].value);
        support_image_seal(bytes.data, bytes.bytes);
        ffn_diag diag = {.status = FFN_OK};
        cr_expect_eq(image_check(bytes.data, bytes.bytes, &diag), lies[i].status, "lie %zu", i);
        cr_expect(strstr(diag.text, lies[i].says) != NULL, "lie %zu: %s", i, diag.text);
        drop(bytes);
    }
}

Test(image, texts_that_do_not_end) {
    NEEDS_IMAGES();
    ffn_bytes bytes = an_image();
    memset(header_of(bytes)->llvm_version, 'x', sizeof header_of(bytes)->llvm_version);
    support_image_seal(bytes.data, bytes.bytes);
    cr_expect_eq(image_check(bytes.data, bytes.bytes, NULL), FFN_BAD_IMAGE);
    drop(bytes);
    bytes = an_image();
    memset(header_of(bytes)->spec.activation, 'x', sizeof header_of(bytes)->spec.activation);
    support_image_seal(bytes.data, bytes.bytes);
    cr_expect_eq(image_check(bytes.data, bytes.bytes, NULL), FFN_BAD_IMAGE);
    drop(bytes);
}

/* The plan is one of the ISA that the image is labelled with, so that nothing but the label is in question: plans of
 * AVX-512 are none of ISAs with fewer registers. An image that asks nothing of the CPU is no more for this one. */
Test(image, one_of_another_architecture_is_unsupported) {
    NEEDS_IMAGES();
    for (int isa = FFN_ISA_PORTABLE; isa < FFN_ISA_COUNT + 2; ++isa) {
        const isa_row *row = isa < FFN_ISA_COUNT ? isa_row_of((ffn_isa)isa) : NULL;
        const ffn_status expected = row == NULL                       ? FFN_BAD_IMAGE
                                    : ffn_isa_supported((ffn_isa)isa) ? FFN_OK
                                                                      : FFN_UNSUPPORTED;
        ffn_bytes bytes = an_image();
        image_header *header = header_of(bytes);
        if (row != NULL) {
            ffn_machine machine;
            cr_assert_eq(ffn_machine_generic((ffn_isa)isa, &machine, NULL), FFN_OK);
            cr_assert_eq(ffn_plan_make(&header->spec, (ffn_isa)isa, FFN_N_17_UP, &machine, &header->plan, NULL),
                         FFN_OK);
            header->cpu_needs = row->needs;
        }
        header->isa = (uint32_t)isa;
        header->plan.isa = (ffn_isa)isa;
        for (int asks = 1; asks >= 0; --asks) {
            header->cpu_needs = asks ? header->cpu_needs : 0;
            support_image_seal(bytes.data, bytes.bytes);
            ffn_diag diag = {.status = FFN_OK};
            cr_expect_eq(image_check(bytes.data, bytes.bytes, &diag), expected, "ISA %d: %s", isa, diag.text);
        }
        drop(bytes);
    }
}

Test(image, null_and_absurd_sizes) {
    char byte = 0;
    image mapped;
    cr_expect_eq(image_check(NULL, 0, NULL), FFN_BAD_IMAGE);
    cr_expect_eq(image_map(NULL, 100000, &mapped, NULL), FFN_BAD_IMAGE);
    cr_expect_eq(image_check(&byte, SIZE_MAX, NULL), FFN_BAD_IMAGE);
    cr_expect_eq(image_map(&byte, SIZE_MAX, &mapped, NULL), FFN_BAD_IMAGE);
}

Test(image, marking_keeps_the_checksum_right) {
    NEEDS_IMAGES();
    ffn_bytes bytes = an_image();
    image_mark_verified(bytes.data, bytes.bytes);
    cr_expect_eq(header_of(bytes)->verified, 1);
    cr_expect_eq(header_of(bytes)->checksum, image_checksum(bytes.data, bytes.bytes));
    cr_expect_eq(image_check(bytes.data, bytes.bytes, NULL), FFN_OK);
    drop(bytes);
}

/* PR_SET_MDWE (Linux 6.3) makes the kernel refuse to turn writable memory executable. */
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

Test(image, executable_memory_denied) {
    NEEDS_IMAGES();
    if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0) {
        cr_skip_test("this kernel cannot deny executable memory");
    }
    ffn_bytes bytes = an_image();
    image mapped = {0};
    ffn_diag diag = {.status = FFN_OK};
    cr_expect_eq(image_map(bytes.data, bytes.bytes, &mapped, &diag), FFN_SYSTEM);
    cr_expect(strstr(diag.text, "mprotect") != NULL, "%s", diag.text);
    cr_expect_null(mapped.base);

    ffn_options options = {.source = &fake.source, .store = ""};
    ffn_spec spec = support_spec("d64-f256-gelu-bias");
    ffn_context *context;
    ffn_kernel *kernel;
    cr_assert_eq(ffn_context_create(&options, &context, NULL), FFN_OK);
    cr_assert_eq(ffn_kernel_create(context, &spec, &kernel, NULL), FFN_OK);
    cr_expect_eq(ffn_kernel_prepare(kernel, 17, &diag), FFN_SYSTEM);
    ffn_kernel_info info;
    ffn_kernel_inspect(kernel, 17, &info);
    cr_expect_eq(info.source, FFN_FROM_FALLBACK);
    support_weights *weights = support_random_weights(&spec, SUPPORT_NORMAL, 1);
    void *packed = support_packed(&spec, &weights->weights);
    size_t scratch_bytes = ffn_kernel_scratch_bytes(kernel);
    void *scratch = support_aligned(scratch_bytes);
    float x[64] = {1}, y[64] = {0};
    ffn_args args = {1, x, 64, y, 64, packed, scratch, scratch_bytes};
    cr_expect_eq(ffn_kernel_run(kernel, &args, &diag), FFN_OK, "%s", diag.text);
    cr_expect_neq(y[5], 0);
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    free(scratch);
    free(packed);
    support_weights_free(weights);
    drop(bytes);
}
