#!/usr/bin/env bash
# The same specs give the same bytes: whatever the folder, the user, the home, the time, the language, the permissions
# given to new files, the CPU that generates, the number of processors.
#   header_same.sh FFNGEN EXPECT
source "$(dirname "${BASH_SOURCE[0]}")/header_common.sh" "$@"

first=$work/first
mkdir "$first"
forms=('--isa avx2,avx512,portable' '--isa neon,portable' '--isa avx2 --static' '--isa portable')

# generate FOLDER COMMAND...: every form, into the folder
generate() {
    local folder=$1 i
    shift
    mkdir -p "$folder"
    for i in "${!forms[@]}"; do
        "$@" emit "${specs[@]}" --format header ${forms[i]} --prefix hm -o "$folder/hm$i.h"
    done
}
# same WHAT FOLDER
same() {
    local i
    for i in "${!forms[@]}"; do
        cmp "$first/hm$i.h" "$2/hm$i.h" || say_failed "$1: not the same bytes with ${forms[i]}"
    done
}

generate "$first" "$ffngen"
generate "$work/again" "$ffngen"
same 'a second run' "$work/again"

other="$work/another folder/of mine"
mkdir -p "$other/home"
(
    cd "$other"
    umask 077
    generate deep env -i HOME="$other/home" USER=somebody LOGNAME=somebody TZ=Pacific/Kiritimati LC_ALL=C.UTF-8 \
        LANG=de_DE.UTF-8 PATH=/nowhere OPENBLAS_CORETYPE=Nehalem OPENBLAS_NUM_THREADS=1 SOURCE_DATE_EPOCH=1 \
        TMPDIR="$other" "$ffngen"
)
same 'another folder, user, home, language, time zone' "$other/deep"
[ -z "$(ls -A "$other/home")" ] || say_failed "files in the home folder: $(ls -A "$other/home")"

leaks="\\<$(hostname)\\>|\\<$(id -un)@|/work|/home|/tmp|$(date +%Y-%m-%d)"
found=$(grep -noE "$leaks" "$first"/* | head -n 3 || true)
[ -z "$found" ] || say_failed "names of this machine, or the date: $found"

if command -v setarch >/dev/null; then # without address space randomisation, and with
    generate "$work/fixed" setarch -R "$ffngen"
    same 'addresses that are always the same' "$work/fixed"
fi
emulator=$(command -v qemu-x86_64 || command -v qemu-x86_64-static || true)
if [ -n "$emulator" ] && [ "$(uname -m)" = x86_64 ]; then
    forms=("${forms[0]}")
    generate "$work/emulated" "$emulator" -cpu Nehalem "$ffngen"
    same 'a CPU without AVX' "$work/emulated"
else
    echo 'not here: qemu-x86_64'
fi
exit $failed
