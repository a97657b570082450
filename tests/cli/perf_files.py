# SPDX-License-Identifier: Apache-2.0
"""Writes perf.data files, good and bad ones: perf_files.py KIND > FILE. Times are in nanoseconds, pcs in a mapping of `program`."""

import platform
import struct
import sys

IP, TID, TIME, ADDR, CHAIN, ID, PERIOD, RAW, REGS, STACK, IDENTIFIER = (1 << bit for bit in (0, 1, 2, 3, 5, 6, 8, 10, 12, 13, 16))
KERNEL, USER = 2**64 - 128, 2**64 - 512
TEXT = 0x400000
CPU_CLOCK, PAGE_FAULTS = 0, 2
ONE_EVENT = IP | TID | TIME | PERIOD | CHAIN
COPIES = ONE_EVENT | REGS | STACK
SEVERAL = ONE_EVENT | IDENTIFIER


def record(kind, body, misc=0):
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def text(value):
    return value.encode() + bytes(8 - len(value) % 8)


def attr(config=CPU_CLOCK, sample_type=ONE_EVENT, kind=1):
    """A perf_event_attr with frequency and sample_id_all."""
    return struct.pack("<IIQQQQQ", kind, 128, config, 4000, sample_type, 0, 1 << 10 | 1 << 18) + bytes(32) + struct.pack(
        "<QIIQIHH", 0xff0fff, 8192, 0, 0, 0, 0, 0) + bytes(16)


def tail(time, pid=7, tid=7, sample_type=ONE_EVENT, identifier=0):
    return struct.pack("<IIQ", pid, tid, time) + (struct.pack("<Q", identifier) if sample_type & IDENTIFIER else b"")


def mmap(time, pid=7, path="/usr/bin/program", build_id=b"", start=TEXT, size=0x10000, sample_type=ONE_EVENT):
    where = struct.pack("<B3x", len(build_id)) + build_id.ljust(20, b"\0") if build_id else struct.pack("<IIQQ", 8, 1, 99, 1)
    body = struct.pack("<IIQQQ", pid, pid, start, size, 0) + where + struct.pack("<II", 5, 2) + text(path)
    return record(10, body + tail(time, pid, pid, sample_type), misc=2 | (0x4000 if build_id else 0))


def comm(time, name, pid=7, tid=None, is_exec=False, sample_type=ONE_EVENT):
    tid = pid if tid is None else tid
    return record(3, struct.pack("<II", pid, tid) + text(name) + tail(time, pid, tid, sample_type), misc=0x2000 if is_exec else 0)


def task(kind, time, pid, parent, tid, sample_type=ONE_EVENT):
    return record(kind, struct.pack("<IIIIQ", pid, parent, tid, parent, time) + tail(time, pid, tid, sample_type))


def fork(time, pid, parent, tid=None, **options):
    return task(7, time, pid, parent, pid if tid is None else tid, **options)


def exit_of(time, pid, tid=None, **options):
    return task(4, time, pid, pid, pid if tid is None else tid, **options)


def lost(time, count, sample_type=ONE_EVENT):
    return record(2, struct.pack("<QQ", 1, count) + tail(time, sample_type=sample_type))


def lost_samples(time, count, misc=0, sample_type=ONE_EVENT):
    return record(13, struct.pack("<Q", count) + tail(time, sample_type=sample_type), misc=misc)


def sample(time, pcs=(TEXT + 0x10, TEXT + 0x20), pid=7, tid=None, period=1000, kernel=(), identifier=None, stack=None):
    """`stack` is (registers, bytes): perf's registers AX BX CX DX SI DI BP SP IP, segments, R8 to R15."""
    body = struct.pack("<Q", identifier) if identifier is not None else b""
    body += struct.pack("<QIIQ", pcs[0] if pcs else 0, pid, pid if tid is None else tid, time) + struct.pack("<Q", period)
    chain = ([KERNEL, *kernel] if kernel else []) + ([USER, *pcs] if pcs and not stack else [])
    body += struct.pack(f"<Q{len(chain)}Q", len(chain), *chain)
    if stack:
        registers, copied = stack
        body += struct.pack(f"<Q{len(registers)}Q", 2, *registers) + struct.pack("<Q", len(copied)) + copied
        body += struct.pack("<Q", len(copied))
    return record(9, body, misc=1 if kernel else 2)


ROUND = record(68, b"")


def compressed(records, kind=81, pieces=3):
    """The records in zstd's frame of raw blocks, cut into pieces anywhere."""
    plain = b"".join(records)
    frame = struct.pack("<IBB", 0xfd2fb528, 0, 0x58)
    while plain:
        block, plain = plain[:65536], plain[65536:]
        frame += struct.pack("<I", len(block) << 3 | (not plain))[:3] + block
    step = min(len(frame) // pieces + 1, 65000)
    parts = [frame[at:at + step] for at in range(0, len(frame), step)]
    if kind == 83:
        return b"".join(record(83, struct.pack("<Q", len(part)) + part + bytes(-len(part) % 8)) for part in parts)
    return b"".join(record(81, part) for part in parts)


def string(value):
    return struct.pack("<I", 64) + value.encode().ljust(64, b"\0")


def event_names(attrs, names):
    return struct.pack("<II", len(attrs), 128) + b"".join(
        one + struct.pack("<I", 1) + string(name) + struct.pack("<Q", number) for number, (one, name) in enumerate(zip(attrs, names), 1))


def build_ids(paths):
    return b"".join(record(67, struct.pack("<i", -1) + build_id.ljust(20, b"\0") + struct.pack("<B3x", len(build_id)) + text(path),
                           misc=0x8000) for path, build_id in paths.items())


def features(arch=None, release=None, names=None, attrs=(), paths=None):
    found = {6: string(arch or platform.machine())}
    if paths:
        found[2] = build_ids(paths)
    if release:
        found[4] = string(release)
    if names:
        found[12] = event_names(attrs, names)
    return found


def file(records, attrs=(attr(),), size=None, **about):
    """A whole file; size: of its records, as the header says."""
    records, ids = b"".join(records), 104
    table = ids + 8 * len(attrs)
    data = table + 144 * len(attrs)
    sections = features(attrs=attrs, **about)
    bits = sum(1 << bit for bit in sections)
    header = struct.pack("<8sQQQQQQQQ", b"PERFILE2", 104, 144, table, 144 * len(attrs), data,
                         len(records) if size is None else size, 0, 0) + struct.pack("<4Q", bits, 0, 0, 0)
    body = header + b"".join(struct.pack("<Q", number + 1) for number in range(len(attrs)))
    body += b"".join(one + struct.pack("<QQ", ids + 8 * number, 8) for number, one in enumerate(attrs)) + records
    at = len(body) + 16 * len(sections)
    places, contents = b"", b""
    for bit in sorted(sections):
        places += struct.pack("<QQ", at + len(contents), len(sections[bit]))
        contents += sections[bit]
    return body + places + contents


def pipe(records, attrs=(attr(),), **about):
    """The same as perf writes it to a pipe."""
    head = struct.pack("<8sQ", b"PERFILE2", 16)
    head += b"".join(record(64, one + struct.pack("<Q", number)) for number, one in enumerate(attrs, 1))
    head += b"".join(record(80, struct.pack("<Q", bit) + body) for bit, body in features(attrs=attrs, **about).items())
    return head + b"".join(records)


def usual(sample_type=ONE_EVENT):
    """Records of every kind."""
    options = {"sample_type": sample_type}
    return [comm(0, "server", **options), mmap(0, **options), fork(5, 8, 7, **options), comm(6, "child", pid=8, is_exec=True, **options),
            mmap(7, pid=8, path="/usr/bin/child", build_id=bytes(range(20)), **options), fork(8, 7, 7, tid=9, **options),
            exit_of(90, 8, **options), lost(91, 5, **options)]


def copied():
    registers = [0] * 6 + [0, 0x7fff0000, TEXT + 0x10] + [0] * 3 + [0] * 8
    return sample(30, stack=(registers, struct.pack("<8Q", *range(TEXT + 0x20, TEXT + 0x28))))


KINDS = {
    "file": lambda: file([*usual(), sample(10), sample(20, kernel=[2**64 - 2**31]), sample(25, pid=8), ROUND]),
    "several": lambda: file(usual(SEVERAL) + [sample(10, identifier=1), sample(11, identifier=2), ROUND, ROUND],
                            attrs=(attr(CPU_CLOCK, SEVERAL), attr(PAGE_FAULTS, SEVERAL)), names=["cpu-clock", "page-faults"]),
    "compressed": lambda: file([compressed([*usual(), sample(10), sample(20)])]),
    "copies": lambda: file([*usual(), copied()], attrs=(attr(sample_type=COPIES),), paths={"/usr/bin/program": bytes(20)}),
    "pipe": lambda: pipe([*usual(), sample(10), ROUND, sample(9)], release="6.1"),
}


if __name__ == "__main__":
    sys.stdout.buffer.write(KINDS[sys.argv[1]]())
