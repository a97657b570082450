#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that leave at any moment: vanish.py PORT COUNT. Each opens a connection, sends a request or a part of one over
HTTP/1.1 or HTTP/2, reads for a while or not at all, and resets, closes or half-closes. Exits when all have left."""

import random
import socket
import struct
import sys
import threading
import time

PATHS = ["/t/large/debug/pprof/profile?seconds=1&output=proto", "/t/redis/debug/pprof/profile?seconds=2",
         "/t/redis/profile?duration=1&pprof=false", "/t/cut/debug/pprof/profile?seconds=1", "/v1/info", "/nothing",
         "/t/redis/v1/cpu/live?window=50", "/t/cut/v1/cpu/live?window=50", "/t/large/heap_snapshot?output=proto",
         "/t/redis/debug/pprof/heap_list", "/t/redis/debug/pprof/heap?name=000001.heap", "/metrics"]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">I", 0)[1:] + b"\x04\x00" + bytes(4)


def literal(text):
    return bytes([len(text)]) + text.encode()


def http2_request(path):
    """SETTINGS, then one or more requests, some of which are reset immediately."""
    block = b"\x82\x86" + b"\x04" + literal(path) + b"\x01" + literal("localhost")
    frames = PREFACE
    for stream in range(1, random.choice([3, 9]), 2):
        frames += struct.pack(">I", len(block))[1:] + b"\x01\x05" + struct.pack(">I", stream) + block
        if random.random() < 0.3:
            frames += b"\x00\x00\x04\x03\x00" + struct.pack(">I", stream) + struct.pack(">I", 8)
    return frames


def one(port, seed):
    random.seed(seed)
    path = random.choice(PATHS)
    request = http2_request(path) if random.random() < 0.4 else f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port)) as client:
        try:
            client.sendall(request[:random.choice([len(request)] * 4 + [len(request) // 2])])
            time.sleep(random.choice([0, 0, 0.05, 0.1, 0.2]))
            client.settimeout(0.3)
            for _ in range(random.choice([0, 1, 20])):
                if not client.recv(random.choice([1, 4096, 65536])):
                    break
            how = random.random()
            if how < 0.5:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif how < 0.7:
                client.shutdown(socket.SHUT_WR)
                time.sleep(0.1)
        except OSError:
            pass


def main():
    port, count = int(sys.argv[1]), int(sys.argv[2])
    for start in range(0, count, 40):
        threads = [threading.Thread(target=one, args=(port, seed)) for seed in range(start, min(start + 40, count))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(count, "have left")


main()
