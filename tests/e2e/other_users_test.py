# SPDX-License-Identifier: Apache-2.0
"""One sonded for the whole machine, run by root: with --everybody, servers of other users connect to it."""

import os
import shutil
import subprocess

from tests.cli import check
from tests.e2e import stack

NOBODY = 65534
SOCKETS = os.path.join(stack.WORK, "host")
GUESTS = os.path.join(SOCKETS, "guest.sock")
RPC = "unix:" + os.path.join(SOCKETS, "grpc.sock")
started = []


def start(*words, **more):
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, text=True, **more)
    started.append(process)
    return process


def sonded(*flags):
    if os.geteuid() != 0:
        raise check.Skip("only root can start a program as another user")
    process = start(os.path.join(stack.PREFIX, "bin/sonded"), "--socket", GUESTS, "--grpc", RPC, *flags,
                    env=stack.environment(), stdout=subprocess.PIPE)
    assert process.stdout.readline().startswith("grpc: ")
    return process


def as_nobody(*words):
    return ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--", *words)


def server(*words):
    """Starts a program with the guest as another user."""
    env = {**stack.environment(), "LD_PRELOAD": os.path.join(stack.PREFIX, "lib/libsonde.so"), "SONDE_SOCKET": GUESTS,
           "SONDE_NAME": "others"}
    return start(*as_nobody(os.path.join(stack.WORK, "busy"), *words), env=env, stdout=subprocess.DEVNULL)


def targets():
    out, _ = stack.sonde("targets", "--service", RPC)
    return out


def stop(process):
    check.stop(process)
    started.remove(process)


def test_a_server_of_another_user_is_profiled():
    service, other = sonded("--everybody"), server()
    try:
        check.until(lambda: "others" in targets(), what="the other user's server")
        profile = os.path.join(stack.WORK, "others.collapsed")
        stack.sonde("record", "others", "--service", RPC, "-d", "1", "-F", "499", "-o", profile)
        with open(profile, encoding="utf-8") as file:
            check.contains(file.read(), "burn")
        assert other.poll() is None
    finally:
        stop(other)
        stop(service)


def test_time_in_a_kernel_that_must_not_be_sampled_is_shown_as_such():
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
        if int(file.read()) < 2:
            raise check.Skip("kernel.perf_event_paranoid lets everybody sample kernel code")
    service, other = sonded("--everybody"), server("kernel")
    try:
        check.until(lambda: "others" in targets(), what="the other user's server")
        profile = os.path.join(stack.WORK, "kernel.collapsed")
        stack.sonde("record", "others", "--service", RPC, "-d", "3", "-F", "499", "-o", profile)
        with open(profile, encoding="utf-8") as file:
            text = file.read()
        check.contains(text, "[in the kernel]")
        assert "[no clock]" not in text, text
    finally:
        stop(other)
        stop(service)


def test_the_grpc_socket_stays_closed_to_other_users():
    service = sonded("--everybody")
    try:
        done = subprocess.run(as_nobody(stack.SONDE, "targets", "--service", RPC), env=stack.environment(), text=True,
                              capture_output=True, timeout=60, check=False)
        assert done.returncode != 0 and not done.stdout, done.stdout
        check.equal(oct(os.stat(GUESTS).st_mode & 0o777), "0o666")
        check.equal(oct(os.stat(SOCKETS).st_mode & 0o777), "0o711")
    finally:
        stop(service)


def test_without_everybody_it_serves_only_its_own_user():
    shutil.rmtree(SOCKETS, ignore_errors=True)
    service, other, mine = sonded(), server(), None
    try:
        env = {**stack.environment(), "LD_PRELOAD": os.path.join(stack.PREFIX, "lib/libsonde.so"), "SONDE_SOCKET": GUESTS,
               "SONDE_NAME": "mine"}
        mine = start(os.path.join(stack.WORK, "busy"), env=env, stdout=subprocess.DEVNULL)
        check.until(lambda: "mine" in targets(), what="our own server")
        assert "others" not in targets(), targets()
        assert other.poll() is None
    finally:
        for process in filter(None, (mine, other, service)):
            stop(process)


BUSY = "int burn(void) { volatile unsigned n = 0; for (unsigned i = 0; i < 1000000; i++) n += i; return (int)n; }\n" \
       "#include <fcntl.h>\n#include <unistd.h>\nstatic char zeros[1 << 26];\n" \
       "int main(int argc, char **argv) {\n" \
       "    int fd = open(\"/dev/zero\", O_RDONLY);\n" \
       "    for (;;) argc > 1 ? (int)read(fd, zeros, sizeof zeros) : burn();\n}\n"

stack.install()
os.chmod(stack.WORK, 0o755)
subprocess.run(["gcc", "-g", "-O1", "-x", "c", "-", "-o", os.path.join(stack.WORK, "busy")], input=BUSY, text=True, check=True)
check.main(globals())
