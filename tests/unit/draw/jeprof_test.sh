#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# jeprof and google-pprof read totals, addresses and callers from our gperftools files.
set -euo pipefail
draw=tests/unit/draw/draw_fixture
room=$(mktemp -d "${TEST_TMPDIR:-/tmp}/x.XXXXXX")
export HOME=$room
$draw legacy >"$room/legacy.prof"
$draw legacy empty >"$room/empty.prof"
cp /bin/true "$room/program"
passed=0
expect() {
    grep -Eq "$2" "$1" || { echo "no line like: $2"; cat "$1"; exit 1; }
    passed=$((passed + 1))
}
for reader in jeprof google-pprof; do
    command -v "$reader" >/dev/null || { echo "SKIP: jeprof_test: no $reader"; continue; }
    "$reader" --text "$room/program" "$room/legacy.prof" >"$room/top" 2>"$room/errors" || { cat "$room/errors"; exit 1; }
    expect "$room/top" '^Total: 972 samples'
    expect "$room/top" '^ +449 +46\.2% +46\.2% +449 +46\.2% '
    expect "$room/top" ' 833 +85\.7% .*0000402000'
    # They print nothing for an empty profile, but must accept it.
    "$reader" --text "$room/program" "$room/empty.prof" >"$room/top" 2>"$room/errors" || { cat "$room/errors"; exit 1; }
    expect "$room/errors" 'Using local file .*empty.prof'
done
echo "$passed passed, 0 failed"
