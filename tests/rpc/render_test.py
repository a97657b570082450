# SPDX-License-Identifier: Apache-2.0
"""Profiles that the caller brings, drawn by a real sonded without targets: called from Python, with files of Go's own pprof."""

import gzip
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import grpc

SONDED, CLIENT, GOLDEN, WITH_BASE = (os.path.abspath(path) for path in (
    "service/sonded", "clients/python/sonde_client.py", "tests/golden/server.pb", "tests/fuzz/profile/corpus/with_base.pb.gz"))
sys.path.insert(0, os.path.dirname(CLIENT))
from sonde_client import Service  # noqa: E402
from tests.cli import check  # noqa: E402

FOLDER = tempfile.mkdtemp(prefix="x.")
PROCESS = subprocess.Popen([SONDED, "--socket", f"{FOLDER}/guest", "--grpc", f"unix:{FOLDER}/grpc", "--data-dir", f"{FOLDER}/data"],
                           stdout=subprocess.PIPE, text=True)
assert PROCESS.stdout.readline().startswith("grpc: ")
SERVICE = Service(f"unix:{FOLDER}/grpc")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def render(profile, output, **fields):
    """The document and the first message."""
    events = list(SERVICE.RenderProfile(timeout=60, profile=profile, rendering={"format": output}, **fields))
    body = b"".join(event.chunk for event in events[1:])
    check.equal(events[0].result.size_bytes, len(body))
    return body, events[0].result


def refused(code, *words, profile, output="COLLAPSED", **fields):
    try:
        render(profile, output, **fields)
    except grpc.RpcError as error:
        check.equal(error.code(), code)
        for word in words:
            check.contains(error.details(), word)
        return
    raise AssertionError("not refused")


def test_a_file_is_the_same_with_and_without_gzip():
    raw = read(GOLDEN)
    plain, start = render(raw, "COLLAPSED")
    check.equal(render(gzip.compress(raw), "COLLAPSED")[0], plain)
    check.equal(start.media_type, "text/plain")
    assert plain.count(b"\n") > 5, plain


def test_gos_difference_of_a_profile_with_itself_has_no_changes():
    body, _ = render(read(WITH_BASE), "COLLAPSED")
    check.equal(body, b"[no samples] 0\n")
    picture, start = render(read(WITH_BASE), "SVG_FLAMEGRAPH")
    check.equal(start.media_type, "image/svg+xml")
    check.contains(picture.decode(), "<svg")


def test_a_broken_file_says_what_is_wrong():
    raw = read(GOLDEN)
    refused(grpc.StatusCode.INVALID_ARGUMENT, "not a pprof file", profile=gzip.compress(raw)[:200])
    refused(grpc.StatusCode.INVALID_ARGUMENT, "empty", profile=b"")
    refused(grpc.StatusCode.INVALID_ARGUMENT, "output", "use one of", profile=raw, output="HEAPSNAPSHOT")
    refused(grpc.StatusCode.INVALID_ARGUMENT, "format", profile=raw, output="JEMALLOC")


def test_a_file_that_unpacks_to_too_much_is_refused():
    bomb = gzip.compress(b"\x32\xff\xff\xff\x7f" + bytes(129 << 20), 1)
    assert len(bomb) < 1 << 20
    refused(grpc.StatusCode.INVALID_ARGUMENT, "128 MiB", "sonde draw", profile=bomb)


try:
    check.main(globals())
finally:
    SERVICE.close()
    PROCESS.send_signal(signal.SIGTERM)
    assert PROCESS.wait(20) == 0
    shutil.rmtree(FOLDER)
