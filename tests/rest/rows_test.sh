#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
exec /usr/bin/python3 -B "$(dirname "$0")/rows.py" "$@"
