#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
exec /usr/bin/python3 tests/unit/draw/viewers.py tests/unit/draw/draw_fixture
