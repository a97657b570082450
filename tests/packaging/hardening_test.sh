#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What is shipped is compiled with -fcf-protection=full and _FORTIFY_SOURCE: each function that can be called through a pointer
# begins with endbr64, and calls of libc that write to a buffer of a known size are checked.
#
# The programs do not have the note that says so (IBT, SHSTK): the linker clears it because Debian's crt1.o and crti.o lack it.
set -uo pipefail
export LC_ALL=C
failures=0
[ "$(uname -m)" = x86_64 ] || { echo "skipped: not x86-64"; exit 0; }

check() { # check WHAT FOUND: FOUND is empty if all is well
    if [ -z "$2" ]; then
        echo "ok      $1"
    else
        echo "FAILED  $1"
        echo "$2"
        failures=$((failures + 1))
    fi
}

# The functions among the names whose code begins with something else than endbr64 (f3 0f 1e fa).
unmarked() { # unmarked FILE NAME...
    local file=$1 name
    shift
    for name; do
        grep -A1 "<$name>:" <<<"$(objdump -d --disassemble="$name" "$file")" | grep -q endbr64 || echo "$name"
    done
}

for program in service/sonded service/sonde-history service/host/sampler/sonde-sampler gateway/sonde-gateway clients/cli/sonde \
    clients/collect/sonde-collect; do
    check "$program: main begins with endbr64" "$(unmarked $program main)"
    names=$(nm -D --undefined-only $program)
    checked=$(grep -c '__[a-z_]*_chk@' <<<"$names")
    check "$program: calls of libc are checked" "$([ "$checked" -gt 2 ] || echo "$checked functions")"
    check "$program: stacks are protected" "$(grep -q __stack_chk_fail <<<"$names" || echo 'no')"
done
guest=service/guest/libsonde.so
exported=$(nm -D --defined-only $guest | awk '$2 ~ /[TW]/ { sub(/@.*/, "", $3); print $3 }')
check "$guest exports functions" "$([ -n "$exported" ] || echo none)"
check "$guest: each of them begins with endbr64" "$(unmarked $guest $exported)"
# tests/lint/guest_libc_test.sh checks that its checked calls exist in an old glibc.

[ "$failures" = 0 ]
