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


FRAME, BYTES, CPU, ALLOCS, FINISH, HEAP, DUMP, SAVED, WAIT = range(9)  # of guest_steps_fuzz.c
NONE, SEALED, UNSEALED, HOLES, FILE, DEVICE, FIFO, RINGS, TABLE = range(9)


def step(action, kind=NONE, body=b""):
    return bytes([action, kind, len(body)]) + body


def message(field, body, kind=NONE):
    return step(FRAME, kind, text(field, body))


def step_inputs():
    hello = message(1, number(1, 1) + text(3, b"redis") + text(4, bytes(range(16))))
    mapping = number(1, 0x1000) + number(2, 0x2000) + number(6, 7) + text(7, b"/bin/true")
    maps = message(3, number(1, 1) + number(2, 1) + text(3, mapping))
    running = message(4, number(2, 1) + text(3, b"timer") + number(6, 4))
    stopped = message(4, number(6, 4))
    account = message(5, number(1, 10**9) + number(2, 10**6) + number(3, 4))
    rings = message(2, number(1, 1) + number(2, 65536), RINGS)
    jemalloc = text(4, b"mallctl") + number(5, 1) + number(6, 1)
    sampler = text(4, b"mallctl") + number(6, 1) + number(14, 1) + number(15, 1) + number(19, 1) + number(20, 1)
    dump = jemalloc + number(12, 64) + number(13, 1)
    on, gdump = step(HEAP, body=b"\x01"), step(HEAP, body=b"\x04")
    ring = text(2, number(1, 1) + number(2, 65536) + text(15, sample([5, 4, 3])))
    yield "capture", hello + step(CPU) + rings + maps + running + account + step(FINISH) + stopped
    yield "wall", hello + step(CPU, 1) + step(FRAME, RINGS, ring) + maps + running + step(CPU, 2) + running
    for name, kind in (("dump", SEALED), ("unsealed", UNSEALED), ("holes", HOLES), ("file", FILE), ("device", DEVICE),
                       ("fifo", FIFO)):
        yield name, hello + on + message(6, jemalloc) + step(DUMP) + message(6, dump, kind)
    yield "gdump", (hello + gdump + message(6, jemalloc + number(8, 1)) + message(7, number(1, 64), SEALED) +
                    message(7, number(2, 3), FILE) + step(WAIT) + step(SAVED))
    yield "table", hello + on + message(6, sampler, TABLE) + step(DUMP) + message(6, sampler, TABLE) + step(DUMP)
    yield "allocs", hello + step(ALLOCS) + message(6, sampler, TABLE) + message(6, sampler) + step(FINISH)
    yield "bytes", hello + step(BYTES, SEALED, b"\1\0\0\0") + step(BYTES, FIFO, b"\0\0\0\0")


for prefix, inputs in (("guest", guest_inputs), ("ring", ring_inputs), ("steps", step_inputs)):
    for name, content in inputs():
        with open(os.path.join(sys.argv[1], "%s-%s" % (prefix, name)), "wb") as out:
            out.write(content)
