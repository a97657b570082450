#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# families_test under the allocators that Debian has.
set -uo pipefail
failures=0
for library in "" libjemalloc.so.2 libtcmalloc_minimal.so.4 libmimalloc.so.2.0; do
    path=${library:+/usr/lib/x86_64-linux-gnu/$library}
    if [ -n "$path" ] && [ ! -e "$path" ]; then
        echo "missing: $path"
        failures=$((failures + 1))
        continue
    fi
    echo "== ${library:-glibc}"
    LD_PRELOAD=$path tests/unit/guest/heap/families || failures=$((failures + 1))
done
[ "$failures" -eq 0 ]
