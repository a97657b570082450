#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the programs and tests for 64-bit Arm, and runs those tests under qemu-user that need neither ptrace nor perf nor BPF, on x86-64
# with Debian 12.
#     bazel/test_arm64.sh                     the programs, and the tests listed here
#     bazel/test_arm64.sh //tests/unit/draw:all
# The build has an output base of its own, so that the one for this machine is kept.
set -euo pipefail
cd "$(dirname "$0")/.."

bazel/install_deps.sh --arm64
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sonde
libraries=$cache/packages-aarch64/usr/lib/aarch64-linux-gnu:$cache/packages-aarch64/lib/aarch64-linux-gnu
emulator="qemu-aarch64-static -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=$libraries"

# NEEDSWORK: the other tests that would run there. Those with rules or instructions of x86-64 do not, nor those that start processes, which
# would not be emulated. tests/unit/unwind/live_test builds, but its timers are too fast for qemu-user.
bazel=(bazel --output_base="${SONDE_ARM64_BASE:-$cache/bazel-aarch64}")
if [ $# -eq 0 ]; then
    "${bazel[@]}" build --config=arm64 //clients/cli:sonde //service:sonded //service/host/sampler:sonde-sampler //service/guest:libsonde.so
    set -- //tests/unit/elf/machine:arm64_walk_test //tests/fuzz/unwind:copy_aarch64_fuzz
fi
"${bazel[@]}" test --config=arm64 --test_env="SONDE_EMULATOR=$emulator" --keep_going "$@"
