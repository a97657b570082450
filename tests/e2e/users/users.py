# SPDX-License-Identifier: Apache-2.0
"""What the tests with several users share: root's sonded and gateway, and programs that other users start."""

import os
import subprocess

from tests.cli import check
from tests.e2e import stack

NOBODY = 65534
SOCKETS = os.path.join(stack.WORK, "host")
GUESTS = os.path.join(SOCKETS, "guest.sock")
RPC = "unix:" + os.path.join(SOCKETS, "grpc.sock")
BUSY = os.path.join(stack.WORK, "busy")
started = []

PROGRAM = "int burn(void) { volatile unsigned n = 0; for (unsigned i = 0; i < 1000000; i++) n += i; return (int)n; }\n" \
          "#include <fcntl.h>\n#include <unistd.h>\nstatic char zeros[1 << 26];\n" \
          "int main(int argc, char **argv) {\n" \
          "    int fd = open(\"/dev/zero\", O_RDONLY);\n" \
          "    for (;;) argc > 1 ? (int)read(fd, zeros, sizeof zeros) : burn();\n}\n"


def install():
    """Installs Sonde where every user can run it, and BUSY: a program that burns CPU time in burn(), or with an argument in the
    kernel."""
    stack.install()
    os.chmod(stack.WORK, 0o755)
    subprocess.run(["gcc", "-g", "-O1", "-x", "c", "-", "-o", BUSY], input=PROGRAM, text=True, check=True)


def start(*words, **more):
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, text=True, **more)
    started.append(process)
    return process


def stop(process):
    check.stop(process)
    started.remove(process)


def sonded(*flags, **more):
    """Starts sonded and waits until it listens."""
    if os.geteuid() != 0:
        raise check.Skip("only root can start a program as another user")
    process = start(os.path.join(stack.PREFIX, "bin/sonded"), "--socket", GUESTS, "--grpc", RPC, *flags,
                    env=stack.environment(), stdout=subprocess.PIPE, **more)
    assert process.stdout.readline().startswith("grpc: ")
    return process


def gateway(*flags, **more):
    """Starts root's gateway and returns (process, HOST:PORT)."""
    process = start(os.path.join(stack.PREFIX, "bin/sonde-gateway"), "--service", RPC, "--listen", "127.0.0.1:0", *flags,
                    env=stack.environment(), stdout=subprocess.PIPE, **more)
    line = process.stdout.readline()
    assert line.startswith("http: "), line
    return process, line.split()[1].removeprefix("http://")


def as_user(uid, *words):
    if os.geteuid() != 0:
        raise check.Skip("only root can start a program as another user")
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--", *words)


def as_nobody(*words):
    return as_user(NOBODY, *words)


def guest_environment(name):
    return {**stack.environment(), "LD_PRELOAD": os.path.join(stack.PREFIX, "lib/libsonde.so"), "SONDE_SOCKET": GUESTS,
            "SONDE_NAME": name}


def server(*words, uid=NOBODY, name="others"):
    """Starts BUSY with the guest, as another user by default."""
    return start(*as_user(uid, BUSY, *words), env=guest_environment(name), stdout=subprocess.DEVNULL)


def targets():
    return stack.sonde("targets", "--service", RPC)[0]
