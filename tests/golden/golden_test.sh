#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compares every format of every fixture with the golden files in this folder.
set -euo pipefail
room=$(mktemp -d "${TEST_TMPDIR:-/tmp}/x.XXXXXX")
tests/golden/draw_all.sh tests/unit/draw/draw_fixture "$room"
passed=0 failed=0
for file in "$room"/*; do
    name=$(basename "$file")
    if cmp -s "$file" "tests/golden/$name"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "the output differs from tests/golden/$name; if that is intended, run tests/golden/update.sh"
        diff -a "tests/golden/$name" "$file" | head -20 || true
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" = 148 ] # the number of files in BUILD.bazel
