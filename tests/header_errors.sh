#!/usr/bin/env bash
# Emitted headers where they cannot serve: exactly one error, which names the header and what would be right; and where
# they can, none. Only the front ends of compilers are asked, so no other system's headers are needed.
#   header_errors.sh FFNGEN EXPECT
# Exit status 77: neither gcc nor clang is here.
source "$(dirname "${BASH_SOURCE[0]}")/header_common.sh" "$@"
found=$(compilers)
if [ -z "$found" ]; then
    echo 'neither gcc nor clang is here'
    exit 77
fi
emit x86.h avx2,avx512,portable --prefix hm
emit fast.h avx2,avx512 --prefix hm
emit arm.h neon,portable --prefix hm
emit portable.h portable --prefix hm
"$ffngen" emit other=d8-f8-relu --format header --isa portable --prefix hm -o "$work/same_prefix.h"

# Rows: header | compiler and flags | what the one error says; "none" where there must be none.
checked=0
while IFS='|' read -r header command error; do
    read -r header <<<"$header"
    read -r compiler flags <<<"$command"
    error=$(sed 's/^ *//; s/ *$//' <<<"$error")
    [[ " ${found//$'\n'/ } aarch64-linux-gnu-gcc " == *" $compiler "* ]] && command -v "$compiler" >/dev/null || continue
    for kind in DECLARATIONS HM_IMPLEMENTATION; do
        # What makes arithmetic unsafe does not matter where there is no implementation.
        case "$error:$kind" in *arithmetic*:DECLARATIONS) expected=none ;; *) expected=$error ;; esac
        language=c
        case $flags in *c++*) language=c++ ;; esac
        output=$($compiler -x $language -ffreestanding -fsyntax-only -I"$work" -D$kind -DHEADER="\"$header\"" $flags \
            "$programs/header_unit.c" 2>&1) && status=0 || status=$?
        errors=$(grep -E '(error|warning): ' <<<"$output" || true)
        if [ "$expected" = none ]; then
            [ $status = 0 ] && [ -z "$errors" ] || say_failed "$header, $kind, $command: $(head -n 3 <<<"$output")"
        elif [ $status = 0 ] || [ "$(wc -l <<<"$errors")" != 1 ] || ! grep -qE "$header: .*($expected)" <<<"$errors"; then
            say_failed "$header, $kind, $command: '$expected' and nothing else was expected: $(head -n 3 <<<"${errors:-$output}")"
        fi
        checked=$((checked + 1))
    done
done <<'END'
x86.h      | gcc                                             | none
x86.h      | clang                                           | none
x86.h      | clang --target=x86_64-unknown-freebsd            | none
x86.h      | clang --target=x86_64-linux-musl                | none
x86.h      | gcc -m32                                        | 64
x86.h      | gcc -mx32                                       | 64
x86.h      | clang -m32                                      | 64
x86.h      | clang -mx32                                     | 64
x86.h      | gcc -U__ELF__                                   | ELF
x86.h      | clang -U__ELF__                                 | ELF
x86.h      | gcc -U__GNUC__                                  | gcc or clang
x86.h      | clang -U__GNUC__                                | gcc or clang
x86.h      | clang --target=x86_64-apple-darwin              | ELF
x86.h      | clang --target=x86_64-w64-windows-gnu           | ELF
x86.h      | clang --target=x86_64-pc-windows-msvc           | gcc or clang|ELF
x86.h      | clang --target=aarch64-linux-gnu                | x86-64
x86.h      | clang --target=riscv64-linux-gnu                | x86-64
x86.h      | aarch64-linux-gnu-gcc                           | x86-64
x86.h      | gcc -std=c89                                    | C99
x86.h      | clang -std=c89                                  | C99
x86.h      | gcc -std=c++98                                  | C\+\+11
x86.h      | clang -std=c++98                                | C\+\+11
x86.h      | gcc -include same_prefix.h                      | prefix
x86.h      | clang -include same_prefix.h                    | prefix
x86.h      | gcc -include x86.h                              | none
x86.h      | gcc -Ofast                                      | arithmetic
x86.h      | gcc -ffast-math                                 | arithmetic
x86.h      | clang -Ofast                                    | arithmetic
x86.h      | clang -ffast-math                               | arithmetic
x86.h      | gcc -ffinite-math-only                          | arithmetic
x86.h      | clang -ffinite-math-only                        | arithmetic
x86.h      | gcc -fassociative-math -fno-signed-zeros -fno-trapping-math | arithmetic
x86.h      | gcc -freciprocal-math                           | arithmetic
x86.h      | gcc -funsafe-math-optimizations                 | arithmetic
x86.h      | gcc -fno-signed-zeros                           | arithmetic
x86.h      | gcc -mfpmath=387                                | arithmetic
x86.h      | gcc -Ofast -fno-fast-math                       | none
fast.h     | gcc -Ofast                                      | none
fast.h     | clang -Ofast                                    | none
fast.h     | gcc -mfpmath=387                                | none
portable.h | gcc                                             | none
portable.h | gcc -m32                                        | 64
portable.h | clang --target=aarch64-linux-gnu                | none
portable.h | clang --target=riscv64-linux-gnu                | none
portable.h | clang --target=powerpc64-linux-gnu              | little-endian
portable.h | clang --target=s390x-linux-gnu                  | little-endian
portable.h | clang --target=aarch64_be-linux-gnu             | little-endian
arm.h      | clang --target=aarch64-linux-gnu                | none
arm.h      | aarch64-linux-gnu-gcc                           | none
arm.h      | aarch64-linux-gnu-gcc -mabi=ilp32               | 64
arm.h      | clang --target=aarch64_be-linux-gnu             | little-endian
arm.h      | aarch64-linux-gnu-gcc -mbig-endian              | little-endian
arm.h      | clang --target=arm64-apple-macos                | ELF
arm.h      | clang --target=aarch64-pc-windows-msvc          | gcc or clang|ELF
arm.h      | clang --target=armv7-linux-gnueabihf            | 64
arm.h      | gcc                                             | AArch64
arm.h      | clang                                           | AArch64
arm.h      | aarch64-linux-gnu-gcc -Ofast                    | arithmetic
END
echo "$checked answers of compilers checked"
exit $failed
