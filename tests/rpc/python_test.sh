#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Debian's python3 has the grpc module; another one may come first on somebody's PATH.
set -eu
if ! /usr/bin/python3 -c "import grpc, google.protobuf" 2>/dev/null; then
    echo "SKIP: python_test: no python3-grpcio"
    exit 0
fi
exec /usr/bin/python3 "$1" "${@:2}"
