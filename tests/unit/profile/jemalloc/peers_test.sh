#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# H5, H6: jeprof and go tool pprof read our formats of a real dump with the same totals as the raw dump, and every stack ends in the
# program.
set -euo pipefail
command -v jeprof >/dev/null || { echo "SKIP: peers_test: no jeprof"; exit 0; }
room=$(mktemp -d "${TEST_TMPDIR:-/tmp}/x.XXXXXX")
folder=tests/unit/profile/jemalloc
passed=0
# Compares "NUMBER ... NAME" lines, sorted by name. Numbers may differ by rounding.
near() { # what, one, other
    paste <(sort -k6 <<<"$2") <(sort -k6 <<<"$3") | awk '
        NF != 12 || $6 != $12 { print "not the same sites:", $0; bad = 1 }
        { off = $1 - $7; off = off < 0 ? -off : off }
        off > 3 + $1 / 20000 { print "too far off:", $0; bad = 1 }
        END { exit bad || NR == 0 }' || { echo "$1"; exit 1; }
    passed=$((passed + 1))
}
total_of() { sed -n '1s/Total: \([0-9]*\) B/\1 - - - - total/p' "$1"; }
cp "$folder/known_live_set" "$room/program"
table() { jeprof --text --show_bytes "$@" 2>"$room/errors" || { cat "$room/errors"; exit 1; }; }
sites() { grep -E ' site_(small|large|mixed)$'; }
for conf in lg_prof_sample:19 lg_prof_sample:16,prof_accum:true lg_prof_sample:12; do
    MALLOC_CONF=prof:true,$conf "$room/program" "$room/raw.heap"
    "$folder/draw_dump" legacy <"$room/raw.heap" >"$room/ours.legacy.heap"
    table "$room/program" "$room/raw.heap" >"$room/raw.txt"
    table "$room/program" "$room/ours.legacy.heap" >"$room/ours.txt"
    [ "$(sites <"$room/raw.txt" | wc -l)" = 3 ] || { echo "no sites"; cat "$room/raw.txt"; exit 1; }
    near "$conf: the total" "$(total_of "$room/raw.txt")" "$(total_of "$room/ours.txt")"
    near "$conf: each site" "$(sites <"$room/raw.txt")" "$(sites <"$room/ours.txt")"
    near "$conf: objects" "$(table --inuse_objects "$room/program" "$room/raw.heap" | sites)" \
        "$(table --inuse_objects "$room/program" "$room/ours.legacy.heap" | sites)"
    case $conf in *accum*)
        near "$conf: allocations" "$(table --alloc_space "$room/program" "$room/raw.heap" | sites)" \
            "$(table --alloc_space "$room/program" "$room/ours.legacy.heap" | sites)" ;;
    esac
    if "$folder/draw_dump" collapsed <"$room/raw.heap" | grep -E 'libjemalloc[^;]* [0-9]+$'; then
        echo "$conf: stacks that end in the allocator"; exit 1
    fi
    passed=$((passed + 1))
done

if [ -x /usr/bin/go ]; then
    export HOME=$room GOCACHE=$room/cache GOPATH=$room/go GOFLAGS=-mod=mod PPROF_TMPDIR=$room PPROF_BINARY_PATH=$room
    total() { /usr/bin/go tool pprof -top -unit=B "$@" 2>/dev/null | sed -n 's/.* of \([0-9]*\)B total.*/\1/p'; }
    "$folder/draw_dump" proto <"$room/raw.heap" >"$room/ours.pb.gz"
    raw=$(sed -n '1s/Total: \([0-9]*\) B/\1/p' "$room/raw.txt")
    for file in ours.legacy.heap ours.pb.gz; do
        difference=$(($(total "$room/$file") - raw))
        # Fractions of a byte a stack.
        [ "${difference#-}" -le 20 ] || { echo "go pprof, $file: $difference bytes off $raw"; exit 1; }
        passed=$((passed + 1))
    done
else
    echo "SKIP: peers_test: no go"
fi
echo "$passed passed, 0 failed"
