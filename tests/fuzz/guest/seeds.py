# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of control_fuzz: seeds.py FOLDER. One conversation for each part of the guest."""
import os
import struct
import sys

NONE, GOOD, WRONG, UNSEALED, FILE, DEVICE, FIFO = range(7)
STATUS, ACTIVATE, DEACTIVATE, RESET, GDUMP_ON, GDUMP_OFF, DUMP, ALLOCS = range(8)
INTERPOSED = 2
ANSWERED = 0x80


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


def message(field, body=b"", kind=NONE):
    frame = text(field, body)
    return bytes([kind | ANSWERED * (field == 3), len(frame)]) + frame


def config(sequence, period_ns, clock=0, wall_ns=0):
    return message(3, number(1, sequence) + number(2, period_ns) + number(3, clock) + number(5, wall_ns))


def table(start, kind):
    return message(4, number(1, 0) + number(2, start), kind)


def heap(sequence, verb, more=b""):
    return message(6, number(1, sequence) + number(2, verb) + number(7, 1) + more)


def inputs():
    welcome, done = message(1, number(1, 1)), message(5, number(1, 0))
    yield "capture", welcome + config(1, 10**6) + table(0, GOOD) + table(1, GOOD) + done + config(2, 10**7) + config(3, 0)
    yield "wall", (welcome + config(1, 10**7, 2, 10**6) + table(0, GOOD) + table(1, GOOD) + table(2, GOOD) + done +
                   config(2, 10**7, 2, 10**6) + config(3, 0))
    yield "clocks", config(1, 10**6, 1) + done + config(2, 10**6, 2) + config(3, 10**6, 3) + config(4, 0)
    for name, kind in (("wrong", WRONG), ("unsealed", UNSEALED), ("file", FILE), ("device", DEVICE), ("fifo", FIFO)):
        yield name, config(1, 10**7) + table(0, kind) + table(0, GOOD) + done + config(2, 0)
    yield "refused", message(2, text(1, b"another user"))
    yield "heap", heap(1, STATUS) + heap(2, ACTIVATE, number(4, 16)) + heap(3, RESET, number(4, 17)) + heap(4, DEACTIVATE)
    yield "sampler", (heap(1, ACTIVATE, number(6, INTERPOSED)) + done + heap(2, DUMP) + heap(3, RESET) +
                      heap(4, DEACTIVATE, number(6, INTERPOSED)))
    yield "gdump", heap(1, GDUMP_ON) + heap(2, GDUMP_OFF)
    yield "allocs", (heap(1, ALLOCS, number(8, 4096)) + done + heap(2, ALLOCS, varint(9 << 3 | 1) + struct.pack("<d", 0.5)) +
                     heap(3, ALLOCS))


for title, content in inputs():
    with open(os.path.join(sys.argv[1], "control-" + title), "wb") as out:
        out.write(content)
