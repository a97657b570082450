#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# in_bare.sh ROOT PREFIX: uses the programs of the archive, unpacked at PREFIX in the user land ROOT, which has nothing else
# installed. tarball_test.sh starts it in namespaces of its own (mounts, processes, network).
set -uo pipefail
root=$1 prefix=$2 failed=0 port=20180
check() { # sentence, command...
    local sentence=$1
    shift
    if "$@"; then echo "ok        $sentence"; else echo "FAILED    $sentence"; failed=1; fi
}
ip link set lo up
mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount -t sysfs sysfs "$root/sys" &&
    mount -t tmpfs tmpfs "$root/run" && mount -t tmpfs tmpfs "$root/tmp" || exit 1
become() { exec chroot "$root" env -i "PATH=$prefix/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root "$@"; }
inside() { (become "$@"); }

starts() { inside "$1" --version >"$root/tmp/said" 2>&1 || { cat "$root/tmp/said"; false; }; }
for program in sonde sonded sonde-history sonde-gateway sonde-collect; do
    check "$program starts" starts "$program"
done

# ld.so ignores $ORIGIN for a file with capabilities. The sampler says what it is for, and so has found its libraries.
sampler_has_capabilities() {
    setcap cap_perfmon,cap_bpf+ep "$root$prefix/bin/sonde-sampler" || return
    chroot --userspec=65534:65534 "$root" "$prefix/bin/sonde-sampler" >"$root/tmp/said" 2>&1
    setcap -r "$root$prefix/bin/sonde-sampler"
    grep -q 'capabilities\|sonded starts this program' "$root/tmp/said" || { cat "$root/tmp/said"; false; }
}
check "sonde-sampler starts with file capabilities" sampler_has_capabilities

# libcurl is loaded when it is needed.
finds_libcurl() {
    inside timeout 3 sonded --socket /tmp/curl.sock --grpc unix:/tmp/curl-grpc.sock --data-dir /tmp/curl \
        --otlp https://127.0.0.1:9 >"$root/tmp/said" 2>&1
    [ $? = 124 ] || { cat "$root/tmp/said"; false; }
}
check "sonded finds libcurl" finds_libcurl

become burner &
burner=$!
become sonde run --history --data-dir /tmp/data --http "127.0.0.1:$port" --name shown -- burner >"$root/tmp/run" 2>&1 &
run=$!
become sonde-history --store sqlite:/tmp/store --grpc unix:/tmp/history.sock >"$root/tmp/history" 2>&1 &
history=$!

has_burner() { grep -q 'burn_here' "$1" || { head -5 "$1"; false; }; }
records() { inside sonde record "$burner" -d 2 -o /tmp/out.collapsed 2>"$root/tmp/said" && has_burner "$root/tmp/out.collapsed"; }
check "sonde record shows a process from outside" records

# within SECONDS COMMAND...: the command succeeds, sooner or later.
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >"$root/tmp/last" 2>&1; do
        [ $SECONDS -lt $end ] || { cat "$root/tmp/last"; return 1; }
        sleep 0.5
    done
}
get() { curl -sS -f -m 20 -H 'Accept: text/html,*/*' -o "$root/tmp/got" "http://127.0.0.1:$port$1"; }
has_page() { get / && grep -qi '<!doctype html' "$root/tmp/got"; }
has_profile() { get "/t/shown/debug/pprof/profile?seconds=2&output=collapsed" && has_burner "$root/tmp/got"; }
check "the gateway sends the page" within 30 has_page
check "and a profile" within 30 has_profile
has_history() {
    inside sonde history shown --service "unix:$(inside bash -c 'ls /tmp/sonde-0/run-*/service.sock')" --from -5m \
        -o /tmp/history.collapsed && has_burner "$root/tmp/history.collapsed"
}
check "sonde history shows the past" within 60 has_history
check "sonde-history opens its store" within 30 test -S "$root/tmp/history.sock"
kill "$burner" "$run" "$history"
wait "$burner" "$run" "$history"
[ $failed = 0 ] || cat "$root/tmp/run" "$root/tmp/history"
exit $failed
