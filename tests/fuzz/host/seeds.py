# SPDX-License-Identifier: Apache-2.0
"""Writes records of each kind as a perf ring holds them: seeds.py kernel|user > seed."""

import struct
import sys

IDENTITY = struct.pack("<IIQII", 7, 8, 12345, 3, 0)


def record(kind, misc, body):
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def text(value):
    return value.encode() + bytes(8 - len(value) % 8)


def sample(has_kernel):
    body = IDENTITY + struct.pack("<Q", 1000000)
    if has_kernel:
        body += struct.pack("<4Q", 3, 2**64 - 128, 0xffffffff81000010, 0xffffffff81000020)
    body += struct.pack("<18Q", 2, *range(0x1000, 0x1011))
    return record(9, 1 if has_kernel else 2, body + struct.pack("<Q", 64) + bytes(range(64)) + struct.pack("<Q", 40))


def side_band():
    mapping = struct.pack("<IIQQQIIQQII", 7, 8, 0x400000, 0x5000, 0x2000, 8, 1, 99, 1, 5, 2) + text("/usr/bin/server")
    task = struct.pack("<IIIIQ", 20, 7, 21, 8, 12345)
    return (record(10, 0, mapping + IDENTITY) + record(3, 0x2000, struct.pack("<II", 7, 8) + text("server") + IDENTITY) +
            record(7, 0, task + IDENTITY) + record(4, 0, task + IDENTITY) +
            record(2, 0, struct.pack("<QQ", 1, 42) + IDENTITY) + record(13, 0, struct.pack("<Q", 43) + IDENTITY) +
            record(5, 0, struct.pack("<QQQ", 1, 2, 3) + IDENTITY))


def main():
    has_kernel = sys.argv[1] == "kernel"
    options = struct.pack("<BHxxxxx", has_kernel, 1000)
    sys.stdout.buffer.write(options + sample(has_kernel) + side_band() + sample(has_kernel))


main()
