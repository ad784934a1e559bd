/* compiler_id.c: see compiler_id.h */
#define _POSIX_C_SOURCE 200809L
#include "compiler_id.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diag.h"

/* The rest of `line` after `key`, if it begins with it and fits. */
static bool take(const char *line, const char *key, char *value, size_t value_bytes) {
    size_t key_length = strlen(key), length = strlen(line);
    if (strncmp(line, key, key_length) != 0 || length == key_length || length - key_length >= value_bytes)
        return false;
    memcpy(value, line + key_length, length - key_length + 1);
    return true;
}

/* Does not wait for what is no regular file, as a pipe. */
static FILE *open_regular(const char *file) {
    struct stat found;
    int descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return NULL;
    bool regular = fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode);
    FILE *stream = regular ? fdopen(descriptor, "r") : NULL;
    if (!stream) {
        close(descriptor);
        errno = regular ? errno : EINVAL;
    }
    return stream;
}

ffn_status compiler_id_read(const char *file, compiler_id *id, ffn_diag *diag) {
    FILE *stream = open_regular(file);
    if (!stream)
        return diag_fail(diag, FFN_SYSTEM, "%s: %s", file, strerror(errno));
    memset(id, 0, sizeof *id);
    const struct {
        const char *key;
        char *value;
        size_t bytes;
    } fields[] = {{"generator: ", id->generator, sizeof id->generator},
                  {"llvm: ", id->llvm, sizeof id->llvm},
                  {"libllvm: ", id->libllvm, sizeof id->libllvm}};
    char line[sizeof id->libllvm + 32];
    while (fgets(line, sizeof line, stream)) {
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            take(line, fields[i].key, fields[i].value, fields[i].bytes);
    }
    fclose(stream);
    if (!id->generator[0] || !id->llvm[0] || id->libllvm[0] != '/')
        return diag_fail(diag, FFN_SYSTEM, "%s: it must have a generator, an llvm and an absolute libllvm", file);
    return FFN_OK;
}

bool compiler_id_line(const compiler_id *id, char line[COMPILER_ID_BYTES]) {
    struct stat file;
    if (stat(id->libllvm, &file) != 0)
        return false;
    snprintf(line, COMPILER_ID_BYTES, "generator %s, LLVM %s, libLLVM of %lld bytes dated %lld.%09ld", id->generator,
             id->llvm, (long long)file.st_size, (long long)file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
    return true;
}
