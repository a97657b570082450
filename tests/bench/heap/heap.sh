#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Measures what heap sampling costs, all parts in one run: bazel run //tests/bench/heap
set -uo pipefail
cd "$(dirname "$0")/../../.." 2>/dev/null || true
part=tests/bench/heap
echo "$(uname -r), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
MALLOC_CONF=prof:true,prof_active:false,lg_prof_sample:19 "$part/jemalloc_part"
"$part/glibc_part"
"$part/hooks_part"
"$part/snapshot_part" | grep -v -e '^ok' -e passed
"$part/stall_part"
