/* image.c: bytes of an image -> code that can be called
 *
 * The bytes are copied first and the copy is checked, so nothing can change between check and use. The copy is never
 * writable and executable at once: anonymous read+write, then read, then read+execute for the text alone. Anonymous
 * memory also works where every file system is mounted noexec. Every field of the header is hostile until checked:
 * sums are compared without being formed, texts must end inside their fields, and no pointer into the bytes is
 * dereferenced at their alignment. */
#define _GNU_SOURCE
#include "image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "diag.h"
#include "isa.h"

/* Far above any kernel; keeps a lying size from asking for the whole address space. */
#define IMAGE_BYTES_MAX ((size_t)1 << 28)

uint64_t image_checksum(const void *bytes, size_t size) {
    if (size < sizeof(image_header)) {
        return 0;
    }
    image_header header;
    memcpy(&header, bytes, sizeof header);
    header.checksum = 0;
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, &header, sizeof header);
    XXH3_64bits_update(&state, (const char *)bytes + sizeof header, size - sizeof header);
    return XXH3_64bits_digest(&state);
}

void image_mark_verified(void *bytes, size_t size) {
    if (size < sizeof(image_header)) {
        return;
    }
    uint32_t verified = 1;
    memcpy((char *)bytes + offsetof(image_header, verified), &verified, sizeof verified);
    uint64_t checksum = image_checksum(bytes, size);
    memcpy((char *)bytes + offsetof(image_header, checksum), &checksum, sizeof checksum);
}

static bool part_inside(uint64_t offset, uint64_t bytes, uint64_t begin, uint64_t end) {
    return offset >= begin && offset <= end && bytes <= end - offset;
}

static bool text_ends(const char *text, size_t bytes) {
    return memchr(text, 0, bytes) != NULL;
}

static const char *const entry_names[IMAGE_ENTRIES] = {
    [IMAGE_FUSED] = "fused",
    [IMAGE_EXPAND] = "expand",
    [IMAGE_CONTRACT] = "contract",
    [IMAGE_ACTIVATE] = "activate",
};

static ffn_status check_parts(const image_header *header, size_t size, ffn_diag *diag) {
    if (header->text_offset % IMAGE_ALIGN != 0 || header->text_bytes == 0 ||
        !part_inside(header->text_offset, header->text_bytes, sizeof(image_header), size)) {
        return diag_fail(diag, FFN_BAD_IMAGE,
                         "image: text at %llu, %llu bytes: must start on a page and lie inside the image's %zu bytes",
                         (unsigned long long)header->text_offset, (unsigned long long)header->text_bytes, size);
    }
    if (header->rodata_bytes != 0 &&
        (header->rodata_offset % IMAGE_ALIGN != 0 ||
         !part_inside(header->rodata_offset, header->rodata_bytes, header->text_offset + header->text_bytes, size))) {
        return diag_fail(diag, FFN_BAD_IMAGE,
                         "image: constants at %llu, %llu bytes: must start on a page after the text and lie inside the "
                         "image's %zu bytes",
                         (unsigned long long)header->rodata_offset, (unsigned long long)header->rodata_bytes, size);
    }
    for (int e = 0; e < IMAGE_ENTRIES; ++e) {
        if (header->entries[e] < header->text_offset ||
            header->entries[e] - header->text_offset >= header->text_bytes) {
            return diag_fail(diag, FFN_BAD_IMAGE, "image: entry %s at %llu is outside the text", entry_names[e],
                             (unsigned long long)header->entries[e]);
        }
    }
    return FFN_OK;
}

static ffn_status check_machine(const image_header *header, ffn_diag *diag) {
    const isa_row *row = header->isa < FFN_ISA_COUNT ? isa_row_of((ffn_isa)header->isa) : NULL;
    if (row == NULL) {
        return diag_fail(diag, FFN_BAD_IMAGE, "image: ISA number %u is not one of this library", header->isa);
    }
    uint64_t missing = header->cpu_needs & ~cpu_features();
    if (row->arch != cpu_arch() || missing != 0 || !ffn_isa_supported((ffn_isa)header->isa)) {
        char needs[128];
        cpu_features_format(missing, needs, sizeof needs);
        return diag_fail(diag, FFN_UNSUPPORTED, "image: built for %s, which this CPU lacks%s%s", row->name,
                         missing != 0 ? ": " : "", missing != 0 ? needs : "");
    }
    return FFN_OK;
}

/* A check that lacked memory says nothing about the image. */
static ffn_status not_this_image(ffn_status status) {
    return status == FFN_OUT_OF_MEMORY ? status : FFN_BAD_IMAGE;
}

/* The header's own values, once size and checksum say that it is what its maker wrote. */
static ffn_status check_header(const image_header *header, size_t size, ffn_diag *diag) {
    if (!text_ends(header->llvm_version, sizeof header->llvm_version) ||
        !text_ends(header->spec.activation, sizeof header->spec.activation) || header->verified > 1) {
        return diag_fail(diag, FFN_BAD_IMAGE, "image: a field of the header holds no valid value");
    }
    ffn_diag why = {.status = FFN_OK};
    ffn_status status = ffn_spec_check(&header->spec, &why);
    if (status != FFN_OK) {
        return diag_fail(diag, not_this_image(status), "image: its spec is not valid: %.300s", why.text);
    }
    if ((uint32_t)header->plan.isa != header->isa || header->scratch_bytes > IMAGE_SCRATCH_BYTES_MAX) {
        return diag_fail(diag, FFN_BAD_IMAGE, "image: its plan is not valid: ISA or scratch");
    }
    status = ffn_plan_check(&header->spec, &header->plan, &why);
    if (status != FFN_OK) {
        return diag_fail(diag, not_this_image(status), "image: its plan is not valid: %.300s", why.text);
    }
    status = check_parts(header, size, diag);
    return status != FFN_OK ? status : check_machine(header, diag);
}

ffn_status image_check(const void *bytes, size_t size, ffn_diag *diag) {
    if (bytes == NULL || size < sizeof(image_header) || size > IMAGE_BYTES_MAX) {
        return diag_fail(diag, FFN_BAD_IMAGE, "image: %zu bytes, where %zu to %zu are possible", size,
                         sizeof(image_header), IMAGE_BYTES_MAX);
    }
    image_header header;
    memcpy(&header, bytes, sizeof header);
    if (memcmp(header.magic, IMAGE_MAGIC, sizeof header.magic) != 0) {
        return diag_fail(diag, FFN_BAD_IMAGE, "image: does not start with " IMAGE_MAGIC);
    }
    if (header.version != IMAGE_VERSION || header.header_bytes != sizeof header) {
        return diag_fail(diag, FFN_BAD_IMAGE,
                         "image: version %u with a header of %u bytes, where %d with %zu is needed", header.version,
                         header.header_bytes, IMAGE_VERSION, sizeof header);
    }
    if (header.total_bytes != size) {
        return diag_fail(diag, FFN_BAD_IMAGE, "image: %zu bytes given, its header says %llu", size,
                         (unsigned long long)header.total_bytes);
    }
    if (image_checksum(bytes, size) != header.checksum) {
        return diag_fail(diag, FFN_BAD_IMAGE, "image: checksum does not match: the bytes were damaged");
    }
    return check_header(&header, size, diag);
}

static size_t round_up(size_t value, size_t unit) {
    return (value + unit - 1) / unit * unit;
}

/* Pages larger than the image's alignment may hold text and constants together; they become executable, never
 * writable. */
static bool protect(char *base, size_t mapped_bytes, const image_header *header, size_t page) {
    size_t begin = (size_t)header->text_offset / page * page;
    size_t end = round_up((size_t)(header->text_offset + header->text_bytes), page);
    return mprotect(base, mapped_bytes, PROT_READ) == 0 &&
           mprotect(base + begin, end - begin, PROT_READ | PROT_EXEC) == 0;
}

/* A function pointer cannot be cast from an object pointer in ISO C; POSIX promises that the bits are the same. */
static void set_entry(void *entry, const char *base, const image_header *header, image_entry which) {
    const char *address = base + header->entries[which];
    memcpy(entry, &address, sizeof address);
}

ffn_status image_map(const void *bytes, size_t size, image *mapped, ffn_diag *diag) {
    if (bytes == NULL || size < sizeof(image_header) || size > IMAGE_BYTES_MAX) {
        return image_check(bytes, size, diag);
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t mapped_bytes = round_up(size, page);
    char *base = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        return diag_fail(diag, FFN_OUT_OF_MEMORY, "image: %zu bytes of memory for code: %s", mapped_bytes,
                         strerrordesc_np(errno));
    }
    memcpy(base, bytes, size);
    ffn_status status = image_check(base, size, diag);
    const image_header *header = (const image_header *)base;
    if (status == FFN_OK && !protect(base, mapped_bytes, header, page)) {
        status = diag_fail(diag, FFN_SYSTEM, "image: the system does not let memory become executable (mprotect: %s)",
                           strerrordesc_np(errno));
    }
    if (status != FFN_OK) {
        munmap(base, mapped_bytes);
        return status;
    }
    __builtin___clear_cache(base + header->text_offset, base + header->text_offset + header->text_bytes);
    image result = {.header = header, .base = base, .mapped_bytes = mapped_bytes};
    set_entry(&result.fused, base, header, IMAGE_FUSED);
    set_entry(&result.expand, base, header, IMAGE_EXPAND);
    set_entry(&result.contract, base, header, IMAGE_CONTRACT);
    set_entry(&result.activate, base, header, IMAGE_ACTIVATE);
    *mapped = result;
    return FFN_OK;
}

void image_unmap(image *mapped) {
    if (mapped == NULL) {
        return;
    }
    if (mapped->base != NULL) {
        munmap(mapped->base, mapped->mapped_bytes);
    }
    free(mapped->header_on_heap);
    memset(mapped, 0, sizeof *mapped);
}
