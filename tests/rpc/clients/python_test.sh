#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Only Debian's python3 has the grpc module, and another python3 may come first in PATH.
set -eu
if ! /usr/bin/python3 -c "import grpc, google.protobuf" 2>/dev/null; then
    echo "SKIP: python_test: no python3-grpcio"
    exit 0
fi
exec /usr/bin/python3 "$1" "${@:2}"
