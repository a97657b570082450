# SPDX-License-Identifier: Apache-2.0
"""Clients that open as many connections as they can, and programs that must end although they cannot."""

import resource
import signal
import socket
import subprocess
import time

from tests.cli import check
from tests.e2e import users
from tests.e2e.users import as_nobody, gateway, sonded, stop

# Opens connections until it has COUNT or is refused, says so, and holds them. With "busy" each has a request that runs.
FLOOD = ("import resource, socket, sys\n"
         "resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)\n"
         "host, port, count = sys.argv[1].split(':')[0], int(sys.argv[1].split(':')[1]), int(sys.argv[2])\n"
         "held = []\n"
         "for _ in range(count):\n"
         "    try:\n"
         "        held.append(socket.create_connection((host, port), timeout=5))\n"
         "        held[-1].sendall(sys.argv[3].encode().decode('unicode_escape').encode())\n"
         "    except OSError:\n"
         "        break\n"
         "print('ready', len(held), flush=True)\n"
         "sys.stdin.read()\n")
IDLE = ""
HALF = "GET /healthz HTTP/1.1\\r\\nHost: loc"
ASKED = "GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"
BUSY = "GET /v1/targets HTTP/1.1\\r\\nHost: localhost\\r\\nAccept: application/x-ndjson\\r\\n\\r\\n"


class Flood:
    def __init__(self, who, host, count, request):
        self.process = subprocess.Popen(who("/usr/bin/python3", "-c", FLOOD, host, str(count), request), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        assert self.process.stdout.readline().startswith("ready")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


def as_root(*words):
    return words


def seconds_of(host):
    """The time until root's own request is answered."""
    started = time.monotonic()
    done = subprocess.run(["curl", "-s", "-m", "40", f"http://{host}/healthz"], capture_output=True, text=True, check=False)
    check.equal(done.stdout, "ok\n")
    return time.monotonic() - started


class Gateway:
    def __init__(self, *flags):
        self.flags = flags

    def __enter__(self):
        self.service = sonded("--everybody")
        self.process, self.host = gateway(*self.flags)
        return self.host

    def __exit__(self, *_):
        stop(self.process)
        stop(self.service)


def test_idle_connections_lock_nobody_out():
    with Gateway() as host:
        for request in (IDLE, HALF, ASKED):
            with Flood(as_nobody, host, 5000, request):
                for _ in range(5):
                    assert seconds_of(host) < 8  # an incomplete request is dropped after 10 s


def test_idle_connections_of_ones_own_lock_nobody_out():
    with Gateway() as host:
        with Flood(as_root, host, 5000, ASKED):
            assert seconds_of(host) < 8


def test_one_user_cannot_take_all_connections_with_running_requests():
    with Gateway("--loopback", "everybody", "--max-connections", "40") as host:
        with Flood(as_nobody, host, 60, BUSY):
            for _ in range(5):
                assert seconds_of(host) < 8


def test_the_connection_that_was_idle_the_longest_is_closed_first():
    with Gateway("--max-connections", "8") as host:
        address = (host.split(":")[0], int(host.split(":")[1]))
        held = [socket.create_connection(address, timeout=20) for _ in range(4)]
        for client in held:
            client.sendall(ASKED.encode().decode("unicode_escape").encode())
            check.contains(client.recv(4096).decode(), "200 OK")
            time.sleep(0.01)
        held[0].sendall(ASKED.encode().decode("unicode_escape").encode())
        check.contains(held[0].recv(4096).decode(), "200 OK")
        assert seconds_of(host) < 8  # one peer may have four
        held[1].settimeout(8)
        check.equal(held[1].recv(4096), b"")
        for client in (held[0], held[2], held[3]):
            client.sendall(ASKED.encode().decode("unicode_escape").encode())
            check.contains(client.recv(4096).decode(), "200 OK")
        for client in held:
            client.close()


# 50 streams of each target, which nobody reads.
STREAMS = ("import grpc, sys, threading\n"
           "channel = grpc.insecure_channel(sys.argv[1])\n"
           "stream = channel.unary_stream('/sonde.v1.Profiler/StreamCpu')\n"
           "held = []\n"
           "for name in sys.argv[2:]:\n"
           "    selector = bytes([10, len(name)]) + name.encode()\n"
           "    held += [stream(bytes([10, len(selector)]) + selector + b'\\x10\\x32\\x18\\xe7\\x07') for _ in range(50)]\n"
           "print('ready', flush=True)\n"
           "sys.stdin.read()\n")


def test_a_sonded_that_ran_out_of_memory_still_ends():
    names = ["one", "two", "three", "four"]
    service = sonded()
    servers = [users.server(uid=0, name=name) for name in names]
    flood = None
    try:
        check.until(lambda: all(name in users.targets() for name in names), what="the targets")
        resource.prlimit(service.pid, resource.RLIMIT_AS, (400000 << 10, 400000 << 10))
        flood = subprocess.Popen(["/usr/bin/python3", "-c", STREAMS, users.RPC, *names], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        assert flood.stdout.readline() == "ready\n"
        time.sleep(10)
        service.send_signal(signal.SIGTERM)
        try:
            print("sonded ended with", service.wait(timeout=60))
        except subprocess.TimeoutExpired:
            raise AssertionError("sonded does not end") from None
    finally:
        if flood:
            flood.kill()
            flood.communicate()
        service.kill()
        service.wait()
        users.started.remove(service)
        for one in servers:
            stop(one)


users.install()
check.main(globals())
