#!/usr/bin/env bash
# A generator with one constant or one index wrong makes kernels that fail verification: each mutant of
# generator_mutants.txt is built and must be found out, by status and by a verdict (or by the test its row names). Exit
# status 77: this machine runs no generated code.
#   generator_mutants.sh [--half HALF FILE] CC INCLUDES SUITE LINK...
#     INCLUDES  folders, ended by ':' each;   LINK   what the command is made of
#     SUITE     what a suite is linked with beside that, ended by ':' each
# Without --half every twentieth row runs, from a row of its own in each file so that each file has one, at one size: small
# and large in turn. With it every second row runs at both, from the first (0) or the second (1), and FILE gets those of
# docs/mutants.md.
set -euo pipefail
all='' half=''
if [ "$1" = --half ]; then
    half=$2 all=$3
    shift 3
fi
cc=$1 includes=$2 suite_parts=$3
shift 3
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=gnu17 -O1 -ffp-contract=off -Igen -Iruntime)
while IFS= read -r -d : folder; do flags+=("-I$folder"); done <<<"$includes"
suite_link=()
while IFS= read -r -d : part; do suite_link+=("$part"); done <<<"$suite_parts"

build() { "$cc" -o "$@" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }; }
build "$work/ffngen" "$@"
# The rows are made for vectors that are shorter than a panel: where one fills it (AVX-512), a lane index changes nothing
# in some, and code that lacks a constant runs for ever in place of being wrong.
isa=$("$work/ffngen" list isas | awk '$1 == "avx2" && / yes/ { shorter = $1 } /^in use: / { isa = $3 }
    END { print shorter ? shorter : isa }')
[ "$isa" != portable ] || exit 77

# The plans of the table, as a tuned table of another machine: the user's own plays no part.
declare -A specs
mkdir -p "$work/config/ffngen"
echo 'ffngen-tuned 1' >"$work/config/ffngen/tuned"
trim() { sed 's/^ *//;s/ *$//' <<<"$1"; }
while read -r kind name equals rest; do
    case $kind in
    specs) specs[$name]=$rest ;;
    plan) echo "spec=$name plan=\"$isa $rest\" threads=1 ms=1 spread=0 machine=\"any\" llvm=0 generator=0" ;;
    esac
done <tests/generator_mutants.txt >>"$work/config/ffngen/tuned"
export XDG_CONFIG_HOME=$work/config

# "(a) fused" and a worst-case ratio, or what came instead of a verdict; true if the code was found out.
found='' ratio=''
verify() {
    local status=0 words
    read -ra words <<<"${specs[$1]}"
    timeout 120 "$work/mutant" verify "${words[@]}" --isa "$isa" --json >"$work/out" 2>"$work/err" || status=$?
    found=$(sed -n 's/.*verification (\([abc]\)): \([a-z]*\).*/(\1) \2/p' "$work/out" | head -1)
    ratio=$(sed -n '/"passed":false/{s/.*"worst_case_share":\([^,}]*\).*/\1/p;q}' "$work/out")
    ratio=${ratio:-null}
    [ $status = 1 ] && [ "$found" ] && return
    found="status $status"
    return 1
}
# suite/TEST
test_fails() {
    local suite=${1%%/*} name=${1#*/}
    "$cc" "${flags[@]}" -Itests -DFFN_SOURCE_DIR="\"$PWD\"" -DFFN_COMMAND="\"$work/mutant\"" -c "tests/test_$suite.c" \
        -o "$work/suite.o"
    build "$work/suite" "$work/suite.o" "${objects[@]}" "${suite_link[@]}" "${@:2}"
    found="test_$suite, $name"
    ! timeout 300 "$work/suite" --filter "$suite/$name" >"$work/out" 2>&1 && grep -q 'Failing: 1 ' "$work/out"
}

for name in "${!specs[@]}"; do
    cp "$work/ffngen" "$work/mutant"
    if [ "$half" = 0 ] || [ "$name" = small ] || [ "$name" = one ]; then
        ! verify "$name" && [ "$found" = 'status 0' ] || { cat "$work/out" "$work/err"; echo "$name: the generator itself"; exit 1; }
    fi
done

failed=0 count=0 row=0
declare -A files
[ ! "$all" ] || : >"$all"
while IFS='|' read -r name file small large edit; do
    [[ $name != '#'* && $edit ]] || continue
    name=$(trim "$name") file=$(trim "$file") small=$(trim "$small") large=$(trim "$large") edit=${edit# }
    : "${files[$file]:=$row}"
    row=$((row + 1))
    if [ "$all" ]; then place=$((row + half)) every=2; else place=$((row - files[$file])) every=20; fi
    [ $((place % every)) = 1 ] || continue
    count=$((count + 1))
    mkdir -p "$work/$(dirname "$file")"
    sed "$edit" "$file" >"$work/$file"
    if [ "$(diff "$file" "$work/$file" | grep -c '^>')" != 1 ]; then
        echo "$name: not one line of $file is changed"
        failed=1
        continue
    fi
    source=$work/$file
    case $file in # a template is part of a source
    templates/functions.def) source=runtime/formula_function.c ;;
    templates/activations.def) source=runtime/activation.c ;;
    esac
    [ "$source" = "$work/$file" ] || {
        mkdir -p "$work/runtime"
        cp "$source" "$work/$source"
        source=$work/$source
    }
    "$cc" "${flags[@]}" -c "$source" -o "$work/mutant.o"
    objects=("$work/mutant.o")
    build "$work/mutant" "$work/mutant.o" "$@"
    at_small='' at_large=''
    sizes="$small $large"
    [ "$all" ] || case $((count % 2)) in 0) sizes=$small ;; *) [[ $large == none:* ]] && sizes=$small || sizes=$large ;; esac
    case $small in
    */*)
        test_fails "$small" "${@:2}" || { echo "$name: $small passes"; failed=1; }
        at_small=$found at_large="$large | |"
        ;;
    *)
        if [ "$all" ] || [ "$sizes" = "$small" ]; then
            verify "$small" || { echo "$name, $small: $found"; failed=1; }
            at_small=$found
        fi
        if [[ $large == none:* ]]; then
            at_large="$large | |"
        elif [ "$all" ] || [ "$sizes" = "$large" ]; then
            verify "$large" || { echo "$name, $large: $found"; failed=1; }
            at_large="$found"
            at_large="$found | ${ratio/null/not finite} |"
            [[ $ratio == null ]] || ! awk "BEGIN { exit !($ratio <= 1) }" || at_large+=' passes'
        fi
        ;;
    esac
    [ ! "$all" ] || echo "| $name | \`$file\` | $at_small | ${at_large/none: /} |" >>"$all"
done <tests/generator_mutants.txt
echo "$count mutants"
exit $failed
