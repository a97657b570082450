#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs stress_test for a minute per rate (or STRESS_SECONDS). For comparison it then runs the same program for ten seconds
# under gperftools' libprofiler, with a time limit; it reports whether that hangs, and does not fail.
set -uo pipefail
export STRESS_SECONDS="${STRESS_SECONDS:-60}"
tests/stress/stress_test || exit 1

profiler=$(PATH="$PATH:/usr/sbin:/sbin" ldconfig -p | awk '/libprofiler\.so/ {print $NF; exit}')
if [ -z "$profiler" ]; then
    echo "gperftools is not installed: no comparison"
    exit 0
fi
for rate in 99 4000; do
    echo "gperftools at $rate Hz:"
    printf '\n' | SONDE_DISABLE=1 CPUPROFILE_FREQUENCY=$rate HOSTILE_PROFILE=/dev/null LD_PRELOAD="$profiler" \
        timeout -s KILL 20 tests/stress/hostile 10 tests/stress/libhostile.so
    echo "ended with status $? (137: hung, killed after 20 s)"
done
