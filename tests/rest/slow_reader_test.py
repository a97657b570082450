#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Slow readers of /v1/cpu/live: slow_reader_test.py FAKE_SERVER GATEWAY. The service merges the windows that a client does not take and
counts them in `merged`; neither it nor the gateway keeps them."""

import http.client
import json
import os
import shutil
import socket
import sys

sys.path.insert(0, os.getcwd())
from tests.cli import check  # noqa: E402

FAKE_SERVER, GATEWAY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
FOLDER = check.short_folder()
# A stream of the service holds 16 windows if its worker is late, as on a busy machine, one merged window and the parts of another
# (service/rpc/captures/stream.c). A window of 2,000 stacks is a profile of less than half a MiB.
CLIENTS, ALLOWED_MB = 10, 10 * (16 + 2) // 2


class Reader:
    """Reads a stream line by line. Its receive buffer is small at first, so that the windows it leaves stay with the gateway."""

    def __init__(self):
        self.socket = socket.socket()
        self.buffer(4096)
        host, port = URL.removeprefix("http://").rsplit(":", 1)
        self.socket.connect((host, int(port)))
        self.socket.sendall(b"GET /v1/cpu/live?window=50 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.response = http.client.HTTPResponse(self.socket)
        self.response.begin()

    def buffer(self, size):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    def window(self):
        return json.loads(self.response.readline())

    def close(self):
        self.response.close()
        self.socket.close()


def test_windows_that_a_slow_reader_leaves_are_merged_and_cost_little_memory():
    """Each window has 2,000 stacks. An eager reader counts how many the others left."""
    eager = Reader()
    eager.buffer(1 << 20)
    size = min(len(json.dumps(eager.window())) for _ in range(2))  # the first one defines the stacks
    parts = {"service": SERVICE.pid, "gateway": OPEN.pid}
    before, slow = {name: check.memory_mb(pid) for name, pid in parts.items()}, [Reader() for _ in range(CLIENTS)]
    needed = int(3 * ALLOWED_MB * 2 ** 20 / (CLIENTS * size))  # three times the allowed memory, if they were kept
    passed = 0
    while passed < needed:
        passed += 1 + eager.window()["merged"]
    for name, pid in parts.items():
        grown = check.memory_mb(pid) - before[name]
        assert grown < ALLOWED_MB or check.is_sanitized(pid), f"the {name} grew by {grown:.0f} MB while {CLIENTS} clients left {passed} windows"
    slow[0].buffer(1 << 20)
    check.until(lambda: slow[0].window()["merged"] > 0, what="a merged window")
    for reader in [eager, *slow]:
        reader.close()


SERVICE, ADDRESS = check.start(FAKE_SERVER, "--grpc", f"unix:{FOLDER}/rpc", "--stacks", "2000")
OPEN, URL = check.start(GATEWAY, "--quiet", "--listen", "127.0.0.1:0", "--service", ADDRESS)
try:
    check.main(globals())
finally:
    for process in (OPEN, SERVICE):
        check.stop(process)
    shutil.rmtree(FOLDER, ignore_errors=True)
