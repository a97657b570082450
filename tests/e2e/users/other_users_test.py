# SPDX-License-Identifier: Apache-2.0
"""One sonded for the whole machine, run by root: with --everybody, servers of other users connect to it."""

import os
import shutil
import subprocess

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users.users import GUESTS, RPC, SOCKETS, as_nobody, install, server, sonded, stop, targets


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
        mine = server(uid=0, name="mine")
        check.until(lambda: "mine" in targets(), what="our own server")
        assert "others" not in targets(), targets()
        assert other.poll() is None
    finally:
        for process in filter(None, (mine, other, service)):
            stop(process)


install()
check.main(globals())
