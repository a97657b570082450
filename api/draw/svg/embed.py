# SPDX-License-Identifier: Apache-2.0
"""Converts files to C: for each NAME=FILE the bytes as `const char draw_NAME[]`, their length, and the CSP source expression
'sha256-...' of these bytes."""

import base64
import hashlib
import sys


def embed(name, data):
    hashed = base64.b64encode(hashlib.sha256(data).digest()).decode()
    rows = [data[at:at + 20] for at in range(0, len(data), 20)]
    numbers = ",\n    ".join(", ".join(str(byte) for byte in row) for row in rows)
    return (f"const char draw_{name}[] = {{\n    {numbers}, 0}};\n"
            f"const size_t draw_{name}_len = {len(data)};\n"
            f"const char draw_{name}_hash[] = \"'sha256-{hashed}'\";\n")


def main():
    parts = ['#include "api/draw/svg/embedded.h"\n']
    for argument in sys.argv[1:]:
        name, path = argument.split("=", 1)
        with open(path, "rb") as file:
            data = file.read()
        if b"]]>" in data or b"\r" in data:
            sys.exit(f"{path}: contains text that would end or change an XML CDATA section")
        parts.append(embed(name, data))
    print("\n".join(parts), end="")


main()
