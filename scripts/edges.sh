#!/usr/bin/env bash
# Writes the tables of docs/edges.md anew, as the portable kernel has them, then judges them: tests/test_edges.c.
#   edges.sh BUILD-FOLDER
set -euo pipefail
test=$(cd "${1:?the folder of a build with tests}" && pwd)/test_edges
cd "$(dirname "${BASH_SOURCE[0]}")/.."
FFN_WRITE_EDGES=docs/edges.md "$test" --filter 'edges/stand_in_*'
"$test"
