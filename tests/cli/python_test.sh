#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a Python test of the tree: its path comes first, then a part of the names of the tests to run.
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$PWD"
exec /usr/bin/python3 "$@"
