# SPDX-License-Identifier: Apache-2.0
"""What the tests of sonde-history share: a process of it, and deliveries to write."""

import hashlib
import os
import signal
import struct
import subprocess
import sys

SONDE_HISTORY, CLIENT = (os.path.abspath(path) for path in ("service/sonde-history", "clients/python/sonde_client.py"))
sys.path.insert(0, os.path.dirname(CLIENT))
from sonde_client import Service  # noqa: E402
from tests.cli import check  # noqa: E402

BEGIN = 1_700_000_000
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("SONDE_")}


class History:
    """One process with its store, which may be started again. The store is a file in a folder unless `store` names another."""

    def __init__(self, *flags, store=None):
        self.folder = check.short_folder()
        self.store = store or f"sqlite:{self.folder}/store"
        self.flags = flags
        self.process = self.service = None

    def start(self):
        with open(f"{self.folder}/log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [SONDE_HISTORY, "--store", self.store, "--grpc", f"unix:{self.folder}/grpc", *self.flags],
                stdout=subprocess.PIPE, stderr=log, text=True, env=ENVIRONMENT)
        check.equal(self.process.stdout.readline(), f"grpc: unix:{self.folder}/grpc\n", "the address")
        self.service = Service(f"unix:{self.folder}/grpc")

    def stop(self, number):
        self.service.close()
        self.process.send_signal(number)
        status = self.process.wait(60)
        self.process.stdout.close()
        return status

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        check.equal(self.stop(signal.SIGTERM), 0, "the status after SIGTERM")


def _id(*parts):
    data = b"".join(part.encode() + b"\0" if isinstance(part, str) else struct.pack(">Q", part) for part in parts)
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")


def delivery(number, service="redis", value=1_000_000):
    """One window with one stack, main;fN."""
    frames, ids = [], []
    for address, name in ((32 + number % 4, f"f{number % 4}"), (16, "main")):
        ids.append(_id("frame", "/bin/redis", address))
        frames.append({"id": ids[-1], "module": "/bin/redis", "address": address, "kind": "APPLICATION", "version": 1,
                       "lines": [{"function": name, "file": "redis.c", "line": 3}]})
    stack = _id("stack", service, *ids)
    window = {"source": 5, "epoch": 1, "seq": number, "event": "on-cpu", "service": service, "host": "alpha",
              "instance": "0" * 32, "pid": 7, "begin_unix_s": BEGIN + 10 * number, "length_s": 10, "period_ns": 1_000_000,
              "clock": "perf", "samples": 1, "labels": [{"name": "pod", "value": "a"}], "threads": ["io"],
              "stack": [stack], "thread": [0], "value": [value]}
    return {"delivery": number, "windows": [window], "stacks": [{"service": service, "id": stack, "frames": ids}], "frames": frames}


def total(service):
    """The sum of all values."""
    return service.QueryTop(timeout=60).total
