#!/usr/bin/env bash
# Objects and libraries made of emitted headers, as nm, readelf and objdump see them: names under the prefix, nothing
# undefined, nothing writable that need not be, no executable stack, no text relocation, landing pads and their notes.
#   header_objects.sh FFNGEN EXPECT
# Exit status 77: neither gcc nor clang, or no binutils.
source "$(dirname "${BASH_SOURCE[0]}")/header_common.sh" "$@"
found=$(compilers)
if [ -z "$found" ] || ! command -v nm >/dev/null || ! command -v readelf >/dev/null || ! command -v objdump >/dev/null; then
    echo 'needed: gcc or clang, nm, readelf, objdump'
    exit 77
fi
emit hm.h avx2,avx512,portable --prefix hm
emit own.h avx2,avx512,portable --prefix hm --static
emit arm.h neon,portable --prefix hm

# none WHAT LINES: the lines must be empty
none() {
    [ -z "$2" ] || say_failed "$row: $1: $(head -n 8 <<<"$2")"
}
# some WHAT LINES: the lines must not be
some() {
    [ -n "$2" ] || say_failed "$row: no $1"
}

# What every object or shared library of ours must be. LINES of nm: "value type name" or "type name".
check_names() {
    local tool=$1 file=$2
    # Sections, constants of the compiler (.LC) and the source file have symbols of their own; of ours, local ones count.
    none 'names outside the prefix' "$(${tool}nm -a "$file" | awk '{ print $NF }' |
        grep -vE '^(\.[a-zA-Z_].*|header_unit\.c|(_ZZ?L?[0-9]+)?hm_[A-Za-z0-9_.]+|\$[xd](\.[0-9]+)?)$' || true)"
    none 'local labels of the kernels kept' "$(${tool}nm -a "$file" | awk '{ print $NF }' | grep -E '^\.L(hm|ffn)' || true)"
    some 'names at all' "$(${tool}nm "$file" | grep -E ' hm_gated_run$' || true)"
}

check_object() {
    local tool=$1 file=$2 sections
    check_names "$tool" "$file"
    none 'undefined names' "$(${tool}nm -u "$file")"
    sections=$(${tool}readelf -SW "$file" | sed -n 's/^ *\[ *[0-9]*\] *//p')
    some 'section of constants' "$(grep -E '^\.rodata\.hm_[a-z]+_(avx2|neon)_[0-9a-f]{8} .* +A' <<<"$sections" || true)"
    none 'constants that are not read-only' "$(grep -E '^\.rodata' <<<"$sections" | grep -vE ' A[MSG]* +[0-9]+ +[0-9]+ +[0-9]+$' || true)"
    none 'code that can be written' "$(grep -E ' [A-Z]*W[A-Z]*X[A-Z]* +[0-9]+ +[0-9]+ +[0-9]+$' <<<"$sections" || true)"
    some 'section of code in a group' "$(grep -E '^\.text\.hm_gated_[a-z0-9]+_[0-9a-f]{8} .* AXG ' <<<"$sections" || true)"
    some 'note on the stack' "$(grep -E '^\.note\.GNU-stack ' <<<"$sections" || true)"
    none 'executable stack' "$(grep -E '^\.note\.GNU-stack .* X ' <<<"$sections" || true)"
    # Kernels may be there in several objects, and none leaves the program or library.
    none 'kernel that is not weak and hidden' "$(${tool}readelf -sW "$file" |
        grep -E ' hm_(gated|plain)_[a-z0-9]+_[0-9a-f]{8}_n[0-9]+_[a-z]+$' | grep -vE ' FUNC +WEAK +HIDDEN ' || true)"
    some 'kernels' "$(${tool}readelf -sW "$file" | grep -E ' FUNC +WEAK +HIDDEN .* hm_plain_[a-z0-9]+_[0-9a-f]{8}_n17_fused$' || true)"
    # Sizes of functions: for debuggers and profilers.
    none 'kernel of no size' "$(${tool}readelf -sW "$file" | awk '$4 == "FUNC" && $3 == 0')"
}

check_library() {
    local tool=$1 file=$2 segments
    segments=$(${tool}readelf -lW "$file")
    none 'segment that is written and run' "$(grep -E '^ +LOAD .* RWE ' <<<"$segments" || true)"
    none 'executable stack' "$(grep -E '^ +GNU_STACK .* RWE ' <<<"$segments" || true)"
    some 'word on the stack' "$(grep -E '^ +GNU_STACK .* RW ' <<<"$segments" || true)"
    none 'text relocation' "$(${tool}readelf -dW "$file" | grep -E 'TEXTREL' || true)"
    none 'needed library' "$(${tool}readelf -dW "$file" | grep -E 'NEEDED' || true)"
    # Relocations while loading: of pointers in tables, which the loader makes read-only again.
    none 'relocation by name' "$(${tool}readelf -rW "$file" | grep -E ' R_[A-Z0-9_]+ ' |
        grep -vE '_(RELATIVE|JUMP_SLOT|JUMP_SLO|GLOB_DAT) ' || true)"
}

# The names a library shows are the functions of the header.
check_exports() {
    local tool=$1 file=$2
    none 'names shown that are not of the API' "$(${tool}nm -D --defined-only "$file" | awk '{ print $NF }' | grep -vE \
        '^hm_(isa|select|status_text|(gated|plain)_(pack|check|run|run_rows|expand|contract|activate|supported|describe))$' || true)"
    [ "$(${tool}nm -D --defined-only "$file" | wc -l)" = 21 ] ||
        say_failed "$row: $(${tool}nm -D --defined-only "$file" | wc -l) names shown, 21 expected"
}

# Each kernel begins with the instruction that an indirect call may land on: COUNT kernels, some of them one code under
# several names.
check_landing() {
    local tool=$1 file=$2 count=$3 pad=$4 names
    names=$(${tool}nm "$file" | grep -E ' hm_(gated|plain)_(avx2|avx512|neon)_[0-9a-f]{8}_n(1|2|5|17)_(fused|expand|contract|activate)$' || true)
    [ "$(grep -c . <<<"$names")" = "$count" ] || say_failed "$row: $(grep -c . <<<"$names") kernels, $count expected"
    none "kernel that does not begin with $pad" "$(${tool}objdump -d --no-show-raw-insn "$file" |
        awk -v pad="$pad" 'NR == FNR { sub(/^0+/, "", $1); names[$1] = $3; next }
            { at = $1; sub(/:$/, "", at) }
            at in names && $1 ~ /:$/ { if ($0 ~ ("[[:space:]]" pad)) delete names[at] }
            END { for (at in names) print names[at] }' <(echo "$names") -)"
}

for compiler in $found; do
    for flags in '-O0' '-O2' '-O3 -march=native' '-Os -g' '-O2 -fcf-protection=full' '-O2 -masm=intel' '-O2 -ffunction-sections' \
        '-O2 -x c++'; do
        row="$compiler $flags"
        object=$work/unit.o library=$work/libunit.so
        $compiler -fPIC -I"$work" -DHEADER='"hm.h"' -DHM_IMPLEMENTATION $flags -c "$programs/header_unit.c" -o "$object" || {
            say_failed "$row: does not compile"
            continue
        }
        $compiler -nostdlib -shared -Wl,-z,defs -Wl,--fatal-warnings "$object" -o "$library" || {
            say_failed "$row: -shared"
            continue
        }
        check_object '' "$object"
        check_library '' "$library"
        check_exports '' "$library"
        check_landing '' "$library" 64 endbr64
        case $flags in *-fcf-protection=full*)
            some 'note of IBT and SHSTK' "$(readelf -nW "$object" | grep -E 'IBT, SHSTK' || true)"
            some 'note of IBT and SHSTK in the library' "$(readelf -nW "$library" | grep -E 'IBT, SHSTK' || true)"
            ;;
        esac

        # Functions of its own for each file: nothing of it is seen elsewhere, kernels alone are shared.
        row+=' --static'
        $compiler -fPIC -I"$work" -DHEADER='"own.h"' -DHM_IMPLEMENTATION $flags -c "$programs/header_unit.c" -o "$object" || {
            say_failed "$row: does not compile"
            continue
        }
        none 'global name' "$(nm -g "$object" | grep -vE ' [WVu] hm_(gated|plain)_' || true)"
    done
done

arm() {
    local object=$work/unit.o library=$work/libunit.so
    row=$*
    "$@" -fPIC -I"$work" -DHEADER='"arm.h"' -DHM_IMPLEMENTATION -c "$programs/header_unit.c" -o "$object" || {
        say_failed "$row: does not compile"
        return
    }
    aarch64-linux-gnu-gcc -nostdlib -shared -Wl,-z,defs -Wl,--fatal-warnings "$object" -o "$library" || {
        say_failed "$row: -shared"
        return
    }
    check_object aarch64-linux-gnu- "$object"
    check_library aarch64-linux-gnu- "$library"
    check_exports aarch64-linux-gnu- "$library"
    check_landing aarch64-linux-gnu- "$library" 32 '(bti[[:space:]]+c|paciasp)'
    case $row in *-mbranch-protection=standard*)
        some 'note of BTI and PAC' "$(aarch64-linux-gnu-readelf -nW "$object" | grep -E 'BTI, PAC' || true)"
        some 'note of BTI and PAC in the library' "$(aarch64-linux-gnu-readelf -nW "$library" | grep -E 'BTI, PAC' || true)"
        ;;
    esac
}
lacks=$(cross_lacks)
if [ -z "$lacks" ]; then
    for flags in -O0 '-O2' '-O3 -mbranch-protection=standard' '-O2 -mno-outline-atomics -std=c99'; do
        arm aarch64-linux-gnu-gcc $flags
        case $found in *clang*) arm clang --target=aarch64-linux-gnu ${flags/-mno-outline-atomics/} ;; esac
    done
else
    echo "not here: $lacks"
fi
exit $failed
