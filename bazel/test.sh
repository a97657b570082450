#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing and runs the tests: all of them, or the Bazel targets and flags given.
#     bazel/test.sh                          everything but the long tests
#     bazel/test.sh --config=asan //api/...  a part, under a sanitizer
# The last line is "N passed, N failed, N skipped"; the exit status is 0 only if nothing failed. On the reference image
# (Debian 12, as root) a skip is a failure unless tests/skips.txt lists it; SONDE_REFERENCE_IMAGE=0 allows every skip.
set -uo pipefail
cd "$(dirname "$0")/.."

bazel/install_deps.sh --tests || { echo "could not install the packages above"; exit 1; }
export SONDE_NODE_MODULES="${SONDE_NODE_MODULES:-${XDG_CACHE_HOME:-$HOME/.cache}/sonde/node/node_modules}"

events=$(mktemp) begin=$(mktemp)
trap 'rm -f "$events" "$begin"' EXIT
[ $# -gt 0 ] || set -- //...
# Tests that count samples or depend on timing can fail on a busy machine. They get a second run, which count_tests.py
# reports.
statistical='//tests/(unit/(clients|collect|guest|engine|gateway|heap|host|recording|rpc|store|symbol|unwind)|stress|e2e|fleet|peers|cli|rest|rpc|ui)[:/].*@2'
# Compilers would take the processors from tests that run beside them, so everything is built first. Then more tests are started
# than there are processors, because many wait most of the time (tests/load.bzl).
common=(--keep_going --noshow_progress --test_tag_filters=-manual --run_under=//tests:own_folder)
bazel build "${common[@]}" --ui_event_filters=-info "$@"
bazel test "${common[@]}" --jobs='HOST_CPUS*4' --flaky_test_attempts="$statistical" --build_event_json_file="$events" "$@"
status=$?
if [ -z "${SONDE_REFERENCE_IMAGE:-}" ]; then
    [ "$(id -u)" = 0 ] && [ "$(. /etc/os-release && echo "$ID$VERSION_ID")" = debian12 ]
    export SONDE_REFERENCE_IMAGE=$((! $?))
fi
# Each test has a folder of its own (tests/own_folder.sh). New files where an installed Sonde keeps its data mean that a
# test wrote outside of it.
mapfile -t strays < <(find /var/lib/sonde /run/sonde "/run/user/$(id -u)/sonde" "/tmp/sonde-$(id -u)" "$HOME/.cache/sonde" \
    -path '*/node' -prune -o -newer "$begin" -print 2>/dev/null)
python3 bazel/count_tests.py "$events" "$status" "${strays[@]}"
