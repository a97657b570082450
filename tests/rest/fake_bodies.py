# SPDX-License-Identifier: Apache-2.0
"""The results of fake_service.py in each format."""

import gzip
import os


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def profile_of(types, function, values, comments=()):
    """A pprof file with one sample of one function."""
    strings = [""]

    def string(text):
        strings.append(text)
        return varint(len(strings) - 1)

    body = b"".join(field(1, b"\x08" + string(kind) + b"\x10" + string(unit)) for kind, unit in types)  # sample_type
    body += field(2, field(1, b"\x01") + field(2, bytes(values)))     # sample: location 1
    body += field(4, b"\x08\x01" + field(4, b"\x08\x01"))             # location 1 of function 1
    body += field(5, b"\x08\x01\x10" + string(function))             # function 1
    body += b"".join(b"\x68" + string(text) for text in comments)     # comment
    return body + b"".join(field(6, text.encode()) for text in strings)


def tiny_profile():
    return profile_of([("samples", "count")], "hot_function", [5])


def waits_profile():
    """Without a wait for a lock."""
    return profile_of([("contentions", "count"), ("delay", "nanoseconds")], "epoll_wait", [1, 5],
                      ["clock: perf-cpu", "locks: 7 samples are of others", "locks: and more"])


def draw(messages, target, rendering, what):
    """The bytes of a result in the format that was asked for."""
    names = messages.Format.items()
    name = {number: text for text, number in names}[rendering.format]
    if rendering.keep_allocator_frames:
        what += " with_allocator"
    if target.name == "large":
        return b"\x1f\x8b" + os.urandom(6 << 20)
    if name == "FORMAT_UNSPECIFIED":
        raise RuntimeError("every request must name its format")
    if target.name == "huge":
        return bytes(17 << 20)
    if name == "PPROF":
        profile = waits_profile() if " as_contentions locks" in what else tiny_profile()
        return profile if rendering.raw else gzip.compress(profile)
    if name.startswith("SVG"):
        return (b'<?xml version="1.0" standalone="no"?>\n<svg xmlns="http://www.w3.org/2000/svg"><text>'
                + (b"no samples" if target.name == "idle" else b"Flame Graph") + b"</text>" +
                b"<rect/>" * 400 + b"</svg>\n")
    if name == "JEMALLOC":
        return f"heap_v2/524288\n  t*: 1: 2 [0: 0]\n{what}\n\nMAPPED_LIBRARIES:\n".encode()
    if name == "LEGACY_HEAP":
        return b"heap profile: 1: 2 [1: 2] @ heap_v2/524288\n"
    if name in ("HEAPSNAPSHOT", "HEAPPROFILE"):
        return f'{{"format":"{name}","what":"{what}"}}'.encode()
    if name == "LEGACY_CPU":
        return b"".join(n.to_bytes(8, "little") for n in (0, 3, 0, 10101, 0, 0, 1, 0))
    if name == "SPEEDSCOPE":
        return b'{"$schema":"https://www.speedscope.app/file-format-schema.json"}'
    if target.name == "idle":
        return b"[no samples] 0\n"
    split = (" threads=split" if rendering.split_threads else "") + (" hide_idle" if rendering.hide_idle else "")
    return f"target={target.name} format={name} {what}{split} 1\n".encode()


def backtraces(messages, target, request):
    """Two threads with the same stack."""
    text = (f"{target.name} (pid {target.pid}): 2 threads with 1 different stack\n"
            f"as_text={request.as_text} tid={request.tid} depth={request.max_depth} threads={request.max_threads}\n")
    if request.HasField("rendering"):
        what = f"threads by_start_function={request.by_start_function}"
        return messages.Backtraces(profile=draw(messages, target, request.rendering, what))
    answer = messages.Backtraces(text=text, threads=[messages.ThreadBacktrace(tid=number, stack=1) for number in (1, 2)])
    answer.threads[0].lock_wait.MergeFrom(messages.LockWait(address=0x40, kind="mutex", owner=2, text="waits for mutex 0x40, held by 2"))
    answer.deadlocks.append("deadlock: 1 → 2 → 1")
    frames = answer.stacks.add().frames
    frames.add(name="inner", address=0x10, file="a.c", line=7, inlined=True)
    frames.add(name="outer", address=0x10, file="a.c", line=9)
    frames.add(name="two\nlines", address=0x20, module="libx.so")
    return answer
