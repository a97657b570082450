#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SONDE_NODE_MODULES is the folder of the Node packages, which bazel/install_deps.sh --tests installs outside the tree.
set -eu
if ! command -v node >/dev/null || [ ! -d "${SONDE_NODE_MODULES:-/nowhere}/@modelcontextprotocol/sdk" ]; then
    echo "SKIP: mcp_sdk_test: no node, or no @modelcontextprotocol/sdk in SONDE_NODE_MODULES"
    exit 0
fi
export NODE_PATH="$SONDE_NODE_MODULES"
exec node "$@"
