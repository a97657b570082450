#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SONDE_NODE_MODULES is the folder of the Node packages, which bazel/install_deps.sh --tests installs outside the tree.
set -eu
if ! command -v node >/dev/null || [ ! -d "${SONDE_NODE_MODULES:-/nowhere}/@grpc/grpc-js" ] ||
    [ ! -d "$SONDE_NODE_MODULES/@grpc/proto-loader" ]; then
    echo "SKIP: node_test: no node, or no @grpc packages in SONDE_NODE_MODULES"
    exit 0
fi
export NODE_PATH="$SONDE_NODE_MODULES"
exec node "$1" "${@:2}"
