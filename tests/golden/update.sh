#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Regenerates the golden files from the source tree. Review the differences before you commit them.
set -euo pipefail
cd "$(dirname "$0")/../.."
bazel build //tests/unit/draw:draw_fixture
tests/golden/draw_all.sh "$(bazel info bazel-bin)/tests/unit/draw/draw_fixture" tests/golden
git diff --stat -- tests/golden
