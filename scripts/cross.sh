#!/usr/bin/env bash
# What it takes to make and run programs for AArch64 here. A cross compiler that is installed need not have a C library
# beside it (Debian's only recommends the one it is used with), so that a program is linked rather than a name looked for.
# Sourced for its functions, or run:
#   cross.sh      prints what is lacking, with exit status 77; nothing if programs can be made and run
cross_cc=aarch64-linux-gnu-gcc

# emulator MACHINE: the one for its programs, or nothing
emulator() {
    command -v "qemu-$1" || command -v "qemu-$1-static" || true
}

# cross_links [FLAG...]: whether a program with the C library's headers can be made so
cross_links() {
    printf '%s\n' '#include <math.h>' '#include <stdio.h>' 'int main(int n, char **v) { return puts(*v) < sqrt(n); }' |
        $cross_cc "$@" -x c - -o /dev/null -lm -lpthread 2>/dev/null
}

# What is lacking to make AArch64 programs, or nothing.
cross_lacks() {
    if ! command -v $cross_cc >/dev/null; then
        echo $cross_cc
    elif ! cross_links || ! cross_links -static; then
        echo "the C library for $cross_cc (libc6-dev-arm64-cross)"
    fi
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    lacks=$(cross_lacks)
    [ -n "$(emulator aarch64)" ] || lacks=${lacks:+$lacks, }qemu-aarch64
    [ -z "$lacks" ] || { echo "$lacks"; exit 77; }
fi
