# SPDX-License-Identifier: Apache-2.0
"""Clients that open as many connections as they can, and programs that are told to stop and cannot."""

import ctypes
import os
import signal
import socket
import subprocess
import time

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import users
from tests.e2e.users.users import as_nobody, gateway, sonded, stop

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


def test_refused_requests_do_not_fill_the_log():
    path = os.path.join(check.short_folder(), "log")
    script = ("import socket, sys\n"
              "host, port = sys.argv[1].split(':')\n"
              "for _ in range(10):\n"
              "    client = socket.create_connection((host, int(port)))\n"
              "    client.sendall(b'GET /v1/targets HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n' * 50)\n"
              "    seen = b''\n"
              "    while seen.count(b'HTTP/1.1 401') < 50:\n"
              "        seen += client.recv(65536) or sys.exit('closed')\n")
    service = sonded("--everybody")
    with open(path, "w", encoding="utf-8") as log:
        process, host = gateway(stderr=log)
    subprocess.run(as_nobody("/usr/bin/python3", "-c", script, host), check=True, timeout=60)
    assert seconds_of(host) < 8
    stop(process)
    stop(service)
    with open(path, encoding="utf-8") as log:
        lines = log.read().splitlines()
    check.equal(sum("status=401" in line for line in lines), 60)
    check.equal(sum("status=200" in line for line in lines), 1, "lines about the honest request")
    check.equal([line.split(" ", 1)[1].split(";")[0] for line in lines if "more requests" in line], ["440 more requests were refused"])


class Stopped:
    """Stops one thread of a process, so that the process cannot stop when it is told to."""

    SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000

    def __init__(self, process, name):
        """name None: the main thread."""
        self.tids = [tid for tid in map(int, os.listdir(f"/proc/{process.pid}/task"))
                     if (self.name_of(process.pid, tid) == name if name else tid == process.pid)]
        assert self.tids, f"no thread is called {name}"
        self.trace(self.SEIZE)
        self.trace(self.INTERRUPT)
        for tid in self.tids:
            os.waitpid(tid, self.WALL)

    @staticmethod
    def name_of(pid, tid):
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8") as text:
            return text.read().strip()

    def trace(self, request):
        libc = ctypes.CDLL(None, use_errno=True)
        for tid in self.tids:
            assert libc.ptrace(request, ctypes.c_long(tid), None, None) == 0, os.strerror(ctypes.get_errno())

    def status(self):
        """The status with which a stopped thread ends; its tracer must wait for it."""
        statuses = []
        for tid in self.tids:
            status = os.waitpid(tid, self.WALL)[1]
            while not os.WIFEXITED(status) and not os.WIFSIGNALED(status):
                status = os.waitpid(tid, self.WALL)[1]
            statuses.append(os.waitstatus_to_exitcode(status))
        return statuses[0]


def ends_with(process, thread, log):
    stopped = Stopped(process, thread)
    process.send_signal(signal.SIGTERM)
    check.until(lambda: b"exiting at once" in open(log, "rb").read(), seconds=120, what="the line")
    check.equal(stopped.status(), 1)
    if process.pid not in stopped.tids:
        check.equal(process.wait(timeout=60), 1)
    users.started.remove(process)
    with open(log, encoding="utf-8") as text:
        return text.read()


def test_a_sonded_that_cannot_stop_ends_and_says_why():
    log = os.path.join(stack.WORK, "sonded.log")
    with open(log, "wb") as errors:
        service = sonded(stderr=errors)
    text = ends_with(service, "sonde-rpc", log)
    check.contains(text, "sonded: did not stop in time, exiting at once; still waiting for running calls\n")


def test_a_gateway_that_cannot_stop_ends_and_says_why():
    log = os.path.join(stack.WORK, "gateway.log")
    service = sonded()
    with open(log, "wb") as errors:
        process, host = gateway("--grace", "0", stderr=errors)
    assert seconds_of(host) < 60
    text = ends_with(process, None, log)
    check.contains(text, "sonde-gateway: did not stop in time, exiting at once; still waiting for running requests\n")
    stop(service)


users.install()
check.main(globals())
