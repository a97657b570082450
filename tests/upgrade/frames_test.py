# SPDX-License-Identifier: Apache-2.0
"""Guests and services of different releases: each side of this build against the frames that the other side of release 0.2.0 sent.

frames-0.2.0.txt was recorded between that release's guest and sonded during a capture and a heap profile, with
`frames_test.py --record SONDED_SOCKET LISTEN`: one frame per line, the sender and the bytes without the length. A later release that
cannot replay it has broken the rules in guest.proto. Add a file for each release that adds messages; never change one."""

import fcntl
import os
import socket
import struct
import subprocess
import sys
import threading

from tests.hostile import fake_guest
from tests.hostile.fake_guest import CPU_CONFIG, CPU_STATE, HEAP_ANSWER, HEAP_COMMAND, HELLO, MAPS, RINGS, TABLES_DONE, WELCOME, decode

FRAMES = "tests/upgrade/frames-0.2.0.txt"
PAGE = 4096
F_ADD_SEALS, F_SEAL_SHRINK, F_SEAL_GROW = 1033, 2, 4
UNKNOWN = 1000  # a field and a message that no release has yet


def recorded(sender):
    """The messages of "guest" or "sonded" as (tag, fields)."""
    with open(FRAMES, encoding="ascii") as lines:
        rows = [line.split() for line in lines if not line.startswith("#")]
    for who, text in rows:
        if who == sender:
            [(tag, message)] = list(fake_guest.each_field(bytes.fromhex(text)))
            yield tag, decode(message)


def first(sender, tag, **wanted):
    """The first recorded message of a kind; f2=1 asks for its field 2 to be 1, and f2=0 for it not to be there."""
    wants = {int(key[1:]): value for key, value in wanted.items()}
    return next(fields for found, fields in recorded(sender)
                if found == tag and all(fields.get(number, 0) == value for number, value in wants.items()))


def bytes_of(sender, tag):
    """The bytes of the first recorded frame of a kind, as they were sent."""
    with open(FRAMES, encoding="ascii") as lines:
        for line in lines:
            if line.split()[0] == sender and next(fake_guest.each_field(bytes.fromhex(line.split()[1])))[0] == tag:
                data = bytes.fromhex(line.split()[1])
                return struct.pack("<I", len(data)) + data
    raise AssertionError(f"no frame {tag} of {sender}")


# ---- The recorder ----

def relay(source, target, sender, lock):
    data = b""
    while True:
        part, fds, _, _ = socket.recv_fds(source, 65536, 8)
        if not part:
            target.shutdown(socket.SHUT_WR)
            return
        socket.send_fds(target, [part], fds)
        for fd in fds:
            os.close(fd)
        data += part
        while len(data) >= 4 and len(data) >= 4 + struct.unpack_from("<I", data)[0]:
            end = 4 + struct.unpack_from("<I", data)[0]
            with lock:
                print(sender, data[4:end].hex(), flush=True)
            data = data[end:]


def record(service, path):
    listener, lock = socket.socket(socket.AF_UNIX), threading.Lock()
    listener.bind(path)
    listener.listen()
    guest = listener.accept()[0]
    sonded = socket.socket(socket.AF_UNIX)
    sonded.connect(service)
    threading.Thread(target=relay, args=(sonded, guest, "sonded", lock), daemon=True).start()
    relay(guest, sonded, "guest", lock)


# ---- A guest of 0.2.0 and this sonded ----

def start_sonded():
    process = subprocess.Popen([f"{stack.PREFIX}/bin/sonded", "--sampler", "", "--socket", f"{stack.WORK}/guest.sock"],
                               env=stack.environment(), stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("grpc: ")
    return process


def old_guest():
    guest = fake_guest.Guest(f"{stack.WORK}/guest.sock")
    guest.send_bytes(bytes_of("guest", HELLO))
    return guest


def empty_rings():
    """The shared memory that comes with the recorded Rings, in layout 1 of ring.h, without a record."""
    rings = first("guest", RINGS)
    count, size = rings[1], rings[2]
    fd = os.memfd_create("rings", os.MFD_ALLOW_SEALING)
    os.truncate(fd, PAGE + count * (PAGE + size))
    os.pwrite(fd, struct.pack("<8sIIQ", b"SndRing1", 1, count, size), 0)
    fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)
    return fd


def list_targets():
    return stack.sonde("targets", "--json", "--service", f"unix:{stack.WORK}/grpc.sock")[0]


def test_an_old_guest_is_accepted_with_its_version():
    guest = old_guest()
    tag, fields = guest.receive()
    check.equal((tag, fields), (WELCOME, first("sonded", WELCOME)))
    check.contains(list_targets(), "0.2.0")
    guest.close()


def test_a_capture_of_an_old_guest_is_what_it_was():
    guest = old_guest()
    check.equal(guest.receive()[0], WELCOME)
    capture = subprocess.Popen([stack.SONDE, "record", "demo", "-d", "1", "--source", "guest", "-o", f"{stack.WORK}/old.pb.gz",
                                "--service", f"unix:{stack.WORK}/grpc.sock"], env=stack.environment(), stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    tag, config = guest.wait_for(CPU_CONFIG)
    check.equal((tag, set(config) >= {1, 2}), (CPU_CONFIG, True))
    guest.send_bytes(bytes_of("guest", RINGS), [empty_rings()])
    guest.send_bytes(bytes_of("guest", MAPS))
    check.equal(guest.wait_for(TABLES_DONE)[0], TABLES_DONE)
    guest.send(CPU_STATE, {**first("guest", CPU_STATE, f2=1), 1: config[1]})
    stop = guest.wait_for(CPU_CONFIG)[1]
    check.equal(stop.get(2, 0), 0)
    guest.send(CPU_STATE, {**first("guest", CPU_STATE, f2=0), 1: stop[1]})
    check.contains(capture.communicate(timeout=60)[1], "no samples")
    check.equal(capture.returncode, 0)
    guest.close()


def test_a_newer_guest_is_accepted():
    guest = fake_guest.Guest(f"{stack.WORK}/guest.sock")
    guest.send(HELLO, {**first("guest", HELLO), UNKNOWN: "a field of a later release"})
    check.equal(guest.receive()[0], WELCOME)
    guest.send(UNKNOWN, {1: "a message of a later release"})
    check.contains(list_targets(), "0.2.0")
    guest.close()


# ---- A sonded of 0.2.0 and this guest ----

class Service:
    """What listens for a demo server with this build's guest, and what came from it."""

    def __enter__(self):
        path = f"{stack.WORK}/old.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        listener.settimeout(60)
        self.demo = subprocess.Popen(["clients/demo/demo"], stdout=subprocess.DEVNULL,
                                     env={**stack.environment(), "SONDE_SOCKET": path, "LD_PRELOAD": f"{stack.PREFIX}/lib/libsonde.so"})
        self.peer = fake_guest.Guest.__new__(fake_guest.Guest)  # the same frames, from the other end
        self.peer.socket, self.peer.data, self.peer.fds = listener.accept()[0], b"", []
        self.peer.socket.settimeout(60)
        listener.close()
        os.unlink(path)
        return self.peer

    def __exit__(self, *_):
        self.peer.socket.close()
        check.stop(self.demo)


def check_fields(tag, fields, **wanted):
    """A newer guest may add fields, and must not drop one that the old release filled in."""
    missing = set(first("guest", tag, **wanted)) - set(fields)
    assert not missing, f"message {tag} lacks the fields {missing}"


def test_this_guest_says_to_an_old_sonded_what_it_expects():
    with Service() as guest:
        tag, hello = guest.receive()
        check.equal(tag, HELLO)
        check_fields(HELLO, hello)
        check.equal(hello[1], first("guest", HELLO)[1], "the number of the protocol")
        guest.send_bytes(bytes_of("sonded", WELCOME))
        guest.send_bytes(bytes_of("sonded", CPU_CONFIG))
        tag, maps = guest.wait_for(MAPS)
        check_fields(MAPS, maps)
        while not maps.get(2):
            tag, maps = guest.wait_for(MAPS)
        guest.send(TABLES_DONE, {1: maps[1]})
        state = guest.wait_for(CPU_STATE)[1]
        check.equal((state[1], state.get(2)), (first("sonded", CPU_CONFIG)[1], 1))
        check_fields(CPU_STATE, state, f2=1)
        stop = first("sonded", CPU_CONFIG, f2=0)
        guest.send(CPU_CONFIG, stop)
        while state.get(2) or state[1] != stop[1]:
            state = guest.wait_for(CPU_STATE)[1]
        command = first("sonded", HEAP_COMMAND)
        guest.send(HEAP_COMMAND, command)
        check.equal(guest.wait_for(HEAP_ANSWER)[1][1], command[1])


def test_this_guest_ignores_what_a_newer_sonded_adds():
    with Service() as guest:
        check.equal(guest.receive()[0], HELLO)
        guest.send(WELCOME, {**first("sonded", WELCOME), UNKNOWN: "a field of a later release"})
        guest.send(UNKNOWN, {1: "a message of a later release"})
        command = first("sonded", HEAP_COMMAND)
        guest.send(HEAP_COMMAND, command)
        check.equal(guest.wait_for(HEAP_ANSWER)[1][1], command[1])


if sys.argv[1:2] == ["--record"]:
    record(*sys.argv[2:4])
    sys.exit(0)

from tests.cli import check  # noqa: E402  pylint: disable=wrong-import-position
from tests.e2e import stack  # noqa: E402  pylint: disable=wrong-import-position

stack.install()
SONDED = start_sonded()
try:
    check.main(globals())
finally:
    check.stop(SONDED)
