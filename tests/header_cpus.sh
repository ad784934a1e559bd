#!/usr/bin/env bash
# Emitted headers on CPUs that lack things, emulated: the program never meets an instruction that its CPU does not have,
# takes the best code that it can run, and prints the digest of libffn's own kernels. The emulator raises SIGILL for
# what the CPU it plays lacks.
#   header_cpus.sh FFNGEN EXPECT
# Exit status 77: no compiler, or no emulator.
source "$(dirname "${BASH_SOURCE[0]}")/header_common.sh" "$@"
x86=$(emulator x86_64)
arm=$(emulator aarch64)
if ! command -v gcc >/dev/null || { [ -z "$x86" ] && [ -z "$arm" ]; }; then
    echo 'needed: gcc, qemu-x86_64 or qemu-aarch64'
    exit 77
fi
digest=$("$expect")
tried=0

# expect_output WANTED COMMAND...
expect_output() {
    local wanted=$1 printed
    shift
    tried=1
    printed=$("$@" 2>"$work/log") || say_failed "$*: status $?"
    printf '%-40s %s\n' "${*: -3:2}" "$printed"
    [ "$printed" = "$wanted" ] || say_failed "$*: '$wanted' expected, printed '$printed' $(head -n 3 "$work/log")"
}

if [ "$(uname -m)" = x86_64 ] && [ -n "$x86" ]; then
    # The order of the names must not matter to what is chosen; the worst comes first in one of them.
    emit hm.h avx2,avx512,portable --prefix hm
    emit back.h portable,avx512,avx2 --prefix hm
    emit none.h avx512,avx2 --prefix hm
    build() {
        gcc -O1 -static -I"$work" -DHEADER="\"$2\"" -DHM_IMPLEMENTATION "$programs/$1" -o "$work/$3"
    }
    build header_program.c hm.h program
    build header_program.c back.h back
    build header_unsupported.c none.h unsupported
    while read -r cpu isa; do
        variants=portable runs=unsupported
        if [ "$isa" = avx2 ]; then
            variants=avx2,portable runs=avx2
        fi
        expect_output "$digest $variants" "$x86" -cpu "$cpu" "$work/program"
        expect_output "$digest $variants" "$x86" -cpu "$cpu" "$work/back"
        expect_output $runs "$x86" -cpu "$cpu" "$work/unsupported"
    done <<'END'
qemu64                                                                  portable
Nehalem                                                                 portable
Haswell,-fma                                                            portable
Haswell,-avx2                                                           portable
Haswell,-xsave                                                          portable
Haswell,level=4                                                         portable
max,-xsave                                                              portable
Haswell                                                                 avx2
EPYC                                                                    avx2
Skylake-Server,-avx512f,-avx512vl,-avx512dq,-avx512bw,-avx512cd         avx2
max                                                                     avx2
END
else
    echo 'not here: qemu-x86_64'
fi

lacks=$(cross_lacks)
if [ -n "$arm" ] && [ -z "$lacks" ]; then
    emit arm.h neon,portable --prefix hm
    build_arm() {
        "$@" -I"$work" -DHEADER='"arm.h"' -DHM_IMPLEMENTATION "$programs/header_program.c" -c -o "$work/arm.o"
        aarch64-linux-gnu-gcc -static "$work/arm.o" -o "$work/arm"
    }
    while read -r cpu command; do
        case $command in clang*) command -v clang >/dev/null || continue ;; esac
        build_arm $command
        echo "$command:"
        expect_output "$digest neon,portable" "$arm" -cpu "$cpu" "$work/arm"
    done <<'END'
cortex-a57    aarch64-linux-gnu-gcc -O2
cortex-a57    aarch64-linux-gnu-gcc -O0 -std=c99
max           aarch64-linux-gnu-gcc -O3 -mbranch-protection=standard
max           aarch64-linux-gnu-gcc -O3 -ffp-contract=fast
cortex-a57    clang --target=aarch64-linux-gnu -O2
cortex-a57    clang --target=aarch64-linux-gnu -O3 -ffp-contract=fast
cortex-a57    clang --target=aarch64-linux-gnu -O0 -std=c++11 -nostdinc++ -x c++
END
else
    echo "not here: qemu-aarch64 with ${lacks:-$cross_cc}"
fi
[ $tried = 1 ] || exit 77
exit $failed
