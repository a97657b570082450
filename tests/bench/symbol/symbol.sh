#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the goals G1 to G9 for symbols, and llvm-symbolizer, addr2line and eu-addr2line with the same addresses:
#     bazel run //tests/bench/symbol -- [FILE [ADDRESSES]]
# FILE is a large program or library with DWARF; without one a C++ program is compiled.
set -euo pipefail
tests/bench/symbol/symbol_bench "$@"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$PWD"
/usr/bin/python3 tests/bench/symbol/service.py
