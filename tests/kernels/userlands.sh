#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
#     tests/kernels/userlands.sh [PREFIX] [SUITE[=MIRROR]]...
#     tests/kernels/userlands.sh /usr xenial=http://archive.ubuntu.com/ubuntu
#
# Runs programs of other user lands (default: Debian 11 with glibc 2.31, Debian 13 with 2.41) with the guest of the Sonde that is
# installed in PREFIX (default /usr), and musl and static programs through `sonde run`. It prints a line of PASS, FAIL or SKIP a
# question, and exits with 1 if one failed. To be called by hand, as root: it needs the network for debootstrap, and four minutes.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:-/usr}
suites=("${@:2}")
[ "${#suites[@]}" -gt 0 ] || suites=(bullseye trixie)
sonde=$prefix/bin/sonde
failures=0
pids=()

[ "$(id -u)" = 0 ] || { echo "userlands.sh: run it as root: chroot and debootstrap need it" >&2; exit 2; }
[ -x "$sonde" ] || { echo "userlands.sh: no $sonde; install Sonde and name its prefix" >&2; exit 2; }
for tool in debootstrap gcc; do
    command -v "$tool" >/dev/null || { echo "userlands.sh: install $tool first" >&2; exit 2; }
done

work=$(mktemp -d)
clean_up() {
    [ "${#pids[@]}" = 0 ] || kill "${pids[@]}" 2>/dev/null
    wait
    awk -v top="$work/" 'index($2, top) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount -l
    rm -rf --one-file-system "$work"
}
trap clean_up EXIT

# report WHAT STATUS [DETAIL]: PASS if STATUS is 0
report() {
    if [ "$2" = 0 ]; then
        echo "PASS $1"
    else
        echo "FAIL $1${3:+: $(head -n 1 <<<"$3" | cut -c1-150)}"
        failures=$((failures + 1))
    fi
}

# has WHAT PATTERN FILE [LOG]: LOG says why there is no such file
has() {
    grep -q -s -E -- "$2" "$3"
    report "$1" $? "$(tail -q -n 1 "$3" ${4:+"$4"} 2>/dev/null)"
}

# wait_for COMMAND...: until it succeeds, at most 30 s
wait_for() {
    for _ in $(seq 300); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    return 1
}

ask() { # ask VERB...: of our sonded
    "$sonde" "$@" --service "unix:$work/grpc.sock"
}

is_attached() {
    grep -q -w -- "$1" <<<"$(ask targets 2>&1)"
}

stop() { # stop PID: a process of ours
    kill "$1" 2>/dev/null
    wait "$1" 2>/dev/null
}

guest_file() { # prints the path of the guest
    find "$prefix/lib" -name 'libsonde.so*' -type f -print -quit
}

make_userland() { # make_userland SUITE [MIRROR]: a bare Debian, or Ubuntu, with a compiler
    local root=$work/$1
    debootstrap --variant=minbase --include=gcc,libc6-dev "$1" "$root" ${2:+"$2"} >"$work/$1.log" 2>&1 || return 1
    cp "$(guest_file)" "$root/usr/lib/libsonde.so" || return 1
    cp "$here/userland.c" "$root/"
    mkdir "$root/shared"
    mount --bind "$work" "$root/shared"
    mount --bind /proc "$root/proc"
    chroot "$root" gcc -O1 -fomit-frame-pointer -o /one /userland.c &&
        chroot "$root" gcc -O1 -fomit-frame-pointer -DOPENED -o /opened /userland.c -ldl &&
        chroot "$root" gcc -O1 -fomit-frame-pointer -DMANY -o /many /userland.c -lpthread -ldl
}

# start SUITE PROGRAM [PRELOAD]: with the guest, in the background; its pid is in `started`
start() {
    chroot "$work/$1" env SONDE_NAME="$1-$2" SONDE_SOCKET=/shared/guest.sock LD_PRELOAD="${3-/usr/lib/libsonde.so}" "/$2" \
        >"$work/$1-$2.out" 2>&1 &
    started=$!
    pids+=("$started")
}

# check_target SUITE PROGRAM THREAD_START: everything that the guest can do in it
check_target() {
    local file=$work/$1-$2 target started
    start "$1" "$2"
    target=$started # by pid, because a child that it forks has its name
    wait_for is_attached "$1-$2"
    report "$1: $2 is attached" $? "$(cat "$file.out")"
    for source in guest host; do
        ask record "$target" --source "$source" -d 2 -F 499 -o "$file.$source.collapsed" >"$file.log" 2>&1
        has "$1: $2 has callers of its leaf, source $source" "$3;.*caller;leaf [0-9]{2}" "$file.$source.collapsed" "$file.log"
    done
    ask threads "$target" >"$file.threads" 2>&1
    has "$1: $2 has the stacks of its threads" '[0-9] main ' "$file.threads"
    ask heap allocs "$target" -d 2 -o "$file.allocs.collapsed" >"$file.log" 2>&1
    has "$1: $2 has an allocation profile" "$3" "$file.allocs.collapsed" "$file.log"
    ask heap on "$target" --sample 65536 --backend interposed >"$file.log" 2>&1 && sleep 1
    ask heap dump "$target" -o "$file.heap.collapsed" >>"$file.log" 2>&1
    has "$1: $2 has a heap profile" "$3" "$file.heap.collapsed" "$file.log"
    ask heap off "$target" >>"$file.log" 2>&1
    kill -0 "$started" 2>/dev/null && [ ! -s "$file.out" ]
    report "$1: $2 runs as without the guest" $? "$(cat "$file.out")"
    stop "$started"
}

# The guest as a library that a program opens when it likes.
check_opened() {
    local file=$work/$1-opened started
    start "$1" opened ""
    wait_for is_attached "$1-opened"
    report "$1: a program that opens libsonde.so is attached" $? "$(cat "$file.out")"
    ask record "$started" --source guest -d 2 -F 499 -o "$file.collapsed" >"$file.log" 2>&1
    has "$1: a program that opens libsonde.so has callers" 'main;.*caller;leaf [0-9]{2}' "$file.collapsed" "$file.log"
    stop "$started"
}

# A container may have nothing but the libraries that its program needs.
check_without_libraries() {
    local name kept=$work/kept started
    mkdir -p "$kept"
    for name in libpthread.so.0 libdl.so.2; do
        mv "$work/$1/lib/x86_64-linux-gnu/$name" "$kept/"
    done
    start "$1" one
    sleep 1
    kill -0 "$started" 2>/dev/null
    report "$1: a program starts where libpthread and libdl are missing" $? "$(cat "$work/$1-one.out")"
    stop "$started"
    mv "$kept"/* "$work/$1/lib/x86_64-linux-gnu/"
}

check_userland() { # check_userland SUITE [MIRROR]
    make_userland "$1" "${2-}" || { echo "SKIP $1: no user land: $(tail -n 1 "$work/$1.log")"; return; }
    chroot "$work/$1" env LD_PRELOAD=/usr/lib/libsonde.so ls / >"$work/$1.ls" 2>&1
    report "$1: a preloaded program starts" $? "$(cat "$work/$1.ls")"
    check_target "$1" one main
    check_target "$1" many work
    check_opened "$1"
    check_without_libraries "$1"
}

# check_run NAME PROGRAM SAYS: a program that cannot load the guest
check_run() {
    timeout 60 "$sonde" run --http 127.0.0.1:0 -- "$2" >"$work/$1.out" 2>"$work/$1.err"
    [ $? = 7 ]
    report "$1: sonde run runs it and exits with its status" $? "$(tail -n 1 "$work/$1.err")"
    has "$1: sonde run says what is missing" "$3" "$work/$1.err"
}

"$prefix/bin/sonded" --socket "$work/guest.sock" --grpc "unix:$work/grpc.sock" --data-dir "$work/data" >"$work/sonded.log" 2>&1 &
pids+=($!)
wait_for ask targets || { echo "FAIL sonded starts: $(tail -n 1 "$work/sonded.log")"; exit 1; }

for suite in "${suites[@]}"; do
    mirror=${suite#*=}
    [ "$mirror" != "$suite" ] || mirror=
    check_userland "${suite%%=*}" "$mirror"
done

echo 'int main(void) { return 7; }' >"$work/seven.c"
gcc -static -o "$work/static" "$work/seven.c" && check_run static "$work/static" 'no heap profiles and labels'
if command -v musl-gcc >/dev/null; then
    musl-gcc -o "$work/musl" "$work/seven.c" && check_run musl "$work/musl" 'no heap profiles and labels'
    LD_PRELOAD=$(guest_file) "$work/musl" 2>"$work/musl.err"
    [ $? = 7 ]
    report "musl: a program with the guest preloaded by hand starts" $? "$(cat "$work/musl.err")"
else
    echo "SKIP musl: install musl-tools"
fi

[ "$failures" = 0 ]
