#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `go tool pprof` reads our pprof files, gzipped and raw, and our gperftools files.
set -euo pipefail
draw=tests/unit/draw/draw_fixture
command -v /usr/bin/go >/dev/null || { echo "SKIP: go_pprof_test: no go"; exit 0; }
room=$(mktemp -d "${TEST_TMPDIR:-/tmp}/x.XXXXXX")
export HOME=$room GOCACHE=$room/cache GOPATH=$room/go GOFLAGS=-mod=mod PPROF_TMPDIR=$room PPROF_BINARY_PATH=$room
passed=0
pprof() { /usr/bin/go tool pprof "$@" 2>"$room/errors" || { cat "$room/errors"; exit 1; }; }
expect() { # file, extended regular expression
    grep -Eq "$2" "$1" || { echo "no line like: $2"; cat "$1"; exit 1; }
    passed=$((passed + 1))
}

$draw proto >"$room/p.pb.gz"
$draw proto server raw >"$room/p.pb"
[ "$(head -c1 "$room/p.pb" | od -An -tx1 | tr -d ' ')" = 0a ] || { echo "a raw profile begins with 0x0a"; exit 1; }
[ "$(gunzip <"$room/p.pb.gz" | sha256sum)" = "$(sha256sum <"$room/p.pb")" ] || { echo "raw and gzip differ"; exit 1; }

for file in p.pb.gz p.pb; do
    pprof -top "$room/$file" >"$room/top"
    expect "$room/top" '^Type: cpu$'
    expect "$room/top" '^Duration: 10s, Total samples = 9\.82s \(98\.18%\)'
    expect "$room/top" '^ +4\.54s 46\.19% 46\.19% +4\.54s 46\.19%  copy_bytes$'
    expect "$room/top" '0% .*5\.89s 59\.98%  parse_header \(inline\)$'
    expect "$room/top" 'clock: perf cpu-clock, dithered'
    expect "$room/top" '^Build ID: abcdef0123456789$'
done

pprof -top -sample_index=samples "$room/p.pb" >"$room/top"
expect "$room/top" '^Type: samples$'
expect "$room/top" '^ +220 22\.63% .*tcp_sendmsg$'

pprof -top -tagfocus=thread=jobs "$room/p.pb" >"$room/top"
expect "$room/top" '1313\.13ms 13\.37%  background_jobs$'

pprof -raw "$room/p.pb" >"$room/raw"
expect "$room/raw" '^PeriodType: cpu nanoseconds$'
expect "$room/raw" '^Period: 10101010$'
expect "$room/raw" '^samples/count cpu/nanoseconds\[dflt\]'
expect "$room/raw" 'thread:\[server\]'
expect "$room/raw" 'tid:\[?100\]?'
expect "$room/raw" '0x404000 M=1 parse_header src/server.c:10'
expect "$room/raw" '^1: 0x400000/0x500000/0x0 /opt/fixture/bin/server abcdef0123456789 \[FN\]\[FL\]\[LN\]\[IN\]$'
# One frame of the library has no name, so its mapping must not claim to be symbolized.
expect "$room/raw" '^2: 0x7f0000000000/0x7f0000200000/0x1000 /opt/fixture/lib/libfixture.so.1 0123456789abcdef *$'

$draw proto empty >"$room/empty.pb.gz"
pprof -raw "$room/empty.pb.gz" >"$room/raw"
expect "$room/raw" '^samples/count cpu/nanoseconds'

$draw proto hostile >"$room/hostile.pb.gz"
pprof -raw "$room/hostile.pb.gz" >"$room/raw"
expect "$room/raw" 'broken .xff.xc0.x80 bytes'

$draw legacy >"$room/legacy.prof"
pprof -raw "$room/legacy.prof" >"$room/raw"
expect "$room/raw" '^Period: 10101000$'
expect "$room/raw" '^ +220 2222220000: '
expect "$room/raw" '0x406000 M=1'
expect "$room/raw" '0x403010 M=1' # a return address, unchanged: go tool pprof subtracts one itself
# Memory: go reads the same values per site from our gperftools text and from our pprof.
$draw legacy trimmed >"$room/p.legacy.heap"
$draw proto trimmed >"$room/heap.pb.gz"
$draw top trimmed >"$room/ours"
for type in inuse_space alloc_space; do
    pprof -traces -unit=B -sample_index=$type "$room/heap.pb.gz" | grep -Eo '^ *[0-9]+B' | sort >"$room/from_proto"
    pprof -traces -unit=B -sample_index=$type "$room/p.legacy.heap" | grep -Eo '^ *[0-9]+B' | sort >"$room/from_text"
    [ "$(wc -l <"$room/from_proto")" = 4 ] || { echo "4 stacks, not:"; cat "$room/from_proto"; exit 1; }
    # go tool pprof truncates fractions.
    paste "$room/from_proto" "$room/from_text" | tr -d B | awk '$1 - $2 > 300 || $2 - $1 > 300 { print "far off:", $0; bad = 1 } END { exit bad }'
    passed=$((passed + 2))
done
pprof -raw "$room/p.legacy.heap" >"$room/raw"
expect "$room/raw" '^Period: 524288$'
expect "$room/raw" '0x401000 M=1'
pprof -top "$room/heap.pb.gz" >"$room/top"
expect "$room/top" '^Type: inuse_space$'
expect "$room/top" ' 50.66MB 99.02%  main$'
# Our table has the same cells, with the binary units by their names.
sed -i 's/\([KMG]\)iB/\1B/g' "$room/ours"
for name in grow_table new_node main; do
    cells() { awk -v name="$name" '{ sub(" \\(inline\\)", ""); if ($NF == name || index($0, name "<")) print $1, $4 }' "$1"; }
    [ -n "$(cells "$room/ours")" ] && [ "$(cells "$room/top")" = "$(cells "$room/ours")" ] || {
        echo "go tool pprof prints other values for $name"; cat "$room/top" "$room/ours"; exit 1; }
    passed=$((passed + 1))
done
echo "$passed passed, 0 failed"
