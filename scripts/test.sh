#!/usr/bin/env bash
# Everything from a fresh Debian 12 to the answer of all tests: installs what is missing (as root), builds, tests. The last
# lines are ctest's summary; the exit status is 0 if all passed. Builds other than gcc's optimised one (clang, sanitizers)
# are entries of the same ctest run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

packages_install build test optional
cmake --preset release -D FFN_TEST_PRESETS=ON -D FFN_WERROR=ON
cmake --build --preset release
exec ctest --preset release -j "$(nproc)" </dev/null
