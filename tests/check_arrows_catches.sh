#!/usr/bin/env bash
# scripts/check_arrows.sh passes a small tree whose includes point the right way, and fails each that has one wrong line.
set -euo pipefail
check=$(cd "$(dirname "${BASH_SOURCE[0]}")/../scripts" && pwd)/check_arrows.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{templates/header,runtime,gen,bench,tests,examples}

write_tree() {
    echo 'ROW(avx2)' >"$tree/templates/isas.def"
    echo '#include <stdint.h>' >"$tree/templates/header/kernel.h.in"
    printf '#include "../templates/isas.def"\n#include <stdio.h>\n' >"$tree/runtime/ffn.h"
    echo '#include "ffn.h"' >"$tree/runtime/plan.c"
    printf '#include "ffn.h"\n#include <llvm-c/Core.h>\n' >"$tree/gen/object.h"
    echo '#include "object.h"' >"$tree/gen/object.c"
    echo '#include "rounds.h"' >"$tree/gen/cmd_bench.c"
    echo '#include "ffn.h"' >"$tree/bench/rounds.h"
    printf '#include "object.h"\n#include "ffn.h"\n' >"$tree/tests/test_object.c"
}

write_tree
"$check" "$tree"

# file, line that must not stand in it
while IFS='|' read -r file line; do
    write_tree
    echo "$line" >>"$tree/$file"
    if "$check" "$tree" 2>/dev/null; then
        echo "not caught: $line in $file"
        exit 1
    fi
done <<'EOL'
runtime/plan.c|#include "object.h"
runtime/plan.c|#include "../gen/object.h"
runtime/plan.c|  #  include <llvm-c/Core.h>
runtime/ffn.h|#include "llvm-c/Core.h"
runtime/plan.c|#include "../tests/support.h"
runtime/plan.c|#include "rounds.h"
gen/object.c|#include "rounds.h"
gen/object.c|#include "../tests/support.h"
templates/isas.def|#include <stdint.h>
templates/isas.def|#include "../runtime/ffn.h"
templates/header/kernel.h.in|#include "ffn.h"
tests/test_object.c|#include <llvm-c/Core.h>
bench/rounds.h|#include <llvm-c/Core.h>
EOL
