#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows Sonde on a fresh Debian 12 machine with one command:
#     bazel/demo.sh [--once] [--out FILE.svg] [--http HOST:PORT] [--seconds N]
#     bazel/demo.sh --pictures DIR [--seconds N]
# Installs missing packages, builds Sonde, and starts sonded with history, the gateway, and the demo server beside them. The server
# is not prepared: it has no guest, unless the kernel refuses perf to this user. Takes a profile over HTTP and prints where the page
# and the flame graph are, and a query of the history. Then it runs until Ctrl-C, or with --once it exits. --pictures writes the three
# pictures of docs/guide.md (cpu.svg, waits.svg, memory.svg) to DIR and exits.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

once=no out=${TMPDIR:-/tmp}/sonde-demo.svg http='' seconds=5 pictures=
usage() {
    sed -n 's/^#     /usage: /p' "$0" >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case "$1" in
    --once) once=yes ;;
    --out) out=${2:?--out needs a file}; shift ;;
    --http) http=${2:?--http needs HOST:PORT}; shift ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --pictures) pictures=${2:?--pictures needs a directory}; shift ;;
    *) usage ;;
    esac
    shift
done
case "$out" in /*) ;; *) out="$PWD/$out" ;; esac
case "$pictures" in /* | '') ;; *) pictures="$PWD/$pictures" ;; esac
cd "$top"

bazel/install_deps.sh
echo "building (takes a few minutes the first time) ..." >&2
targets=(//clients/cli:sonde //clients/demo //gateway:sonde-gateway //service:sonded //service/guest:libsonde.so)
bazel build --noshow_progress --ui_event_filters=-info "${targets[@]}"
bin=$(bazel info --ui_event_filters=-info bazel-bin 2>/dev/null)

work=$(mktemp -d)
started=()
finish() {
    for pid in "${started[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

service=unix:$work/grpc.sock
export SONDE_SERVICE=$service
demo=("$bin/clients/demo/demo")

may_sample() {
    [ "$(id -u)" = 0 ] || [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 2 ]
}

# Runs a command in the background; its stdout and stderr go to files.
start() {
    local name=$1
    shift
    touch "$work/$name.out" "$work/$name.err" # `says` may read them before the new process has opened them
    "$@" >"$work/$name.out" 2>"$work/$name.err" &
    started+=($!)
}

# Waits until a line of a program begins with these words, and prints the rest of it.
says() {
    for _ in $(seq 300); do
        cat "$work/$1.out" "$work/$1.err" 2>/dev/null | sed -n "s/^$2//p;T;q" >"$work/line"
        [ -s "$work/line" ] && cat "$work/line" && return
        sleep 0.1
    done
    cat "$work"/*.err >&2
    echo "$1 did not start" >&2
    return 1
}

if [ -z "$pictures" ] && may_sample; then
    start sonded "$bin/service/sonded" --socket "$work/guest.sock" --grpc "$service" --data-dir "$work/data" --history
    says sonded 'grpc: ' >/dev/null
    start gateway "$bin/gateway/sonde-gateway" --service "$service" --listen "${http:-127.0.0.1:0}"
    page=$(says gateway 'http: ')
    start demo "${demo[@]}"
    pid=$(says demo 'demo: pid ')
else
    run=("$bin/clients/cli/sonde" run --name demo --history --data-dir "$work/data" --grpc "$service")
    if [ -n "$pictures" ]; then
        mkdir -p "$pictures"
        run+=(--http 127.0.0.1:0)
        demo+=(--guide --threads 4)
    elif [ -n "$http" ]; then
        run+=(--http "$http")
    fi
    start demo "${run[@]}" -- "${demo[@]}"
    page=$(says demo 'http: ')
    pid=$(says demo 'demo: pid ')
fi
pid=${pid%%[^0-9]*}

if [ -n "$pictures" ]; then
    echo "profiling the demo server three times for $seconds s ..." >&2
    sonde() { "$bin/clients/cli/sonde" "$@"; }
    sonde record demo -d "$seconds" -F 999 --title "CPU time" -o "$pictures/cpu.svg"
    sonde record demo -d "$seconds" --mode off-cpu --title "Time blocked" -o "$pictures/waits.svg"
    sonde heap on demo --sample 32768 >/dev/null
    sleep "$seconds"
    sonde heap dump demo -o "$pictures/memory.svg"
    exit 0
fi

# DeepFlow's query, as a command to paste. The test of the demo runs it, too.
tracing() {
    cat <<TRACING
curl -s -X POST '$page/v1/profile/ProfileTracing' -H 'Content-Type: application/json' \\
    -d '{"app_service": "demo", "profile_language_type": "eBPF", "profile_event_type": "on-cpu", "tag_filter": "",
         "time_start": '\$(date -d '15 min ago' +%s)', "time_end": '\$(date +%s)'}'
TRACING
}

fetch() { # file, query
    curl --fail --silent --show-error --output "$1" --retry 20 --retry-delay 1 --retry-connrefused \
        "$page/t/$pid/debug/pprof/profile?seconds=$seconds&frequency=499$2"
}
echo "waiting for the first seconds of history ..." >&2
for _ in $(seq 120); do
    bash -c "$(tracing)" >"$work/tree" || true
    grep -q '"match_rules"' "$work/tree" && break
    sleep 0.5
done
if ! grep -q '"match_rules"' "$work/tree"; then
    cat "$work/tree" "$work"/*.err >&2
    echo "the history has no profile of the demo server" >&2
    exit 1
fi
echo "sampling the demo server for $seconds s ..." >&2
fetch "$out" '' &
picture=$!
fetch "$work/stacks" '&output=collapsed'
wait "$picture"

# Prints the share of each leaf in the collapsed stacks, next to the share of CPU time that the demo spends in it.
echo
awk '{ count = $NF; sub(/ [0-9]+$/, ""); leaf = $0; sub(/.*;/, "", leaf); sum[leaf] += count; total += count }
     END {
         split("parse_header 10 compress_block 20 match_rules 70", row, " ")
         printf "%-16s %8s %8s\n", "function", "actual", "measured"
         for (i = 1; i <= 6; i += 2)
             printf "%-16s %6d %% %6.1f %%\n", row[i], row[i + 1], total ? 100 * sum[row[i]] / total : 0
         printf "%d samples\n", total
         exit total ? 0 : 1
     }' "$work/stacks"
echo
echo "flame graph: $out"
echo "page:        $page"
echo "history:     the call tree of what has been recorded, with"
echo
tracing
[ "$once" = yes ] && exit 0
echo
echo "Open the page, or try one of these (Ctrl-C ends the demo):"
echo "    curl -o flame.svg '$page/t/$pid/debug/pprof/profile?seconds=5'"
echo "    go tool pprof -top '$page/t/$pid/debug/pprof/profile?seconds=5'"
echo "    export SONDE_SERVICE=$service"
echo "    $bin/clients/cli/sonde top demo"
echo "    $bin/clients/cli/sonde history demo --from -15m"
echo "Other processes need no preparation, either:"
echo "    $bin/clients/cli/sonde targets --all"
echo "    $bin/clients/cli/sonde record PID -o flame.svg"
echo "    $bin/clients/cli/sonde history"
wait "${started[-1]}"
