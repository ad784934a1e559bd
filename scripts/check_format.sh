#!/usr/bin/env bash
# Fails if a source is not as clang-format 14 (the version of Debian 12) leaves it. Exit status 77: that version is not here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for formatter in clang-format-14 clang-format; do
    if command -v "$formatter" >/dev/null && "$formatter" --version | grep -q 'version 14\.'; then
        find runtime gen examples tests bench -name '*.[ch]' -print0 | xargs -0 -r "$formatter" --dry-run -Werror
        exit
    fi
done
echo 'clang-format 14 is not installed: formatting is not checked'
exit 77
