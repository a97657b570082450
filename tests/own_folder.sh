#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a test with a temporary folder of its own (.bazelrc: --run_under), to which the test and the programs it starts write by
# default. It is removed afterwards. Its path is short enough for unix sockets, and other users can open files below it.
folder=$(mktemp -d /tmp/t.XXXXXX) || exit 1
chmod 711 "$folder"
mkdir -m 700 "$folder/home" "$folder/run"
# Most tests with a guest are about the guest, so sonded keeps to it; the others set SONDE_SOURCE=auto.
export SONDE_SOURCE=guest
export TMPDIR=$folder HOME=$folder/home XDG_RUNTIME_DIR=$folder/run SONDE_DATA_DIR=$folder/data
# rustup's rustc finds its compiler below the user's own home.
home=$(getent passwd "$(id -u)" | cut -d: -f6)
if [ -x "$home/.cargo/bin/rustc" ]; then
    export RUSTUP_HOME=${RUSTUP_HOME:-$home/.rustup} CARGO_HOME=${CARGO_HOME:-$home/.cargo} PATH=$PATH:$home/.cargo/bin
fi
unset XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME
# bazel/test_arm64.sh runs programs of another machine.
${SONDE_EMULATOR:-} "$@"
status=$?
rm -rf "$folder"
exit $status
