#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Opens our files with Firefox Profiler's own reader, an npm package that bazel/install_deps.sh --tests installs.
set -eu
reader="${SONDE_NODE_MODULES:-/nowhere}/@firefox-devtools/profiler-cli/dist/profiler-cli.js"
if ! command -v node >/dev/null || [ ! -f "$reader" ]; then
    echo "SKIP: firefox_test: no node, or no @firefox-devtools/profiler-cli in SONDE_NODE_MODULES"
    exit 0
fi
exec python3 tests/unit/draw/firefox.py tests/unit/draw/draw_fixture "$reader"
