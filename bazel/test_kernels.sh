#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Boots Debian's kernels 5.10, 6.1 and 6.12 in an emulator, with many settings, and asks what works: for root and for another user.
#     bazel/test_kernels.sh              all machines; compares the answers with the table in docs/operations.md
#     bazel/test_kernels.sh --update     the same, and writes the table
#     bazel/test_kernels.sh NAME...      only some: bullseye, bookworm, trixie, or a name of tests/kernels/cells.py
#     bazel/test_kernels.sh userlands    programs of Debian 11 and 13 with the guest, and musl ones (needs the network)
# Takes 20 minutes. bazel/test.sh boots one of the machines.
set -euo pipefail
cd "$(dirname "$0")/.."
bazel/install_deps.sh --kernels
kernels=${SONDE_KERNELS:-${XDG_CACHE_HOME:-$HOME/.cache}/sonde/kernels}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bazel run --ui_event_filters=-info --noshow_progress //:install -- --prefix "$work/sonde" >/dev/null
if [ "${1:-}" = userlands ]; then
    tests/kernels/userlands.sh "$work/sonde" "${@:2}"
    exit
fi
bazel build --ui_event_filters=-info --noshow_progress //tests/kernels:spin
spin=$(bazel info bazel-bin 2>/dev/null)/tests/kernels/spin
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PWD python3 tests/kernels/matrix.py "$work/sonde" "$spin" "$kernels" "$@"
