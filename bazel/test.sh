#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing and runs the tests: all of them, or the Bazel targets and flags given.
#     bazel/test.sh                          everything but the long tests
#     bazel/test.sh --config=asan //api/...  a part, under a sanitizer
# Tests that fail run again, alone; the last lines name them, and the slowest ten. The very last line is "N passed, N failed,
# N skipped"; the exit status is 0 only if nothing failed. On the reference image (Debian 12, as root) a skip is a failure unless tests/skips.txt lists it; SONDE_REFERENCE_IMAGE=0 allows every skip.
set -uo pipefail
cd "$(dirname "$0")/.."

bazel/install_deps.sh --tests || { echo "could not install the packages above"; exit 1; }
export SONDE_KERNELS="${SONDE_KERNELS:-${XDG_CACHE_HOME:-$HOME/.cache}/sonde/kernels}"
export SONDE_NODE_MODULES="${SONDE_NODE_MODULES:-${XDG_CACHE_HOME:-$HOME/.cache}/sonde/node/node_modules}"

runs=$(mktemp -d) begin=$(mktemp)
trap 'rm -rf "$runs" "$begin"' EXIT
[ $# -gt 0 ] || set -- //...
# Compilers would take the processors from tests that run beside them, so everything is built first. Then more tests are started
# than there are processors, because many wait most of the time (bazel/load.bzl).
common=(--keep_going --noshow_progress --test_tag_filters=-manual --run_under=//tests:own_folder)
bazel build "${common[@]}" --ui_event_filters=-info "$@"
bazel test "${common[@]}" --jobs='HOST_CPUS*4' --build_event_json_file="$runs/first" "$@"
status=$?

# A test that failed beside others may have met a busy machine. It runs again alone, up to twice, and counts as failed only if it
# fails alone, too. If many tests fail, it is not the machine.
flags=()
for argument in "$@"; do
    case "$argument" in //* | -//* | :* | @*) ;; *) flags+=("$argument") ;; esac
done
mapfile -t failed < <(python3 bazel/count_tests.py --failed "$runs/first")
reruns=()
if [ "${#failed[@]}" -gt 20 ]; then
    echo "${#failed[@]} tests failed, which is not chance; none of them runs again"
    failed=()
fi
for test in "${failed[@]}"; do
    for attempt in 1 2; do
        echo "running $test again, alone"
        events=$runs/${#reruns[@]}
        reruns+=("--rerun=$events")
        bazel test "${common[@]}" "${flags[@]}" --ui_event_filters=-info --nocache_test_results --build_event_json_file="$events" "$test" && break
    done
done
if [ -z "${SONDE_REFERENCE_IMAGE:-}" ]; then
    [ "$(id -u)" = 0 ] && [ "$(. /etc/os-release && echo "$ID$VERSION_ID")" = debian12 ]
    export SONDE_REFERENCE_IMAGE=$((! $?))
fi
# Each test has a folder of its own (tests/own_folder.sh). New files where an installed Sonde keeps its data mean that a
# test wrote outside of it.
mapfile -t strays < <(find /var/lib/sonde /run/sonde "/run/user/$(id -u)/sonde" "/tmp/sonde-$(id -u)" "$HOME/.cache/sonde" \
    \( -path '*/node' -o -path '*/kernels' \) -prune -o -newer "$begin" -print 2>/dev/null)
python3 bazel/count_tests.py "$runs/first" "$status" "${reruns[@]}" "${strays[@]/#/--stray=}"
