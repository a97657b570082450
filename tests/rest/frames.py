# SPDX-License-Identifier: Apache-2.0
"""Hand-written HTTP/2, for clients that no library would produce: frames, and headers without Huffman coding."""

import socket
import struct

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def number(value, bits, first):
    """An HPACK integer."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = bytes([first | most]), value - most
    while value >= 128:
        out, value = out + bytes([value % 128 | 128]), value // 128
    return out + bytes([value])


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return number(len(value), 7, 0) + value


def header(name, value, index=False):
    return (b"\x40" if index else b"\x00") + text(name) + text(value)


def request(path, *more, method="GET"):
    return (header(":method", method) + header(":scheme", "http") + header(":path", path) + header(":authority", "localhost") +
            b"".join(more))


def get(stream, path, *more):
    return frame(HEADERS, END_STREAM | END_HEADERS, stream, request(path, *more))


def reset(stream):
    return frame(RST, 0, stream, struct.pack(">I", 8))


class Connection:
    """A client that sends exactly what it is given and only reads when asked to."""

    def __init__(self, address, settings=b"", timeout=3.0):
        self.socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.socket.settimeout(timeout)
        self.socket.connect(address)
        self.say(PREFACE + frame(SETTINGS, 0, 0, settings))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def say(self, data):
        """Sends data. Returns whether the server still accepted it."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def say_often(self, data, times):
        """Sends the bytes repeatedly, in large pieces. Returns whether the server accepted all."""
        pieces = max(1, 65536 // len(data))
        return all(self.say(data * pieces) for _ in range(0, times, pieces))

    def frames(self, seconds=5.0):
        """Yields each frame, until the connection ends or nothing arrives for that long."""
        self.socket.settimeout(seconds)
        rest = b""
        try:
            while True:
                while len(rest) >= 9 and len(rest) >= 9 + int.from_bytes(rest[:3], "big"):
                    size = int.from_bytes(rest[:3], "big")
                    yield rest[3], rest[4], int.from_bytes(rest[5:9], "big"), rest[9:9 + size]
                    rest = rest[9 + size:]
                more = self.socket.recv(1 << 16)
                if not more:
                    return
                rest += more
        except OSError:
            return

    def ends(self, seconds=5.0):
        """Whether the server closes the connection."""
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(1 << 16):
                pass
            return True
        except socket.timeout:
            return False
        except OSError:
            return True
