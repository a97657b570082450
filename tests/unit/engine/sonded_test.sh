#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sonded as a program: its one line on stdout, its answers to signals, to a second one, and to wrong settings.
set -u
sonded=$PWD/service/sonded
dir=$(mktemp -d)
pids=()
failed=0
finish() {
    for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null; done
    rm -rf "$dir"
}
trap finish EXIT

check() { # sentence, command...
    local sentence=$1
    shift
    if "$@"; then echo "ok      $sentence"; else echo "FAILED  $sentence"; failed=1; fi
}

wait_for_text() { # file, text
    for _ in $(seq 300); do grep -qse "$2" "$1" && return 0; sleep 0.1; done
    return 1
}

wait_for_line() { # file: until it holds a line
    for _ in $(seq 300); do
        [[ -s $1 ]] && return 0
        sleep 0.1
    done
    return 1
}

sampler=$PWD/service/host/sampler/sonde-sampler
sampler_of() { # the sampler's pids, as far as there are any
    local child
    for child in $(pgrep -P "$1" -f "^$sampler"); do echo "$child" && sampler_of "$child"; done
}
has_given_up() { # pid: no thread has CAP_NET_ADMIN, _NET_RAW, _SYS_MODULE, _RAWIO, _ADMIN, _BOOT, CAP_SYSLOG, _PERFMON or _BPF
    local set
    for set in $(sed -n 's/^Cap\(Prm\|Eff\|Bnd\):\t//p' "/proc/$1/task/"*/status); do
        ((0x$set & 0xc400633000)) && return 1
    done
    return 0
}
has_little() { # pid: nothing but what the sampler's header names; CAP_SYS_ADMIN is permitted for an opener, but not in effect
    local set
    for set in $(sed -n 's/^Cap\(Eff\|Bnd\|Amb\|Inh\):\t//p' "/proc/$1/status"); do
        ((0x$set & ~0x1c400080004)) && return 1
    done
    ((0x$(sed -n 's/^CapPrm:\t//p' "/proc/$1/status") & ~0x1c400280004)) && return 1
    return 0
}

settings=(--sampler "$sampler" --socket "$dir/run/guest.sock" --data-dir "$dir/data")
"$sonded" "${settings[@]}" --grpc 127.0.0.1:0 --grpc "unix:$dir/grpc.sock" >"$dir/out" 2>"$dir/err" &
first=$!
pids+=("$first")
check "starts and says where it serves" wait_for_line "$dir/out"
check "prints every address" wait_for_text "$dir/out" "^grpc: unix:$dir/grpc.sock$"
check "prints the port it got" wait_for_text "$dir/out" '^grpc: 127\.0\.0\.1:[1-9][0-9]*$'
check "makes its directory for itself alone" test "$(stat -c %a "$dir/run")" = 700

timeout 60 "$sonded" "${settings[@]}" --grpc "unix:$dir/other.sock" >"$dir/out2" 2>"$dir/err2"
check "a second one is refused by exit code" test $? -ne 0
check "and in words" grep -q "another sonded serves $dir/run/guest.sock" "$dir/err2"

samplers=$(sampler_of "$first")
if [[ $samplers ]]; then
    check "has given up what its sampler holds" has_given_up "$first"
    for pid in $samplers; do check "its sampler holds little" has_little "$pid"; done
    kill -KILL $(tail -1 <<<"$samplers")
else
    echo "SKIP: sonded_test: no capabilities"
fi

kill -PIPE "$first"
sleep 0.2
check "SIGPIPE is nothing" kill -0 "$first"
kill -TERM "$first"
wait "$first"
check "SIGTERM ends it cleanly" test $? -eq 0
check "and its sockets are gone" test ! -e "$dir/run/guest.sock" -a ! -e "$dir/grpc.sock"
for pid in $samplers; do check "its sampler ends with it" test ! -e "/proc/$pid"; done
check "it complains of nothing" test ! -s "$dir/err"

"$sonded" "${settings[@]}" --grpc "unix:$dir/grpc.sock" >"$dir/out3" 2>"$dir/err3" &
second=$!
pids+=("$second")
check "starts again in the same place" wait_for_line "$dir/out3"
samplers=$(sampler_of "$second")
kill -KILL "$second"
wait "$second" 2>/dev/null
for pid in $samplers; do check "the sampler of a killed one ends" timeout 30 tail --pid="$pid" -f /dev/null; done
"$sonded" "${settings[@]}" --grpc "unix:$dir/grpc.sock" >"$dir/out4" 2>"$dir/err4" &
third=$!
pids+=("$third")
check "and again after it was killed" wait_for_line "$dir/out4"
kill -INT "$third"
wait "$third"
check "SIGINT ends it cleanly too" test $? -eq 0

# As a service manager starts it: without a terminal, with a socket for messages, and settings that change.
cat >"$dir/listen.py" <<'PYTHON'
import socket, sys
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(sys.argv[1])
while True:
    print(manager.recv(4096).decode().splitlines()[0], flush=True)
PYTHON
/usr/bin/python3 "$dir/listen.py" "$dir/notify" >"$dir/messages" &
pids+=($!)
for _ in $(seq 100); do [[ -S $dir/notify ]] && break; sleep 0.1; done
group=$(id -gn)
printf 'workers = 2\n[sonded]\ngrpc_group = "%s"\n' "$group" >"$dir/sonde.conf"
NOTIFY_SOCKET=$dir/notify SONDE_CONFIG=$dir/sonde.conf setsid "$sonded" "${settings[@]}" --grpc "unix:$dir/grpc.sock" \
    >"$dir/out7" 2>"$dir/err7" &
fifth=$!
pids+=("$fifth")
check "tells the service manager that it serves" wait_for_text "$dir/messages" '^READY=1'
check "opens its socket to the group" test "$(stat -c '%a %G' "$dir/grpc.sock")" = "660 $group"
printf 'workers = 3\nverbose = yes\n[sonded]\ngrpc_group = "%s"\n' "$group" >"$dir/sonde.conf"
kill -HUP "$fifth"
check "SIGHUP without a terminal reloads" wait_for_text "$dir/err7" 'sonded: reload: done'
check "tells so" wait_for_text "$dir/messages" '^RELOADING=1'
check "names the setting that needs a restart" grep -q 'the setting workers has changed; restart sonded' "$dir/err7"
check "and not the one that does not" test "$(grep -c 'has changed' "$dir/err7")" = 1
echo 'workers = x' >"$dir/sonde.conf"
kill -HUP "$fifth"
check "a mistake in the settings leaves them" wait_for_text "$dir/err7" "the settings stay as they were: .*sonde.conf:1: "
check "and the service" kill -0 "$fifth"
kill -TERM "$fifth"
wait "$fifth"
check "SIGTERM still ends it" test $? -eq 0
check "and it tells that it stops" wait_for_text "$dir/messages" '^STOPPING=1'
timeout 60 "$sonded" "${settings[@]}" --grpc "unix:$dir/grpc.sock" --grpc-group no-such-group >/dev/null 2>"$dir/err8"
check "an unknown group is a usage error" test $? -eq 2
check "which names it" grep -q 'there is no group "no-such-group"' "$dir/err8"

# Without --grpc; the runtime directory is one where nothing may appear. Captures are those of this shell.
mkdir -m 700 "$dir/runtime"
(exit 0) & ended=$!
wait "$ended"
mkdir "$dir/data/captures-of-$ended" "$dir/data/captures-of-1" "$dir/data/captures-of-x"
touch "$dir/data/captures-of-$ended/7.capture"
XDG_RUNTIME_DIR=$dir/runtime "$sonded" --sampler "" --socket "$dir/run/guest.sock" --data-dir "$dir/data" --private \
    >"$dir/out6" 2>"$dir/err6" &
fourth=$!
pids+=("$fourth")
check "a private one starts" wait_for_line "$dir/out6"
check "serves beside the guests' socket" grep -qx "grpc: unix:$dir/run/grpc.sock" "$dir/out6"
check "and leaves other places alone" test -z "$(ls -A "$dir/runtime")"
check "keeps its captures apart" test -d "$dir/data/captures-of-$$"
check "removes those of ended processes" test ! -e "$dir/data/captures-of-$ended"
check "and no others" test -d "$dir/data/captures-of-1" -a -d "$dir/data/captures-of-x"
touch "$dir/data/captures-of-$$/8.capture"
kill -TERM "$fourth"
wait "$fourth"
check "and removes its own at its end" test ! -e "$dir/data/captures-of-$$"

"$sonded" --workers 0 >/dev/null 2>"$dir/err5"
check "a wrong number is a usage error" test $? -eq 2
check "which names the setting" grep -q workers "$dir/err5"
"$sonded" --help >"$dir/help"
check "--help shows the sockets" grep -q -- --socket "$dir/help"
exit $failed
