#!/usr/bin/env bash
# Emitted headers in every way of building a program: one row a build, and every program must print the digest of
# libffn's own kernels, whatever the compiler, the language, the flags, the linker.
#   header_builds.sh FFNGEN EXPECT [PATTERN]     PATTERN: only rows whose name matches (. for all), with every compiler
# Without a pattern the rows of both compilers take turns between them, the first standards of each language apart.
# What a machine lacks is said, row by row. Exit status 77: neither gcc nor clang is here.
source "$(dirname "${BASH_SOURCE[0]}")/header_common.sh" "$@"
pattern=${3:-.}

W='-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-qual -Wunused -Wmissing-declarations'
W+=' -Wdouble-promotion -Wredundant-decls -Wcast-align -Werror'
W_C='-Wstrict-prototypes -Wmissing-prototypes'

# How the files of a program stand together:
#   one       the implementation in the file that uses it       twice     and the header included again
#   files     two files that use it, one with the implementation
#   C+C++     the implementation in a C++ file, main in C       C++C      the other way round
#   extern    inside extern "C"                                 two       two headers in one file
#   static    emitted with --static, both files have their own  shared    the implementation in a shared library
#   bare      the implementation is a shared library of its own, linked with -nostdlib
#   fast      no portable kernel in it
#   threads   the choice of the variant is first asked for by several threads at once
table=$(
    cat <<'END'
name               compilers  language form    compile                                        | link
c99                all        C        files   -std=c99 -O2 WARN                              |
c17                both       C        files   -std=c17 -O2 WARN                              |
gnu17              both       C        one     -std=gnu17 -O2 WARN                            |
c2x                all        C        one     -std=c2x -O2 WARN                              |
c++11              both       C++      files   -std=c++11 -O2 WARN                            |
c++17              both       C++      one     -std=c++17 -O2 WARN                            |
c++20              both       C++      one     -std=c++20 -O2 WARN                            |
c++2b              all        C++      one     -std=c++2b -O2 WARN                            |
O0-c99             both       C        one     -std=c99 -O0 WARN                              |
O3                 both       C        one     -O3 WARN                                       |
Os                 both       C        one     -Os WARN                                       |
native             all        C        one     -O3 -march=native WARN                         |
native-c++         both       C++      one     -O3 -march=native -std=gnu++17 WARN            |
mfma               both       C        one     -O2 -mfma                                      |
mfma-c++           both       C++      one     -O2 -mfma                                      |
unsafe             clang,clang-19 C    one     -O3 -funsafe-math-optimizations                |
unsafe-soft        clang,clang-19 C    one     -O3 -DHM__SOFT -funsafe-math-optimizations     |
soft               both       C        one     -O2 -DHM__SOFT WARN                            |
soft-O3            all        C        one     -O3 -DHM__SOFT                                 |
contract           both       C        one     -O2 -mfma -ffp-contract=fast                   |
contract-c++       both       C++      one     -O3 -mfma -ffp-contract=fast                   |
debug-O2           both       C        files   -g3 -O2 -fno-omit-frame-pointer                |
warnings-unused    both       C        files   -O2 -Wall -Wextra -Wunused -Wunused-macros -Werror |
pie                both       C        files   -O2 -fPIE                                      | -pie -Wl,-z,text -Wl,--fatal-warnings
shared             both       C        shared  -O2 -fPIC                                      | -Wl,-z,text -Wl,--fatal-warnings
shared-c++         both       C++      shared  -O2 -fPIC                                      | -Wl,-z,text -Wl,--fatal-warnings
static             both       C        files   -O2                                            | -static -Wl,--fatal-warnings
static-pie         both       C        files   -O2 -fPIE                                      | -static-pie -Wl,-z,text -Wl,--fatal-warnings
cf-protection      both       C        files   -O2 -fcf-protection=full                       | -Wl,--fatal-warnings
no-cf-protection   both       C        files   -O2 -fcf-protection=none                       | -Wl,--fatal-warnings
reorder            gcc        C        files   -O2 -fno-toplevel-reorder                      |
sections           both       C        files   -O2 -ffunction-sections -fdata-sections        | -Wl,--gc-sections -Wl,--fatal-warnings
intel              all        C        files   -O2 -masm=intel                                |
intel-O0-g         both       C        one     -O0 -g -masm=intel                             |
intel-two          all        C++      two     -O2 -masm=intel                                |
bare-O0            both       C        bare    -O0 -fPIC                                      |
bare-O2            all        C++      bare    -O2 -fPIC                                      |
bare-O3            both       C        bare    -O3 -fPIC -march=native                        |
bare-Os            both       C        bare    -Os -fPIC                                      |
freestanding       both       C        bare    -O2 -fPIC -ffreestanding                       |
fast               all        C        fast    -Ofast                                         |
fast-math          both       C++      fast    -O2 -ffast-math -march=native                  |
sanitizers         all        C        files   -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all | -fsanitize=address,undefined
sanitizers-c++     both       C++      one     -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all | -fsanitize=address,undefined
threads            both       C        threads -O1 -g -fsanitize=thread                         | -fsanitize=thread -pthread
twice              both       C        twice   -O2 WARN                                       |
extern             both       C++      extern  -O2 WARN                                       |
C-with-C++         both       C        C+C++   -O2                                            |
C++-with-C         both       C++      C++C    -O2                                            |
two                all        C        two     -std=c99 -O2 WARN                              |
two-c++            both       C++      two     -std=c++11 -O0 WARN                            |
own-copies         all        C        static  -std=c99 -O2 WARN                              |
own-copies-O0      both       C++      static  -std=c++11 -O0 WARN                            |
own-copies-intel   both       C        static  -O2 -masm=intel                                |
lto                gcc        C        files   -O2 -flto                                      | -O2 -flto=2
lto-one            gcc        C++      one     -O2 -flto                                      | -O2 -flto=2
lto-parts          gcc        C        files   -O2 -flto --param=lto-partitions=8             | -O2 -flto=2 --param=lto-min-partition=10
lto-own-copies     gcc        C        static  -O2 -flto                                      | -O2 -flto=2 --param=lto-min-partition=10
lto-two            gcc        C        two     -O2 -flto -masm=intel                          | -O2 -flto=2
lto-shared         gcc        C        shared  -O2 -flto -fPIC                                | -O2 -flto=2 -Wl,-z,text
lto-gold           clang,clang-19 C    files   -O2 -flto                                      | -flto -fuse-ld=gold
lto-thin-gold      clang,clang-19 C    files   -O2 -flto=thin                                 | -flto=thin -fuse-ld=gold
lto-own-gold       clang,clang-19 C    static  -O2 -flto                                      | -flto -fuse-ld=gold
lto-thin-own-gold  clang,clang-19 C    static  -O2 -flto=thin                                 | -flto=thin -fuse-ld=gold
lto-lld            clang      C        files   -O2 -flto                                      | -flto -fuse-ld=lld -Wl,-z,text
lto-thin-lld       clang      C++      files   -O2 -flto=thin                                 | -flto=thin -fuse-ld=lld
lto-own-lld        clang      C        static  -O2 -flto                                      | -flto -fuse-ld=lld
lto-thin-own-lld   clang      C        static  -O2 -flto=thin                                 | -flto=thin -fuse-ld=lld
lld                both       C        files   -O2 -fPIE                                      | -pie -fuse-ld=lld -Wl,-z,text
gold               both       C        static  -O2 -fPIE                                      | -pie -fuse-ld=gold
integrated-off     clang,clang-19 C    one     -O2 -fno-integrated-as                         |
integrated-off-pie clang,clang-19 C    one     -O2 -g -fno-integrated-as -std=c99             | -pie
END
)

found=$(compilers)
if [ -z "$found" ]; then
    echo 'neither gcc nor clang is here'
    exit 77
fi
turn=gcc
while read -r name which language form rest; do
    if [ $# -lt 3 ] && [ "$which" = both ] && [[ $name != c17 && $name != c++11 ]]; then
        [[ " ${found//$'\n'/ } " != *" $turn "* ]] || which=$turn
        [ $turn = gcc ] && turn=clang || turn=gcc
    fi
    case $which in
    all) which=gcc,clang,clang-19 ;;
    both) which=gcc,clang ;;
    esac
    for compiler in ${which//,/ }; do
        if [[ "$name" =~ $pattern && " ${found//$'\n'/ } " == *" $compiler "* ]]; then
            printf '%s\0' "$compiler" "$name" "$language" "$form" "${rest%%|*}" "${rest#*|}"
        fi
    done
done < <(tail -n +2 <<<"$table") >"$work/list"
[ -s "$work/list" ] || { echo "no row is named like $pattern" >&2; exit 1; }
digest=$("$expect")
emit hm.h avx2,avx512,portable --prefix hm &
emit own.h avx2,avx512,portable --prefix hm --static
wait $!
emit hn.h portable,avx512,avx2 --prefix hn &
emit fast.h avx512,avx2 --prefix hm
wait $!

# compile OBJECT LANGUAGE SOURCE FLAG...: in the row's compiler
compile() {
    local object=$1 language=$2 source=$3
    shift 3
    $(driver "$language" "$compiler") -x "${language,,}" -I"$work" "$@" -c "$programs/$source" -o "$object"
}

# Builds in the folder that is current. What is needed of the row: compiler, language, form, flags, link.
build() {
    local other=C hm='-DHEADER="hm.h"' own='-DHM_IMPLEMENTATION' objects='main.o' libraries=()
    [ "$language" = C++ ] || other=C++
    case $form in
    static) hm='-DHEADER="own.h"' ;;
    fast) hm='-DHEADER="fast.h"' ;;
    esac
    case $form in
    one | fast) compile main.o "$language" header_program.c "$hm" $own $flags ;;
    twice) compile main.o "$language" header_program.c "$hm" $own -include hm.h $flags ;;
    extern) compile main.o "$language" header_program.c "$hm" $own -DIN_EXTERN_C $flags ;;
    two) compile main.o "$language" header_program.c "$hm" $own -DSECOND='"hn.h"' -DHN_IMPLEMENTATION $flags ;;
    files | static)
        [ "$form" = static ] || own=
        compile main.o "$language" header_program.c "$hm" $own -DALSO=entry_other $flags
        compile other.o "$language" header_program.c "$hm" $own -DENTRY=entry_other $flags
        objects='main.o other.o'
        if [ "$form" = files ]; then
            compile unit.o "$language" header_unit.c "$hm" -DHM_IMPLEMENTATION $flags
            objects+=' unit.o'
        fi
        ;;
    C+C++ | C++C)
        compile main.o "$language" header_program.c "$hm" $flags
        compile unit.o $other header_unit.c "$hm" $own $flags
        objects='main.o unit.o'
        language=C++
        ;;
    threads)
        cat >threads.c <<'END'
#include HEADER
#include <pthread.h>
static void *ask(void *nothing) {
    (void)hm_isa();
    return nothing;
}
__attribute__((constructor)) static void begin(void) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, ask, NULL);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
}
END
        compile main.o "$language" header_program.c "$hm" $flags
        compile unit.o "$language" header_unit.c "$hm" $own $flags
        $compiler $flags -I"$work" "$hm" -c threads.c
        objects='main.o unit.o threads.o'
        ;;
    shared | bare)
        compile main.o "$language" header_program.c "$hm" $flags
        compile unit.o "$language" header_unit.c "$hm" $own $flags
        local alone=()
        [ "$form" = shared ] || alone=(-nostdlib -Wl,-z,defs -Wl,--fatal-warnings)
        $(driver "$language" "$compiler") -shared "${alone[@]}" unit.o -o libunit.so $link
        libraries=(-L. -lunit -Wl,-rpath,"$PWD")
        ;;
    esac
    $(driver "$language" "$compiler") $objects "${libraries[@]}" $link -o program
}

# A program that has nothing to do with us, with the same flags: whether this machine can build so at all.
possible() {
    echo 'int main(void) { return 0; }' >try.c
    $(driver "$language" "$compiler") -x "${language,,}" ${flags//-Werror/} -c try.c -o try.o 2>/dev/null &&
        $(driver "$language" "$compiler") try.o $link -o try 2>/dev/null && ./try
}

# row COMPILER NAME LANGUAGE FORM FLAGS LINK
row() {
    local compiler=$1 name=$2 language=$3 form=$4 flags=$5 link=$6 folder=$work/rows/$1-$2 printed
    mkdir -p "$folder"
    cd "$folder"
    local verdict=fails
    if [ "$language" = C ]; then
        flags=${flags/WARN/$W $W_C}
    else
        flags=${flags/WARN/$W}
    fi
    if [[ $name != c99 && $name != O0-c99 ]] && ! possible; then # which every compiler builds
        verdict='not here'
    elif ! build >log 2>&1; then
        verdict=unbuilt
    elif ! printed=$(./program 2>>log); then
        echo "$printed" >>log
    elif [ "${printed%% *}" != "$digest" ]; then
        echo "printed $printed, expected $digest" >>log
        verdict=wrong
    else
        verdict=ok
    fi
    printf '%-9s %-18s %-9s %s\n' "$compiler" "$name" "$verdict" "${printed:-}"
    case $verdict in
    ok | 'not here') ;;
    *) head -n 12 log | cut -c -300 >&2 ;;
    esac
    rm -rf "$folder"
    [ "$verdict" = ok ] || [ "$verdict" = 'not here' ]
}

export -f row build possible compile driver
export work programs digest W W_C
xargs -0 -n 6 -P "$(nproc)" bash -c 'set -eu; row "$@"' row <"$work/list" 2>"$work/errors" | tee "$work/verdicts" ||
    failed=1
cat "$work/errors" >&2
count() {
    grep -c "^.\{28\} *$1" "$work/verdicts" || true
}
echo "$(wc -l <"$work/verdicts") builds: $(count ok) ok, $(count 'not here') not here"
for name in gcc clang clang-19; do
    [[ " ${found//$'\n'/ } " == *" $name "* ]] || echo "not here: $name"
done
if [ "$(count ok)" = 0 ]; then
    say_failed 'nothing could be built'
fi
exit $failed
