# SPDX-License-Identifier: Apache-2.0
"""A guest that sends what it likes: the frames of guest.proto, encoded by hand, so that a test can also send wrong ones.

A message is a dict from field numbers to values; a list repeats a field. sonded believes the kernel about the peer's pid and
user, so a guest of another user must be another process: run() and Puppet start one."""

import array
import os
import pickle
import signal
import socket
import struct
import traceback

# FromGuest
HELLO, RINGS, MAPS, CPU_STATE, CPU_ACCOUNT, HEAP_ANSWER, HEAP_GDUMP = range(1, 8)
# ToGuest
WELCOME, REFUSAL, CPU_CONFIG, TABLE, TABLES_DONE, HEAP_COMMAND = range(1, 7)


def _varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(fields):
    """The bytes of a message. Values: int, bool, str, bytes, float (a double), dict (a message) or a list of these."""
    out = b""
    for number, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, dict):
                value = encode(value)
            if isinstance(value, str):
                value = value.encode()
            if isinstance(value, float):
                out += _varint(number << 3 | 1) + struct.pack("<d", value)
            elif isinstance(value, bytes):
                out += _varint(number << 3 | 2) + _varint(len(value)) + value
            else:
                out += _varint(number << 3) + _varint(value)
    return out


def _read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def each_field(data):
    """The fields of a message in order, as (number, value); strings and messages stay bytes."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _read_varint(data, at)
        else:
            size = 8 if wire == 1 else 4
            if wire == 2:
                size, at = _read_varint(data, at)
            value, at = data[at:at + size], at + size
        yield number, value


def decode(data):
    """The fields of a message. Of a repeated field, the last value counts."""
    return dict(each_field(data))


def frame(tag, fields):
    message = encode({tag: fields})
    return struct.pack("<I", len(message)) + message


connected = []


class Guest:
    """One connection to sonded, from this process. It lasts until close() or the end of the process."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect("\0" + path[1:] if path.startswith("@") else path)
        self.socket.settimeout(60)
        self.data, self.fds = b"", []
        connected.append(self)

    def send_bytes(self, data, fds=()):
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = self.socket.sendmsg([data], control)
        if sent < len(data):
            self.socket.sendall(data[sent:])

    def send(self, tag, fields, fds=()):
        self.send_bytes(frame(tag, fields), fds)

    def receive(self):
        """The next message as (tag, fields). Its descriptor, if any, is appended to self.fds. (None, None) at the end."""
        while len(self.data) < 4 or len(self.data) < 4 + struct.unpack_from("<I", self.data)[0]:
            data, control, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(64))
            for level, kind, content in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    self.fds += array.array("i", content[:len(content) // 4 * 4])
            if not data:
                return None, None
            self.data += data
        end = 4 + struct.unpack_from("<I", self.data)[0]
        message, self.data = decode(self.data[4:end]), self.data[end:]
        tag = next(iter(message), None)
        return tag, decode(message[tag]) if tag else {}

    def wait_for(self, *tags):
        """The next message with one of these tags; others are skipped. (None, None) at the end."""
        while True:
            tag, fields = self.receive()
            if tag is None or tag in tags:
                return tag, fields

    def hello(self, name="fake", **more):
        """Says Hello and returns the answer. `more` replaces fields by number: hello(f1=7) claims protocol 7."""
        fields = {1: 1, 2: os.getpid(), 3: name, 4: os.urandom(16), 5: "/fake", 7: 4096, 8: 1, 9: "0"}
        fields.update({int(key[1:]): value for key, value in more.items()})
        self.send(HELLO, fields)
        return self.receive()

    def maps(self, mappings, generation=1, last=True):
        """Claims executable mappings: (start, end, offset, major, minor, inode, path)."""
        rows = [dict(enumerate(mapping, 1)) for mapping in mappings]
        self.send(MAPS, {1: generation, 2: int(last), 3: rows})

    def tables(self):
        """The unwind tables up to TablesDone: their fields, each with its bytes as "image"."""
        found = []
        while True:
            tag, fields = self.wait_for(TABLE, TABLES_DONE)
            if tag != TABLE:
                return found
            fd = self.fds.pop(0)
            found.append({**fields, "image": os.pread(fd, fields.get(4, 0), 0)})
            os.close(fd)

    def close(self):
        self.socket.close()
        connected.remove(self)


def become(uid):
    if os.geteuid() == 0 and uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)


class Puppet:
    """A child process of another user that runs function(*arguments, report) and then sleeps until kill(). `report(value)` sends
    a value to result()."""

    def __init__(self, uid, function, *arguments):
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(reader)
                become(uid)
                function(*arguments, lambda value: os.write(writer, pickle.dumps(value)))
                status = 0
                while True:
                    signal.pause()
            except BaseException:  # pylint: disable=broad-except
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writer)
        self.reader = os.fdopen(reader, "rb")

    def result(self):
        return pickle.load(self.reader)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.reap()

    def reap(self):
        os.waitpid(self.pid, 0)
        self.reader.close()


def run(uid, function, *arguments):
    """What function(*arguments) returns, run by a process of another user."""
    puppet = Puppet(uid, lambda *all_arguments: all_arguments[-1](function(*all_arguments[:-1])), *arguments)
    try:
        return puppet.result()
    finally:
        puppet.kill()
