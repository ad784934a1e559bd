#!/usr/bin/env bash
# Writes the tables of docs/edges.md anew, as the portable kernel has them, then judges them: tests/test_edges.c.
#   edges.sh BUILD-FOLDER
set -euo pipefail
[ -x "${1:-}/test_edges" ] || { echo "edges.sh: no test_edges in '${1:-}': the folder of a build with tests is needed" >&2; exit 2; }
test=$(cd -- "$1" >/dev/null && pwd)/test_edges
cd "$(dirname "${BASH_SOURCE[0]}")/.."
FFN_WRITE_EDGES=docs/edges.md "$test" --filter 'edges/stand_in_*'
"$test"
