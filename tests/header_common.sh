# What the scripts that try emitted headers share. Sourced by tests/header_*.sh, with FFNGEN and EXPECT as their first
# arguments: the command, and the program that prints the digest of libffn's own kernels.
set -euo pipefail
ffngen=$1
expect=$2
programs=$(cd "$(dirname "${BASH_SOURCE[0]}")/programs" && pwd)
source "$programs/../../scripts/cross.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
specs=(gated=d40-f100-geglu-bias 'plain=d20-f70-act(x*tanh(x)+0.7*x)') # as programs/header_layers.h has them
failed=0

say_failed() {
    printf 'FAILED: %s\n' "$*" >&2
    failed=1
}

# emit FILE ISAS [OPTION...]: a header of both specs in the working folder
emit() {
    local file=$1 isas=$2
    shift 2
    "$ffngen" emit "${specs[@]}" --format header --isa "$isas" -o "$work/$file" "$@"
}

# driver C|C++ COMPILER: the command that compiles that language
driver() {
    case $1:$2 in
    C++:gcc*) echo "g++${2#gcc}" ;;
    C++:clang*) echo "clang++${2#clang}" ;;
    *) echo "$2" ;;
    esac
}

# The compilers there are, of those that are tried.
compilers() {
    local name
    for name in gcc clang clang-19; do
        if command -v "$name" >/dev/null && command -v "$(driver C++ "$name")" >/dev/null; then
            echo "$name"
        fi
    done
}
