# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus of this folder: one good input of every message and record kind."""
import os
import struct
import sys


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


def frame(field, body):
    message = text(field, body)
    return struct.pack("<I", len(message)) + message


def guest_inputs():
    hello = frame(1, number(1, 1) + text(3, b"redis") + text(4, bytes(range(16))))
    rings = frame(2, number(1, 1) + number(2, 65536))
    mapping = number(1, 0x1000) + number(2, 0x2000) + number(6, 7) + text(7, b"/bin/true")
    maps = frame(3, number(1, 1) + number(2, 1) + text(3, mapping) + text(3, number(1, 9)))
    running = frame(4, number(1, 1) + number(2, 1) + text(3, b"timer") + number(6, 4))
    refused = frame(4, number(1, 1) + number(7, 13) + text(4, b"seccomp"))
    account = frame(5, number(1, 10**9) + number(2, 10**6) + number(3, 4))
    yield "hello", b"\x00" + hello
    yield "maps", b"\x03" + maps
    yield "capture", b"\x07" + rings + maps + running + account
    yield "refused", b"\x03" + refused
    yield "stream", b"\x00" + hello + maps + account + maps


def record(kind, depth, tid, body):
    size = 16 + len(body)
    return struct.pack("<IHHII", size, kind, depth, tid, 1) + body


def sample(pcs, end=0, gap=0):
    body = struct.pack("<QQQIBBH", 1, 10**7, 0, 0, end, 0, gap)
    return record(2, len(pcs), 7, body + struct.pack("<%dQ" % len(pcs), *pcs))


def ring_inputs():
    thread = record(3, 0, 7, b"worker".ljust(16, b"\0") + struct.pack("<II", 3, 4) + b"text".ljust(64, b"\0"))
    unseen = record(4, 0, 7, struct.pack("<QII", 10**9, 1, 0))
    pad = struct.pack("<IHHII", 16, 1, 0, 0, 0)
    for name, records in (
        ("sample", sample([5, 4, 3])),
        ("deep", sample(list(range(1, 128)), end=1, gap=64)),
        ("all", thread + sample([1]) + pad + unseen + sample([9, 8], end=2)),
    ):
        yield name, struct.pack("<QQ", len(records), 0) + records
    yield "wrap", struct.pack("<QQ", 65536 + 64, 65536 - 16) + pad + sample([1])


for prefix, inputs in (("guest", guest_inputs), ("ring", ring_inputs)):
    for name, content in inputs():
        with open(os.path.join(sys.argv[1], "%s-%s" % (prefix, name)), "wb") as out:
            out.write(content)
