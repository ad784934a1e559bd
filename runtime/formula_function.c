/* formula_function.c: templates/functions.def -> the table of functions that formulas may call */
#include <string.h>

#include "formula_ast.h"

static const ast_function functions[] = {
#define FFN_FUNCTION(NAME, VISIBLE, ULPS, ARITY, PARAMETERS, ...) \
    {#NAME, PARAMETERS, #__VA_ARGS__, VISIBLE, ARITY, ULPS},
#include "../templates/functions.def"
#define FFN_FUNCTION(NAME, VISIBLE, ULPS, ARITY, PARAMETERS, ...) \
    {#NAME, PARAMETERS, #__VA_ARGS__, VISIBLE, ARITY, ULPS},
#include "../templates/fast.def"
};

enum { FUNCTION_COUNT = sizeof functions / sizeof functions[0] };

const ast_function *ast_function_at(size_t i) {
    return i < FUNCTION_COUNT ? &functions[i] : NULL;
}

int32_t ast_function_find(const char *name, size_t length) {
    for (int32_t i = 0; i < FUNCTION_COUNT; i++)
        if (strlen(functions[i].name) == length && memcmp(functions[i].name, name, length) == 0)
            return i;
    return -1;
}
