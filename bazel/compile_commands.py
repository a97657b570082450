#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes compile_commands.json for clangd and clang-tidy: compile_commands.py [TARGETS], by default //... It builds nothing, so
run `bazel build` first: generated headers must be there."""

import json
import os
import re
import subprocess
import sys

# What clang does not know of gcc's options.
UNKNOWN = {"-fno-canonical-system-headers"}


def bazel(*arguments):
    return subprocess.run(["bazel", *arguments], capture_output=True, text=True, check=True).stdout


def commands(targets):
    execution_root = bazel("info", "execution_root").strip()
    query = f'mnemonic("CppCompile", {targets})'
    for action in json.loads(bazel("aquery", "--output=jsonproto", query))["actions"]:
        arguments = [word for word in action["arguments"] if word not in UNKNOWN]
        file = arguments[arguments.index("-c") + 1]
        outside = re.compile(r"^(-I|-iquote|-isystem)?(bazel-out|external)/")
        arguments = [outside.sub(rf"\g<1>{execution_root}/\g<2>/", word) for word in arguments]
        if not file.startswith(("bazel-out/", "external/")):
            yield {"directory": os.getcwd(), "file": file, "arguments": arguments}


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    found = list({one["file"]: one for one in commands(sys.argv[1] if len(sys.argv) > 1 else "//...")}.values())
    with open("compile_commands.json", "w", encoding="utf-8") as target:
        json.dump(found, target, indent=1)
    print(f"compile_commands.json: {len(found)} files")


main()
