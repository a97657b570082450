#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
top=$(dirname "$(readlink -f WORKSPACE)")
/usr/bin/python3 tests/lint/pages.py "$top"
/usr/bin/python3 tests/lint/page.py "$top"
/usr/bin/python3 tests/lint/prose.py "$top"
exec /usr/bin/python3 tests/lint/lint.py "$top"
