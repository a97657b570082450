#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compares libsonde.so with the written lists: EXPORTS (the names it exports), libc alone (the libraries it needs) and
# ALLOWED (the libc names that signal-safe code uses).
set -uo pipefail
export LC_ALL=C
library=service/guest/libsonde.so
failures=0

same() { # same WHAT EXPECTED ACTUAL
    if [ "$2" = "$3" ]; then
        echo "ok      $1"
        return
    fi
    echo "FAILED  $1"
    diff <(echo "$2") <(echo "$3")
    failures=$((failures + 1))
}

exported=$(nm -D --defined-only "$library" | awk '$2 ~ /[TWVDBRi]/ {print $3}' | sed 's/@.*//' | sort)
same "the exported names are those on EXPORTS" "$(sort service/guest/EXPORTS)" "$exported"

versions=$(sed -n 's/^ *\([a-z_]*\);$/\1/p' service/guest/versions.lds | sort)
same "the version script lists EXPORTS" "$(sort service/guest/EXPORTS)" "$versions"

needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
same "it needs no library but libc" "libc.so.6" "$needed"

flags=$(readelf -d "$library" | grep -c -E 'NODELETE|BIND_NOW|STATIC_TLS')
same "it is never unloaded, is bound at load time, and has static thread-local storage" "2" "$flags"

lazy=$(readelf -r --wide "$library" | grep -c -E 'TLSDESC|DTPMOD')
same "no thread-local is allocated lazily" "0" "$lazy"

probes=$(readelf -n --wide "$library" | awk '/Provider:/ {p = $NF} /Name:/ {n = $2} /Arguments:/ {print p ":" n, NF - 1}' | sort -u)
same "tracers find the allocation sampler's probes" "$(printf 'otel_memory:alloc 3\notel_memory:free 1')" "$probes"

dlopen=$(nm -D "$library" | grep -c -w dlopen)
same "dlopen is neither replaced nor called" "0" "$dlopen"

# All names that some object of the signal-safe code uses and none of them defines.
archives=$(find -L service/guest/signal -name 'lib*.a' | sort)
foreign=$(comm -23 <(nm -u $archives | awk '$1 == "U" || $1 == "w" {print $2}' | sort -u) \
    <(nm --defined-only $archives | awk 'NF == 3 {print $3}' | sort -u) |
    grep -v -x -e _GLOBAL_OFFSET_TABLE_ -e '__st[a-z]*_walk_faults')
same "signal-safe code uses only the names on ALLOWED" "$(sort service/guest/signal/ALLOWED)" "$foreign"

[ "$failures" -eq 0 ]
