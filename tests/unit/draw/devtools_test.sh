#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
PYTHONPATH=tests/ui exec /usr/bin/python3 tests/unit/draw/devtools.py tests/unit/draw/draw_fixture
