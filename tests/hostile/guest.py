# SPDX-License-Identifier: Apache-2.0
"""A hostile guest: guest.py SOCKET WAY KIND FOLDER. It attaches as "attacker" and answers sonded's heap commands as a server would,
but sends a descriptor of KIND as its allocation table (WAY "table"), its dump ("dump") or its dump at a new maximum ("gdump").
Prints "attached", and "refused" when sonded hangs up."""

import fcntl
import os
import sys

from fake_guest import Guest, HEAP_ANSWER, HEAP_COMMAND, HEAP_GDUMP

GDUMP_ON, DUMP = 4, 6
TABLE_BYTES = 4096 + (48 << 20) + (2 << 20) + (128 << 20)
TABLE_HEADER = (0x31636F6C41646E53).to_bytes(8, "little") + (1).to_bytes(4, "little")
TABLE_IN_USE = (1 << 20).to_bytes(4, "little") + (1 << 18).to_bytes(4, "little")  # at 64: entries_used, stack_count
DUMP_TEXT = b"heap_v2/524288\n  t*: 1: 1024 [0: 0]\n@ 0x1000\n  t*: 1: 1024 [0: 0]\n\nMAPPED_LIBRARIES:\n"
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def ordinary(content, size):
    path = os.path.join(FOLDER, "ordinary")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(fd, content)
    os.truncate(fd, size)
    return fd


def fifo():
    path = os.path.join(FOLDER, "fifo")
    if not os.path.exists(path):
        os.mkfifo(path)
    return os.open(path, os.O_RDWR)


def memory(content, size, seals):
    fd = os.memfd_create("dump", os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    os.truncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


KINDS = {
    "file": lambda: ordinary(DUMP_TEXT, len(DUMP_TEXT)),
    "table": lambda: ordinary(TABLE_HEADER.ljust(64, b"\0") + TABLE_IN_USE, TABLE_BYTES),
    "zero": lambda: os.open("/dev/zero", os.O_RDONLY),
    "kmsg": lambda: int(os.environ["KMSG"]),
    "fifo": fifo,
    "unsealed": lambda: memory(DUMP_TEXT, len(DUMP_TEXT), 0),
    "huge": lambda: memory(DUMP_TEXT, 1 << 40, SEALS),
    "holes": lambda: memory(DUMP_TEXT, 1 << 30, SEALS),
}


def heap_state(sequence):
    if WAY == "table":
        return {1: sequence, 6: 1, 14: 1, 15: 1, 19: 1}
    return {1: sequence, 4: "mallctl", 5: 1, 6: 1, 8: 1, 9: 1}


def answer_command(guest, command, descriptor):
    answer = heap_state(command.get(1, 0))
    if WAY == "table" and command.get(10) != 1:  # sonded does not have the table yet
        guest.send(HEAP_ANSWER, {**answer, 20: 1}, [descriptor])
    elif WAY == "dump" and command.get(2) == DUMP:
        guest.send(HEAP_ANSWER, {**answer, 12: len(DUMP_TEXT), 13: 1}, [descriptor])
    else:
        guest.send(HEAP_ANSWER, answer)
    if WAY == "gdump" and command.get(2) == GDUMP_ON:
        guest.send(HEAP_GDUMP, {1: len(DUMP_TEXT)}, [descriptor])


def main():
    guest = Guest(SOCKET)
    guest.hello("attacker")
    descriptor = KINDS[KIND]()
    print("attached", flush=True)
    try:
        while True:
            tag, command = guest.wait_for(HEAP_COMMAND)
            if tag is None:
                break
            answer_command(guest, command, descriptor)
    except ConnectionError:
        pass
    print("refused", flush=True)


SOCKET, WAY, KIND, FOLDER = sys.argv[1:]
main()
