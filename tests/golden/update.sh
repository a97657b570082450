#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Writes the golden files anew, from the tree as it is. Look at the difference before you commit it.
set -euo pipefail
cd "$(dirname "$0")/../.."
bazel build //tests/unit/draw:draw_fixture
tests/golden/draw_all.sh "$(bazel info bazel-bin)/tests/unit/draw/draw_fixture" tests/golden
git diff --stat -- tests/golden
