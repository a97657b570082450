#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile clients: hostile.py PORT GATEWAY_PID [NAME...]. During and after each case normal requests are answered. Afterwards no
captures are running, no descriptors are leaked, and little memory is used."""

import http.client
import os
import random
import resource
import select
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import frames as h2  # noqa: E402
import hostile_bodies  # noqa: E402

PORT, PID = int(sys.argv[1]), int(sys.argv[2])
ADDRESS = ("127.0.0.1", PORT)
ALLOWED_MB = 64  # that a case may have in memory above what was there before it
LIVE = "/t/redis/v1/cpu/live?window=50"
LARGE = "/t/large/debug/pprof/profile?seconds=1&output=proto"


def memory_mb():
    with open(f"/proc/{PID}/status", encoding="ascii") as text:
        return int(next(line for line in text if line.startswith("VmRSS")).split()[1]) / 1024


def descriptors():
    return len(os.listdir(f"/proc/{PID}/fd"))


def is_sanitized():
    """Whether the gateway has a sanitizer, which makes memory use meaningless."""
    with open(f"/proc/{PID}/maps", encoding="utf-8") as text:
        return any("libasan" in line or "libtsan" in line for line in text)


def ask(path="/v1/info", timeout=15, tries=8):
    """504 is an answer of the gateway, too: on a busy machine the service can be late."""
    client = http.client.HTTPConnection(*ADDRESS, timeout=timeout)
    client.request("GET", path)
    body = (answer := client.getresponse()).read().decode()
    if answer.status == 504 and tries > 1:
        return ask(path, timeout, tries - 1)
    assert answer.status == 200, (path, answer.status, body[:200])
    return body


def connect(timeout=5.0):
    client = socket.create_connection(ADDRESS)
    client.settimeout(timeout)
    return client


def read_all(client):
    """Returns what arrives before the end, a timeout or a reset."""
    got = b""
    try:
        while more := client.recv(1 << 16):
            got += more
    except OSError:
        pass
    return got


def exchange(data, timeout=3.0):
    with connect(timeout) as client:
        try:
            client.sendall(data)
        except OSError:
            pass
        return read_all(client)


def statuses(data):
    """Returns the status of each HTTP/1 answer until the gateway closes; the last request should ask for that."""
    return [int(part[:3]) for part in exchange(data, 10).split(b"HTTP/1.1 ")[1:]]


def first_status(data):
    got = b""
    with connect(10) as client:
        client.sendall(data)
        while b"\r\n" not in got and (more := client.recv(1 << 16)):
            got += more
    return int(got.removeprefix(b"HTTP/1.1 ")[:3])


def ended_within(client, seconds):
    client.settimeout(seconds)
    try:
        while client.recv(1 << 16):
            pass
    except socket.timeout:
        return False
    except OSError:
        pass
    return True


# HTTP/2

def rapid_reset():
    """Requests that are reset as soon as they are sent. At some point the connection is closed."""
    with h2.Connection(ADDRESS) as client:
        for start in range(1, 40001, 400):
            if not client.say(b"".join(h2.get(n, LIVE) + h2.reset(n) for n in range(start, start + 400, 2))):
                return
        assert client.ends(), "the connection is still open after twenty thousand resets"


def rapid_reset_of_slow_bodies():
    with h2.Connection(ADDRESS) as client:
        for start in range(1, 20001, 400):
            client.say(b"".join(h2.frame(h2.HEADERS, h2.END_HEADERS, n, h2.request("/symbol", method="POST")) + h2.reset(n)
                                for n in range(start, start + 400, 2)))


def budget_of_resets():
    """About a hundred resets in a row are allowed. After sixty the connection still works. After hundreds it is closed, and a
    later request gets no answer, not even a refusal (issue 11)."""
    with h2.Connection(ADDRESS) as client:
        client.say(b"".join(h2.get(n, LIVE) + h2.reset(n) for n in range(1, 121, 2)) + h2.get(121, "/healthz"))
        heads = (payload for kind, _, stream, payload in client.frames(20) if kind == h2.HEADERS and stream == 121)
        assert next(heads, b"")[:1] == b"\x88", "the request after sixty resets was not answered with 200"
        client.say(b"".join(h2.get(n, LIVE) + h2.reset(n) for n in range(123, 1123, 2)) + h2.get(1123, "/healthz"))
        assert not [kind for kind, _, stream, _ in client.frames(20) if stream == 1123], "a request after hundreds of resets was answered"
        assert client.ends(1), "the connection is still open after hundreds of resets"


def stream_flood():
    """Many more concurrent streams than allowed: the allowed ones are answered, the others refused."""
    with h2.Connection(ADDRESS) as client:
        client.say(b"".join(h2.get(n, "/t/redis/debug/pprof/profile?seconds=2") for n in range(1, 2001, 2)))
        ask()
        kinds = [kind for kind, *_ in client.frames(2)]
        assert h2.HEADERS in kinds or h2.GOAWAY in kinds or h2.RST in kinds, kinds


def ping_flood():
    with h2.Connection(ADDRESS) as client:
        client.say_often(h2.frame(h2.PING, 0, 0, bytes(8)), 1_000_000)
        ask()


def settings_flood():
    with h2.Connection(ADDRESS) as client:
        client.say_often(h2.frame(h2.SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)), 1_000_000)
        ask()


def empty_frames():
    with h2.Connection(ADDRESS) as client:
        client.say(h2.frame(h2.HEADERS, h2.END_HEADERS, 1, h2.request("/symbol", method="POST")))
        client.say_often(h2.frame(h2.DATA, 0, 1), 500_000)
        ask()


def priority_flood():
    with h2.Connection(ADDRESS) as client:
        client.say(b"".join(h2.frame(h2.PRIORITY, 0, n, struct.pack(">IB", (n + 2) & 0x7fffffff, 7))
                            for n in range(1, 200001, 2)))
        ask()


def continuation_flood():
    """Headers that never end."""
    with h2.Connection(ADDRESS) as client:
        client.say(h2.frame(h2.HEADERS, h2.END_STREAM, 1, h2.request("/")))
        more = h2.frame(h2.CONTINUATION, 0, 1, h2.header("a", "b" * 16000))
        assert not client.say_often(more, 20000) or client.ends(), "300 MB of headers were accepted"


def header_bomb():
    """A large header in HPACK's table and a million references to it."""
    with h2.Connection(ADDRESS) as client:
        client.say(h2.get(1, "/healthz", h2.header("x", "y" * 3900, index=True)))
        client.say(h2.frame(h2.HEADERS, h2.END_STREAM, 3, h2.request("/healthz")))
        client.say_often(h2.frame(h2.CONTINUATION, 0, 3, b"\xbe" * 16000), 64)
        client.say(h2.frame(h2.CONTINUATION, h2.END_HEADERS, 3, b"\xbe" * 16000))
        ask()
        client.ends(1)


def no_window():
    """Answers that are requested and never read."""
    with h2.Connection(ADDRESS, struct.pack(">HI", 4, 0)) as client:
        client.say(b"".join(h2.get(n, LARGE) for n in range(1, 100, 2)))
        time.sleep(1.5)
        ask()


def wrong_windows():
    for bad in (h2.frame(h2.WINDOW, 0, 0, struct.pack(">I", 0x7fffffff)) * 3, h2.frame(h2.WINDOW, 0, 0, bytes(4)),
                h2.frame(h2.SETTINGS, 0, 0, struct.pack(">HI", 4, 0xffffffff)), h2.frame(h2.SETTINGS, 1, 0, bytes(6)),
                h2.frame(h2.DATA, 0, 0, b"x"), h2.frame(h2.PING, 0, 0, b"x"), h2.frame(h2.RST, 0, 99, bytes(4)),
                h2.frame(h2.HEADERS, 5, 2, h2.request("/")), h2.frame(h2.PUSH, 4, 1, bytes(8)),
                h2.frame(h2.CONTINUATION, 4, 1, b""), h2.frame(h2.HEADERS, 0x2d, 1, bytes([200]) + h2.request("/")),
                struct.pack(">I", 0xffffff)[1:] + b"\x00\x00" + bytes(4), h2.frame(h2.PRIORITY, 0, 1, bytes(4) + b"\x01")):
        with h2.Connection(ADDRESS) as client:
            client.say(bad + h2.get(101, "/healthz"))
            client.ends(0.2)


def random_frames():
    for seed in range(200):
        dice = random.Random(seed)
        with h2.Connection(ADDRESS, timeout=1) as client:
            for _ in range(dice.randrange(1, 30)):
                payload = dice.choice([dice.randbytes(dice.randrange(60)), h2.request("/v1/info"), h2.request(LIVE)])
                client.say(h2.frame(dice.randrange(12), dice.randrange(256), dice.choice([0, 1, 1, 3, 5, 2**31 - 1]), payload))
            client.socket.settimeout(0.02)
            read_all(client.socket)


def slow_body_over_http2():
    """A body that is sent byte by byte, by a client that leaves after a while."""
    with h2.Connection(ADDRESS) as client:
        client.say(b"".join(h2.frame(h2.HEADERS, h2.END_HEADERS, n, h2.request("/symbol", method="POST"))
                            for n in range(1, 200, 2)))
        for _ in range(20):
            client.say(h2.frame(h2.DATA, 0, 1, b"0"))
            time.sleep(0.05)
        ask()


# HTTP/1

def slow_heads():
    """A head that is sent byte by byte runs into a timeout."""
    clients = [connect() for _ in range(100)]
    started = time.monotonic()
    for client in clients:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    while time.monotonic() - started < 9:
        for client in clients:
            try:
                client.sendall(b"a")
            except OSError:
                pass
        time.sleep(0.5)
    ask()
    assert all(ended_within(client, 10) for client in clients), "a slow head did not time out"


def slow_bodies():
    clients = [connect() for _ in range(50)]
    for client in clients:
        client.sendall(b"POST /symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n0x10")
    ask()
    assert all(ended_within(client, 20) for client in clients), "a slow body did not time out"


def idle_connections():
    clients = [connect() for _ in range(500)]
    ask()
    assert all(ended_within(client, 20) for client in clients), "an idle connection did not time out"


def endless_head():
    line = b"X-Long: " + b"a" * 8000 + b"\r\n"
    with connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        try:
            for _ in range(20000):
                client.sendall(line)
            raise AssertionError("160 MB of headers were taken")
        except OSError:
            pass
    for wire in (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20000 + b"\r\n",
                 b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        found = statuses(wire)
        assert found in ([400], []), (wire[:60], found)  # a reset may overtake the answer


def large_bodies():
    for length, status in ((b"99999999999999999999", 400), (b"1000000000000", 413), (b"-1", 400), (b"+5", 400), (b"0x10", 400),
                           (b"5, 6", 400), (b"5 5", 400)):
        found = statuses(b"POST /t/redis/symbol HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " + length +
                         b"\r\n\r\n0x10")
        assert found == [status], (length, found)
    answer = exchange(b"POST /t/redis/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n" + b"0x10+" * 1000)
    assert b" 413 " in answer[:20], answer[:100]
    chunked = b"POST /t/redis/symbol HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = exchange(chunked + b"ffffffffffffffff\r\n0x10", 0.5)
    assert answer == b"", answer  # the gateway waits for the rest
    endless = chunked + b"10000\r\n" + b"0" * 65536 + b"\r\n"
    with connect() as client:
        try:
            client.sendall(endless)
            for _ in range(1000):
                client.sendall(b"10000\r\n" + b"0" * 65536 + b"\r\n")
            raise AssertionError("64 MB of a body were taken")
        except OSError:
            pass


def many_bodies():
    """Incomplete large bodies on many connections."""
    clients = []
    for _ in range(12):
        client = connect(1)
        clients.append(client)
        try:
            client.sendall(b"POST /symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n" + b"0" * 3_900_000)
        except OSError:
            pass
    ask()
    for client in clients:
        client.close()


def bodies_of_a_crowd():
    """The limit on all bodies together lowers the limit of each when there are many connections."""
    clients = [connect() for _ in range(400)]
    for client in clients:
        client.sendall(b"POST /symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n0x10+")
    time.sleep(0.5)
    refused = sum(bool(select.select([client], [], [], 0)[0]) and b" 413 " in client.recv(20) for client in clients)
    for client in clients:
        client.close()
    assert refused > 200, f"only {refused} of four hundred bodies of 4 MB were refused"
    assert b" 200 " in exchange(b"POST /t/redis/symbol HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2000000\r\n\r\n" +
                                b"0x10" + b"+" * 1999996)[:20], "one client may not send 2 MB"


def pipelining():
    """Pipelined requests get complete answers, in order."""
    count = 300
    wire = b"".join(b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % (b"healthz" if n % 2 else b"nothing") for n in range(count - 1))
    answer = exchange(wire + b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 20)
    assert answer.count(b"HTTP/1.1 ") == count, answer.count(b"HTTP/1.1 ")
    statuses = [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200" if n % 2 else b"404" for n in range(count - 1)] + [b"200"]
    with connect() as client:  # and nobody who waits for them
        client.sendall((b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % LARGE.encode()) * 200)


def smuggling():
    """Contradicting body lengths. Chunked encoding overrides Content-Length, as HTTP demands, so what follows the chunks is the
    next request. Of two lengths the last one counts."""
    both = (b"POST /t/redis/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"0\r\n\r\nGET /v1/info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    twice = (b"POST /t/redis/symbol HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 4\r\nContent-Length: 5\r\n"
             b"\r\n0x10\r\n")
    for wire, wanted in ((both, [200, 200]), (both.replace(b"chunked", b"chunked, identity"), [400]),
                         (both.replace(b"chunked", b"\x0bchunked"), [400]), (both.replace(b": chunked", b" : chunked"), [400]),
                         (twice, [200])):
        found = statuses(wire)
        assert found == wanted, (wire, found)


ENDING = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
STRANGE = [  # a request, and the status of its answer
    (b"\r\n\r\n\r\n", 400), (b"GET\r\n\r\n", 400), (b"GET / HTTP/0.9\r\n\r\n", 400), (b"GET / HTTP/3.0\r\n\r\n", 400),
    (b"GET http://[::1" + ENDING + b"\r\n", 404), (b"CONNECT x:1" + ENDING + b"\r\n", 404), (b"TRACE /" + ENDING + b"\r\n", 404),
    (b"OPTIONS *" + ENDING + b"\r\n", 404), (b"GET /" + ENDING + b"X: a\r\n b\r\n\r\n", 200),
    (b"GET /" + ENDING + b"X\x00: a\r\n\r\n", 400), (b"GET /%00" + ENDING + b"\r\n", 404), (b"GET /\x00" + ENDING + b"\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    (b"GET /" + ENDING + b"Upgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n\r\n", 200),
    (b"GET /" + ENDING + b"Expect: 100-continue\r\n\r\n", 200),
    (b"GET / HTTP/1.1\r\nHost: <script>alert(1)</script>\r\nHost: y\r\nConnection: close\r\n\r\n", 421)]


def strange_requests():
    for wire, status in STRANGE:
        answer = exchange(wire, 10)
        assert b"<script>alert" not in answer, answer
        assert answer.startswith(b"HTTP/1.1 %d " % status), (wire, answer)
    assert exchange(h2.PREFACE[:20], 0.3) == b""
    assert b"invalid stream id" in exchange(h2.PREFACE + bytes(100), 10)


def upgrades():
    for settings in (b"", b"AAMAAABk", b"!!!!", b"A" * 10000, b"AAQAAAAA"):
        ask_upgrade = (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                       b"HTTP2-Settings: " + settings + b"\r\n\r\n")
        with_body = ask_upgrade.replace(b"GET /healthz", b"POST /t/redis/symbol")
        for wire in (ask_upgrade + h2.PREFACE + h2.frame(h2.SETTINGS) + h2.get(3, "/v1/info"),
                     with_body.replace(b"\r\n\r\n", b"\r\nContent-Length: 4\r\n\r\n0x10"), ask_upgrade):
            found = first_status(wire)
            assert found == (200 if settings == b"!!!!" else 101), (wire[:200], found)


def slow_readers():
    """Large answers that nobody reads do not use memory."""
    clients = []
    for _ in range(30):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(ADDRESS)
        client.settimeout(10)
        client.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % LARGE.encode())
        clients.append(client)
    for client in clients:
        got = client.recv(300)
        assert got.startswith(b"HTTP/1.1 200"), got
    time.sleep(1)
    ask()
    for client in clients:
        client.close()


def half_closed():
    for path in ("/healthz", LARGE, LIVE, "/nothing"):
        with connect() as client:
            client.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode())
            client.shutdown(socket.SHUT_WR)
            read_all(client)


TOGETHER = [slow_heads, slow_bodies, idle_connections]  # their time is spent waiting
ALONE = [rapid_reset, budget_of_resets, rapid_reset_of_slow_bodies, stream_flood, ping_flood, settings_flood, empty_frames, priority_flood,
         continuation_flood, header_bomb, no_window, wrong_windows, random_frames, slow_body_over_http2, endless_head, large_bodies,
         many_bodies, bodies_of_a_crowd, *hostile_bodies.cases(exchange, connect, ask), pipelining, smuggling, strange_requests, upgrades, slow_readers, half_closed]


def settle(case, before):
    """Waits until no captures and descriptors of the case are left. The fake service can be slow to notice on a busy machine."""
    end = time.monotonic() + 40
    while time.monotonic() < end:
        left = descriptors() - before
        try:
            told = ask()
        except AssertionError as late:
            told = str(late)
        if '"capturesRunning":0' in told and left <= 2:
            return
        time.sleep(0.1)
    raise AssertionError(f"{case.__name__}: {left} descriptors are left, or captures run: {told}")


class Highest:
    """Measures the peak memory of the gateway."""

    def __init__(self):
        self.before, self.most, self.over = memory_mb(), 0, threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        while not self.over.wait(0.02):
            self.most = max(self.most, memory_mb())

    def grown(self):
        self.over.set()
        self.thread.join()
        return max(self.most, memory_mb()) - self.before


def play(case):
    started, before, memory = time.monotonic(), descriptors(), Highest()
    try:
        case()
    finally:
        grown = memory.grown()
    settle(case, before)
    print(f"{case.__name__}: {time.monotonic() - started:.1f} s, {grown:.0f} MB", flush=True)
    assert grown < ALLOWED_MB or is_sanitized(), f"{case.__name__} made the gateway grow by {grown:.0f} MB"


def play_together(cases):
    """Runs the cases concurrently and reports the failures of all."""
    failures, before = [], descriptors()

    def run(case):
        try:
            case()
        except AssertionError as failure:
            failures.append(f"{case.__name__}: {failure}")

    threads = [threading.Thread(target=run, args=(case,)) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    settle(cases[0], before)


def main():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limit[1]), limit[1]))
    wanted = sys.argv[3:]
    ask()
    for case in ALONE:
        if not wanted or case.__name__ in wanted:
            play(case)
    together = [case for case in TOGETHER if not wanted or case.__name__ in wanted]
    if together:
        play_together(together)
    print("all are gone")


main()
