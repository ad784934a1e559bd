#!/usr/bin/env bash
# What ffngen emits does not depend on the machine it runs on: ffngen is cross-built for AArch64 against Debian's arm64
# packages, run under an emulator, and its bytes are compared with those of this machine's build, which must have the
# same LLVM. Downloads about 60 MB; not part of the tests.
#   check_emission_on_arm.sh [BUILD [WORK]]     BUILD: a build folder with ffngen; WORK: kept, for a second run
# Exit status 77: no cross compiler with its C library, no emulator or no apt-get here.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "${1:-$root/build/release}" && pwd)
work=${2:-}
if [ -z "$work" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work"
work=$(cd "$work" && pwd)
source "$root/scripts/cross.sh"
cc=$cross_cc
lacks=$(cross_lacks)
emulator=$(emulator aarch64)
if [ -n "$lacks" ] || [ -z "$emulator" ] || ! command -v apt-get >/dev/null; then
    echo "needed: ${lacks:-$cc}, qemu-aarch64, apt-get"
    exit 77
fi
version=$("$build/ffngen" --version | sed -n 's/.*LLVM //p')
llvm=${version%%.*}
headers=/usr/lib/llvm-$llvm/include

# An apt of its own: the machine's knows nothing of the other architecture, and need not.
apt=$work/apt sysroot=$work/sysroot
if [ ! -e "$sysroot/done" ]; then
    mkdir -p "$apt"/etc/apt/{apt.conf.d,preferences.d,sources.list.d,trusted.gpg.d} "$apt"/var/lib/apt/lists/partial \
        "$apt"/var/cache/apt/archives/partial "$apt"/var/lib/dpkg "$sysroot"
    touch "$apt/var/lib/dpkg/status"
    # From where this machine has its own packages.
    signed='[arch=arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
    apt-get indextargets --format "deb $signed \$(REPO_URI) \$(RELEASE) \$(COMPONENT)" 'Created-By: Packages' | sort -u \
        >"$apt/etc/apt/sources.list"
    options=(-qq -o Dir="$apt" -o Dir::State::status="$apt/var/lib/dpkg/status" -o APT::Architecture=arm64
        -o APT::Architectures::=arm64 -o APT::Sandbox::User="$(id -un)")
    apt-get "${options[@]}" update
    apt-get "${options[@]}" -y --download-only --no-install-recommends install "libllvm$llvm" libopenblas0-pthread \
        libcjson1 libc6
    for package in "$apt"/var/cache/apt/archives/*.deb; do
        dpkg-deb -x "$package" "$sysroot"
    done
    touch "$sysroot/done"
fi

libraries=$sysroot/usr/lib/aarch64-linux-gnu
blas=$libraries/openblas-pthread
here=$(find /usr/include -name cblas.h -path '*openblas*' -printf '%h\n' | head -n 1)
mkdir -p "$work/include/generated"
for header in cblas.h openblas_config.h; do # not the folder of this machine's C library beside them
    ln -sf "$here/$header" "$work/include/$header"
done
flags=(-std=gnu17 -O1 -ffp-contract=off -iquote "$root"/runtime -iquote "$root"/gen -iquote "$root"/bench -I"$build" -I"$build"/generated
    -isystem "$headers" -I"$work"/include -idirafter /usr/include -idirafter /usr/include/cjson
    -include "$build"/generator_hash.h)
sources=("$root"/runtime/*.c "$root"/gen/*.c "$root"/bench/*.c)
[ ! -e "$build/generated/header_templates.c" ] || sources+=("$build/generated/header_templates.c")
mkdir -p "$work/objects"
rm -f "$work"/objects/*.o
for source in "${sources[@]}"; do
    case $source in */runtime/pool.c) continue ;; esac
    object=$(basename "$(dirname "$source")")_$(basename "$source" .c).o
    printf '%s\0' -o "$work/objects/$object" "$source"
done | xargs -0 -n 3 -P "$(nproc)" $cc "${flags[@]}" -c
$cc "$work"/objects/*.o "$libraries"/libLLVM.so.*[0-9] "$libraries"/libcjson.so.1 "$blas"/libopenblas.so.0 \
    -Wl,-rpath-link="$libraries:$sysroot/lib/aarch64-linux-gnu:$blas" -Wl,--allow-shlib-undefined -lm -lpthread \
    -o "$work/ffngen"
arm() {
    "$emulator" -L "$sysroot" -E LD_LIBRARY_PATH="$blas" "$work/ffngen" "$@"
}

count=0 differ=0
for spec in d64-f256-relu-bias d33-f61-swiglu; do
    for isa in avx2 avx512 neon; do
        for format in image object asm; do
            for n in 1 17; do
                arm emit "$spec" --format $format --isa $isa -n $n -o "$work/arm.out"
                "$build/ffngen" emit "$spec" --format $format --isa $isa -n $n -o "$work/here.out"
                count=$((count + 1))
                if ! cmp "$work/arm.out" "$work/here.out"; then
                    echo "$spec $isa $format n $n: other bytes"
                    differ=$((differ + 1))
                fi
            done
        done
    done
done
echo "LLVM $version on AArch64 and on $(uname -m): $count outputs, $differ differ"
[ $differ -eq 0 ]
