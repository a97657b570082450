#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds for 64-bit Arm and runs the unit tests that need no ptrace, perf and BPF under qemu-user, on x86-64 with Debian 12.
#     bazel/test_arm64.sh                     those listed here
#     bazel/test_arm64.sh //tests/unit/draw:all
# The build has an output base of its own, so that the one for this machine is kept.
set -euo pipefail
cd "$(dirname "$0")/.."

bazel/install_deps.sh --arm64
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sonde
libraries=$cache/packages-aarch64/usr/lib/aarch64-linux-gnu:$cache/packages-aarch64/lib/aarch64-linux-gnu
emulator="qemu-aarch64-static -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=$libraries"

# Left out: tests with rules or instructions of x86-64, with programs that they compile for this machine, and all that start
# processes, since those would not be emulated.
[ $# -gt 0 ] || set -- \
    //tests/unit/elf/machine:arm64_walk_test
bazel --output_base="${SONDE_ARM64_BASE:-$cache/bazel-aarch64}" test --config=arm64 --test_env="SONDE_EMULATOR=$emulator" --keep_going "$@"
