#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# draw_all.sh PROGRAM FOLDER: writes all golden files to FOLDER. The script and the style of SVGs are omitted, because they are
# files in api/draw, and so is the version. pprof files are uncompressed, because compressed bytes depend on the library's version.
set -euo pipefail
draw=$1 folder=$2
without_constants() {
    sed -e '/<style><!\[CDATA\[/,/\]\]><\/style>/c <style/>' -e 's/>Sonde [0-9.]*[0-9]/>Sonde VERSION/' -e '/<script><!\[CDATA\[/,/\]\]><\/script>/c <script/>'
}
for fixture in server empty hostile diff faults memory heap trimmed heap_diff empty_heap; do
    "$draw" flamegraph "$fixture" | without_constants >"$folder/$fixture.svg"
    "$draw" callgraph "$fixture" | without_constants >"$folder/$fixture.callgraph.svg"
    "$draw" collapsed "$fixture" >"$folder/$fixture.collapsed"
    "$draw" speedscope "$fixture" >"$folder/$fixture.speedscope.json"
    "$draw" top "$fixture" >"$folder/$fixture.txt"
    "$draw" proto "$fixture" raw >"$folder/$fixture.pb"
    "$draw" md "$fixture" >"$folder/$fixture.md"
    for format in firefox grafana deepflow deepflow-columnar flamebearer; do
        "$draw" "$format" "$fixture" >"$folder/$fixture.$format.json"
    done
done
for fixture in server empty hostile diff faults; do
    "$draw" legacy "$fixture" >"$folder/$fixture.prof"
done
for fixture in memory heap trimmed heap_diff empty_heap; do
    "$draw" legacy "$fixture" >"$folder/$fixture.legacy.heap"
    "$draw" heapsnapshot "$fixture" >"$folder/$fixture.heapsnapshot"
    "$draw" heapprofile "$fixture" >"$folder/$fixture.heapprofile"
done
for format in flamegraph collapsed speedscope grafana flamebearer; do
    "$draw" "$format" server split | without_constants >"$folder/server.split.$format"
done
"$draw" difference flamegraph | without_constants >"$folder/versions.svg"
"$draw" difference changes >"$folder/versions.changes.json"
"$draw" heapsnapshot trimmed all_one >"$folder/all_one.heapsnapshot"
