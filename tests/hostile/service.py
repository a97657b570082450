# SPDX-License-Identifier: Apache-2.0
"""A hostile service: service.py SOCKET WAY [FILE TABLE]. It listens in place of sonded and prints what happens.

WAY "listen" accepts one server and says "received N bytes" once the server has hung up, or has sent its Hello. "table" starts a
capture and passes FILE, an ordinary file with the bytes of TABLE, as the unwind table of the program called "busy". When samples
are being taken, it truncates the file, waits until the server has used CPU time, ends the capture and says "survived"."""

import os
import shutil
import socket
import struct
import sys
import time

from fake_guest import CPU_CONFIG, CPU_STATE, HELLO, MAPS, TABLE, TABLES_DONE, WELCOME, each_field, frame

PERIOD_NS = 1000000
CPU_TICKS = 50  # half a second
PEER_PID = slice(0, 4)  # in SO_PEERCRED


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        values = stat.read().rsplit(")", 1)[1].split()
    if values[0] in "ZX":
        raise OSError("it has died")
    return int(values[11]) + int(values[12])


def listen_only(link):
    link.settimeout(60)
    print("received", len(link.recv(4096)), "bytes", flush=True)


def read_exactly(link, size):
    out = b""
    while len(out) < size:
        part = link.recv(size - len(out))
        if not part:
            raise EOFError
        out += part
    return out


def receive(link):
    """The guest's next message: its tag and its bytes."""
    return next(each_field(read_exactly(link, struct.unpack("<I", read_exactly(link, 4))[0])))


def configure(link, sequence, period_ns):
    link.sendall(frame(CPU_CONFIG, {1: sequence, 2: period_ns}))


def send_table(link, maps, path, busy):
    """Notes the program's mapping, and sends its table when the mappings of a generation are complete."""
    for number, value in each_field(maps):
        if number == 3 and dict(each_field(value)).get(7, b"").endswith(b"/busy"):
            busy.update(each_field(value))
    fields = dict(each_field(maps))
    if not fields.get(2):
        return
    table = {1: fields[1], 2: busy[1], 3: busy[1] - busy.get(3, 0), 4: os.path.getsize(path)}
    with open(path, "rb") as file:
        socket.send_fds(link, [frame(TABLE, table)], [file.fileno()])
    link.sendall(frame(TABLES_DONE, {1: fields[1]}))


def cut(link, path):
    pid = int.from_bytes(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[PEER_PID], "little")
    os.truncate(path, 0)
    print("truncated", flush=True)
    end = cpu_ticks(pid) + CPU_TICKS
    while cpu_ticks(pid) < end:
        time.sleep(0.01)


def attack_with_table(link, path, table):
    shutil.copyfile(table, path)
    busy = {}
    while True:
        tag, body = receive(link)
        fields = dict(each_field(body))
        if tag == HELLO:
            link.sendall(frame(WELCOME, {1: 1}))
            configure(link, 1, PERIOD_NS)
        elif tag == MAPS:
            send_table(link, body, path, busy)
        elif tag == CPU_STATE and fields.get(2):
            cut(link, path)
            configure(link, 2, 0)
        elif tag == CPU_STATE and fields.get(1) == 2:
            print("survived", flush=True)
            return


def main():
    listener = socket.socket(socket.AF_UNIX)
    path = sys.argv[1]
    listener.bind("\0" + path[1:] if path.startswith("@") else path)
    if not path.startswith("@"):
        os.chmod(path, 0o777)
    listener.listen()
    print("listening", flush=True)
    link, _ = listener.accept()
    if sys.argv[2] == "listen":
        listen_only(link)
    else:
        try:
            attack_with_table(link, *sys.argv[3:])
        except (OSError, EOFError) as error:
            print("the server is gone:", repr(error), flush=True)


main()
