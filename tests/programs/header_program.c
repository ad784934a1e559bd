/* header_program.c: emitted headers in one program -> the digest of all that their code computes, and the variants that
 * ran: "cd30... avx2,portable". C99 and C++11.
 *
 *   -D HEADER='"a.h"'     the header with the prefix hm; -D HM_IMPLEMENTATION as its own words say
 *   -D SECOND='"b.h"'     another one, with the prefix hn
 *   -D IN_EXTERN_C        both inside an extern "C" block
 *   -D ENTRY=name         this file's function, and no main, which is in the file without
 *   -D ALSO=name          the ENTRY of another file, which must give the same */
#if defined(IN_EXTERN_C) && defined(__cplusplus)
extern "C" {
#endif
#include HEADER
#ifdef SECOND
#include SECOND
#endif
#if defined(IN_EXTERN_C) && defined(__cplusplus)
}
#endif

#include "header_layers.h"

#ifndef ENTRY
#define ENTRY entry_main
#define WITH_MAIN
#endif

#define P hm
#define PU HM
#include "header_calls.h"
#undef P
#undef PU
#ifdef SECOND
#define P hn
#define PU HN
#include "header_calls.h"
#undef P
#undef PU
#endif

enum { VARIANTS_BYTES = 64 };

#ifdef __cplusplus
extern "C" {
#endif
uint64_t ENTRY(char *variants);
#ifdef ALSO
uint64_t ALSO(char *variants);
#endif
#ifdef __cplusplus
}
#endif

uint64_t ENTRY(char *variants) {
    const uint64_t digest = hm_digest(variants);
#ifdef SECOND
    char others[VARIANTS_BYTES] = "";
    HEADER_REQUIRE(hn_digest(others) == digest && strcmp(variants, others) == 0);
#endif
    return digest;
}

#ifdef WITH_MAIN
int main(void) {
    char variants[VARIANTS_BYTES] = "";
    const uint64_t digest = entry_main(variants);
#ifdef ALSO
    char others[VARIANTS_BYTES] = "";
    HEADER_REQUIRE(ALSO(others) == digest && strcmp(variants, others) == 0);
#endif
    printf("%016llx %s\n", (unsigned long long)digest, variants);
    return 0;
}
#endif
