#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Malicious clients of the gRPC port: hostile_test.py FAKE_SERVER. After each of them a normal call must be answered, no call or
descriptor may be left, and memory may have grown only a little."""

import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

sys.path[:0] = [os.path.abspath("clients/python"), os.path.abspath("tests/rest"), os.getcwd()]
import grpc  # noqa: E402

import frames as h2  # noqa: E402
import sonde_client  # noqa: E402
from tests.cli import check  # noqa: E402

FAKE_SERVER = os.path.abspath(sys.argv.pop(1))
ALLOWED_MB = 48
PROFILER = "/sonde.v1.Profiler/"
EMPTY = bytes(5)  # an empty message, framed as in gRPC


class Server:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="x.")
        self.path = f"{self.folder}/rpc"
        self.child = subprocess.Popen([FAKE_SERVER, "--grpc", f"unix:{self.path}", "--stacks", "2000", "--fresh"],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.child.stdout.readline().startswith("grpc: ")
        self.service = sonde_client.Service(f"unix:{self.path}")
        self.service.GetInfo()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.child.pid}/fd"))

    def close(self):
        self.service.channel.close()
        self.child.terminate()
        status = self.child.wait(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)
        assert status == 0, f"the service ended with {status}"


server = Server()


def has_no_streams():
    """Whether no stream runs. A disconnected client's calls count until they are cleaned up, so GetInfo may be refused meanwhile."""
    try:
        return server.service.GetInfo().streams_running == 0
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        return False


class Attack:
    """Surrounds one attack, and checks afterwards that streams and descriptors are closed and memory has not grown much."""

    def __init__(self, allowed_mb=ALLOWED_MB):
        self.allowed_mb = allowed_mb

    def __enter__(self):
        self.memory, self.descriptors = check.memory_mb(server.child.pid), server.descriptors()
        return self

    def __exit__(self, kind, *_):
        if kind:
            return
        check.until(has_no_streams, what="the streams end")
        check.until(lambda: server.descriptors() <= self.descriptors + 1, what="the connections end")
        grown = check.memory_mb(server.child.pid) - self.memory
        assert grown < self.allowed_mb or check.is_sanitized(server.child.pid), f"the service grew by {grown:.0f} MB"


def connection(**more):
    return h2.Connection(server.path, **more)


def call(stream, method, message=EMPTY, flags=h2.END_STREAM, more=b""):
    """The frames of one gRPC call. Without END_STREAM in `flags`, the client never finishes its request."""
    block = (h2.header(":method", "POST") + h2.header(":scheme", "http") + h2.header(":path", PROFILER + method) +
             h2.header(":authority", "localhost") + h2.header("te", "trailers") +
             h2.header("content-type", "application/grpc") + more)
    return h2.frame(h2.HEADERS, h2.END_HEADERS, stream, block) + h2.frame(h2.DATA, flags, stream, message)


def test_calls_that_are_reset_at_once_leave_nothing_behind():
    with Attack():
        for method in ("GetInfo", "StreamCpu", "CaptureCpu", "WatchTargets", "Nobody"):
            with connection() as client:
                client.say(b"".join(call(n, method) + h2.reset(n) for n in range(1, 4001, 2)))
                client.ends(0.2)


def test_calls_beyond_the_limit_are_refused():
    with Attack(128):  # the 4,096 allowed calls take 17 KB each
        with connection() as client:
            for start in range(1, 12001, 400):
                client.say(b"".join(call(n, "WatchTargets") for n in range(start, start + 400, 2)))
            names = [payload for kind, _, _, payload in client.frames(0.5) if kind == h2.HEADERS]
            assert any(b"TOO_MANY_CAPTURES" in payload for payload in names), "no call was refused"


def test_unfinished_requests_do_not_delay_other_calls():
    with Attack():
        with connection() as client:
            client.say(b"".join(call(n, "GetInfo", b"", 0) for n in range(1, 1001, 2)))
            server.service.GetInfo()


def bomb(mib):
    """A gRPC message that is compressed by gzip and unpacks to `mib` MiB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    body = b"".join(packer.compress(bytes(1 << 20)) for _ in range(mib)) + packer.flush()
    return b"\x01" + struct.pack(">I", len(body)) + body


def test_compressed_messages_are_bounded_before_they_are_unpacked():
    message = bomb(60)
    parts = [message[at:at + 16000] for at in range(0, len(message), 16000)]
    encoding = h2.header("grpc-encoding", "gzip")
    for method in ("ListTargets", "SymbolizeStream", "Symbolize"):
        with Attack():
            with connection() as client:
                client.say(call(1, method, parts[0], 0, encoding))
                for part in parts[1:]:
                    client.say(h2.frame(h2.DATA, 0, 1, part))
                client.say(h2.frame(h2.DATA, h2.END_STREAM, 1))
                answer = b"".join(payload for kind, _, _, payload in client.frames(1) if kind == h2.HEADERS)
                assert b"at most" in answer, f"{method}: {answer[-200:]}"
            server.service.GetInfo()


def test_compressed_messages_of_honest_clients_are_read():
    for algorithm in (grpc.Compression.Gzip, grpc.Compression.Deflate):
        with grpc.insecure_channel(f"unix:{server.path}", compression=algorithm) as channel:
            ask = channel.unary_unary(PROFILER + "ListTargets")
            ask(b"\xfa\x7f\xc8\x01" + b"x" * 200, timeout=10)  # an unknown field, long enough to be compressed


def test_endless_pings_do_not_delay_other_calls():
    with Attack():
        for _ in range(2):
            with connection() as client:
                client.say_often(h2.frame(h2.PING, 0, 0, bytes(8)), 100000)
                started = time.monotonic()
                server.service.GetInfo()
                assert time.monotonic() - started < 2, "a normal call waited for the pings"


def test_endless_settings_and_empty_frames_do_no_harm():
    with Attack():
        with connection() as client:
            client.say_often(h2.frame(h2.SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)), 100000)
            server.service.GetInfo()
        with connection() as client:
            client.say(call(1, "SymbolizeStream", b"", 0))
            client.say_often(h2.frame(h2.DATA, 0, 1), 100000)
            server.service.GetInfo()


def test_huge_metadata_is_refused():
    with Attack():
        with connection() as client:
            client.say(call(1, "GetInfo", more=h2.header("x", "y" * 16000)))
            client.ends(0.3)
        with connection() as client:
            client.say(h2.frame(h2.HEADERS, 0, 1, h2.request("/")))
            # libgrpc 1.51 ignores its limit here and keeps them until the connection ends (docs/safe.md).
            client.say_often(h2.frame(h2.CONTINUATION, 0, 1, h2.header("a", "b" * 16000)), 1000)
            client.ends(1)
        big = grpc.insecure_channel(f"unix:{server.path}", options=[("grpc.max_metadata_size", 1 << 22)])
        try:
            big.unary_unary(PROFILER + "GetInfo")(b"", metadata=[("x", "y" * (1 << 20))], timeout=5)
            raise AssertionError("a megabyte of metadata was accepted")
        except grpc.RpcError:
            pass
        finally:
            big.close()


def test_messages_with_a_wrong_length_are_refused():
    with Attack():
        for message in (b"\x00\xff\xff\xff\xff", b"\x01\x00\x00\x00\x02ab", b"\x07" + bytes(4), b"\x00\x00\x40\x00\x01" + bytes(9000),
                        b"\x00\x00\x00\x00\x03\xff\xff\xff", bytes(4), os.urandom(5000)):
            with connection() as client:
                client.say(call(1, "CaptureCpu", message))
                client.ends(0.2)


def test_random_frames_do_no_harm():
    with Attack():
        for seed in range(150):
            dice = random.Random(seed)
            with connection(timeout=1) as client:
                for _ in range(dice.randrange(1, 20)):
                    stream = dice.choice([0, 1, 1, 3, 5])
                    client.say(dice.choice([
                        call(stream, dice.choice(["GetInfo", "StreamCpu", "SymbolizeStream", "UploadDebugFile"]), dice.randbytes(9), 0),
                        h2.frame(dice.randrange(12), dice.randrange(256), stream, dice.randbytes(dice.randrange(40)))]))


def test_slow_readers_of_a_stream_cost_little_memory():
    """Each window has 2,000 new stacks, and the clients read none of them."""
    with Attack():
        clients = [connection() for _ in range(20)]
        for client in clients:
            client.say(call(1, "StreamCpu"))
        time.sleep(3)
        server.service.GetInfo()
        for client in clients:
            client.socket.close()


def test_clients_that_disconnect_during_a_stream_leave_nothing_behind():
    with Attack():
        def live(seed):
            dice = random.Random(seed)
            for _ in range(8):
                with connection() as client:
                    client.say(call(1, dice.choice(["StreamCpu", "CaptureCpu", "WatchTargets"])))
                    client.socket.settimeout(0.2)
                    try:
                        client.socket.recv(dice.choice([1, 100, 10000]))
                        time.sleep(dice.choice([0, 0.05, 0.1]))
                    except OSError:
                        pass
                    client.socket.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: reset
        threads = [threading.Thread(target=live, args=(seed,)) for seed in range(25)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


try:
    check.main(globals())
finally:
    server.close()
