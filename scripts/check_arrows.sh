#!/usr/bin/env bash
# Fails if an include points against the arrows: templates <- runtime <- gen <- examples, tests, bench.
#   check_arrows.sh [ROOT]     ROOT is the repository by default
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"

failed=0
# forbid REASON PATTERN PATH...: no line of these files may match
forbid() {
    local reason=$1 pattern=$2 found
    shift 2
    found=$(grep -rnE --include='*.[ch]' --include='*.def' --include='*.in' -e "$pattern" -- "$@" || true)
    if [ -n "$found" ]; then
        printf '%s\n%s\n' "$reason:" "$found" >&2
        failed=1
    fi
}

include='^[[:space:]]*#[[:space:]]*include[[:space:]]*'
below=()
for folder in runtime gen examples tests bench; do
    [ -d "$folder" ] && below+=("$folder")
done

forbid 'templates include nothing of the project' "$include\"" templates
forbid 'tables include nothing at all' "$include" $(find templates -name '*.def')
forbid 'only gen speaks to LLVM' "${include}[<\"]llvm" $(printf '%s\n' "${below[@]}" | grep -vx gen)
# A quoted name with a folder in it must name a folder further up the flow.
forbid 'runtime includes only runtime and templates' "$include\"([^\"]*/)?(gen|examples|tests|bench)/" runtime
forbid 'gen includes only gen, runtime and templates' "$include\"([^\"]*/)?(examples|tests)/" gen

# A quoted name without a folder must be a file of a folder that may be included from there.
# outside ALLOWED FILE...: the includes of these files that are in none of the folders ALLOWED
outside() {
    local allowed=$1 file name folder
    shift
    sed -nE "s|$include\"([^\"/]+)\".*|\1|p; T; F" "$@" | while read -r name && read -r file; do
        for folder in $allowed; do
            [ ! -e "$folder/$name" ] || continue 2
        done
        echo "$file includes \"$name\", which is in none of: $allowed"
    done
}
command_files='/((cmd|page|plot|suite|tune)[a-z0-9_]*|ffngen)\.[ch]$' # they print, draw or choose by what bench measures
found=$(
    outside runtime runtime/*.[ch]
    outside 'gen runtime' $(ls gen/*.[ch] | grep -vE "$command_files")
    outside 'gen runtime bench' $(ls gen/*.[ch] | grep -E "$command_files")
)
if [ -n "$found" ]; then
    printf '%s\n' "$found" >&2
    failed=1
fi
exit $failed
