/* warm_start.c: a program that has libffn inside and libffngen beside it prepares one kernel through a store, and says
 * how the kernel came and what the process then holds: "compiled 1 loaded 0 LLVM yes rwx no"
 *
 *   warm_start FOLDER */
#include <stdio.h>
#include <string.h>

#include "ffn.h"

typedef struct maps {
    int llvm, rwx;
} maps;

static maps read_maps(void) {
    maps found = {0, 0};
    char line[4096], rights[8];
    FILE *file = fopen("/proc/self/maps", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        found.llvm += strstr(line, "libLLVM") != NULL || strstr(line, "libffngen") != NULL;
        found.rwx += sscanf(line, "%*s %7s", rights) == 1 && rights[1] == 'w' && rights[2] == 'x';
    }
    if (file != NULL)
        fclose(file);
    return found;
}

int main(int count, char **arguments) {
    if (count != 2)
        return 2;
    ffn_options options = {.store = arguments[1]};
    ffn_context *context;
    ffn_kernel *kernel;
    ffn_spec spec;
    ffn_diag diag = {.text = ""};
    ffn_counters counters;
    if (ffn_spec_parse("d64-f256-gelu-bias", &spec, &diag) || ffn_context_create(&options, &context, &diag) ||
        ffn_kernel_create(context, &spec, &kernel, &diag) || ffn_kernel_prepare(kernel, 1, &diag)) {
        printf("%s\n", diag.text);
        return 1;
    }
    ffn_context_counters(context, &counters);
    maps held = read_maps();
    printf("compiled %d loaded %d LLVM %s rwx %s\n", (int)counters.compiled, (int)counters.loaded,
           held.llvm ? "yes" : "no", held.rwx ? "yes" : "no");
    ffn_kernel_destroy(kernel);
    ffn_context_destroy(context);
    return 0;
}
