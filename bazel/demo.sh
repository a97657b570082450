#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# From a fresh Debian 12 machine to a flame graph, in one command:
#     bazel/demo.sh [--once] [--out FILE.svg] [--http HOST:PORT] [--seconds N]
# Installs what is missing, builds, starts the demo server with Sonde inside, takes a capture over HTTP, and says where
# the page and the picture are. Then it stays until Ctrl-C; with --once it ends.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

once=no out=${TMPDIR:-/tmp}/sonde-demo.svg http='' seconds=5
usage() {
    sed -n 's/^#     //p' "$0" >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case "$1" in
    --once) once=yes ;;
    --out) out=${2:?--out needs a file}; shift ;;
    --http) http=${2:?--http needs HOST:PORT}; shift ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    *) usage ;;
    esac
    shift
done
case "$out" in /*) ;; *) out="$PWD/$out" ;; esac
cd "$top"

bazel/install_deps.sh
echo "building (the first time takes some minutes) ..." >&2
targets=(//clients/cli:sonde //clients/demo //gateway:sonde-gateway //service:sonded //service/guest:libsonde.so)
bazel build --noshow_progress --ui_event_filters=-info "${targets[@]}"
bin=$(bazel info --ui_event_filters=-info bazel-bin 2>/dev/null)

work=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

"$bin/clients/cli/sonde" run --name demo ${http:+--http "$http"} -- "$bin/clients/demo/demo" \
    >"$work/out" 2>"$work/err" &
server=$!
page=
for _ in $(seq 300); do
    page=$(sed -n 's/^http: //p' "$work/err")
    grep -q '^demo: pid' "$work/out" && [ -n "$page" ] && break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
if [ -z "$page" ] || ! kill -0 "$server" 2>/dev/null; then
    cat "$work/err" >&2
    echo "the demo server did not start" >&2
    exit 1
fi

fetch() { # file, query
    curl --fail --silent --show-error --output "$1" --retry 20 --retry-delay 1 --retry-connrefused \
        "$page/debug/pprof/profile?seconds=$seconds&frequency=499$2"
}
echo "sampling the demo server for $seconds s ..." >&2
fetch "$out" '' &
picture=$!
fetch "$work/stacks" '&output=collapsed'
wait "$picture"

# The leaf of each collapsed stack, its share, and what the demo burns.
echo
awk '{ count = $NF; sub(/ [0-9]+$/, ""); leaf = $0; sub(/.*;/, "", leaf); sum[leaf] += count; total += count }
     END {
         split("parse_header 10 compress_block 20 match_rules 70", row, " ")
         printf "%-16s %8s %8s\n", "function", "burns", "measured"
         for (i = 1; i <= 6; i += 2)
             printf "%-16s %6d %% %6.1f %%\n", row[i], row[i + 1], total ? 100 * sum[row[i]] / total : 0
         printf "%d samples\n", total
         exit total ? 0 : 1
     }' "$work/stacks"
echo
echo "flame graph: $out"
echo "page:        $page"
[ "$once" = yes ] && exit 0
echo
echo "Look at the page, or try (Ctrl-C ends the demo):"
echo "    curl -o flame.svg '$page/debug/pprof/profile?seconds=5'"
echo "    go tool pprof -top '$page/debug/pprof/profile?seconds=5'"
echo "    $bin/clients/cli/sonde top"
wait "$server"
