# SPDX-License-Identifier: Apache-2.0
"""Records of a jitdump, to begin with."""

import struct
import sys


def record(kind, body):
    return struct.pack("<IIQ", kind, 16 + len(body), 1) + body


def load(code, size, index, name):
    return record(0, struct.pack("<IIQQQQ", 1, 1, code, code, size, index) + name + b"\0" + bytes(size))


def debug(code, rows):
    body = struct.pack("<QQ", code, len(rows))
    for offset, line, name in rows:
        body += struct.pack("<QII", code + offset, line, 0) + name + b"\0"
    return record(2, body)


OUT = debug(0x10000, [(0, 1, b"/a.js"), (8, 2, b"\xff"), (16, 3, b"\x01\x02")]) + load(0x10000, 24, 1, b"JS:*a /a.js:1:2")
OUT += record(1, struct.pack("<IIQQQQQ", 1, 1, 0x20000, 0x10000, 0x20000, 24, 1)) + load(0x10008, 8, 2, b"again")
sys.stdout.buffer.write(OUT + record(4, bytes(24)) + record(3, b""))
