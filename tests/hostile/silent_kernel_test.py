# SPDX-License-Identifier: Apache-2.0
"""Kernels that do not say over netlink who is calling, because the module tcp_diag is missing: /proc/self/net/tcp says it. If that
cannot be read either, nobody is let in, and the answer says why. The kernel is made silent by a seccomp filter."""

import ctypes
import errno
import os
import signal
import subprocess

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import users
from tests.e2e.users.users import as_nobody, gateway, sonded, start, stop
from tests.hostile.callers import as_root, grpc_as

SOCKET, AF_NETLINK = 41, 16
SILENCE = ("the kernel does not say who is calling (sock_diag: Address family not supported by protocol, /proc/net/tcp: No such file or "
           "directory): load the module tcp_diag, or send a token")


def refuse_netlink():
    check.refuse_call(SOCKET, errno.EAFNOSUPPORT, AF_NETLINK)


def mount_over_proc(kind, options):
    libc = ctypes.CDLL(None)
    if libc.unshare(0x20000) != 0 or libc.mount(None, b"/", None, 0x44000, None) != 0 or libc.mount(b"none", b"/proc", kind, 0, options) != 0:
        os._exit(98)


def refuse_netlink_in_unit():
    """As systemd does with ProtectProc=invisible and ProcSubset=pid: there is no /proc/net."""
    mount_over_proc(b"proc", b"subset=pid,hidepid=invisible")
    refuse_netlink()


def say_nothing():
    mount_over_proc(b"tmpfs", None)
    refuse_netlink()


def ask(host, who, *flags):
    """Returns the status and the body."""
    done = subprocess.run(who("curl", "-s", "-g", "-m", "60", "-w", "\n%{http_code}", *flags, f"http://{host}/v1/targets"), capture_output=True,
                          text=True, timeout=90, check=False)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def test_the_gateway_reads_the_table_of_sockets():
    service = sonded()
    try:
        for listen, at, silence in (("127.0.0.1:0", None, refuse_netlink_in_unit), ("[::1]:0", None, refuse_netlink),
                                    ("[::ffff:127.0.0.1]:0", "127.0.0.1", refuse_netlink)):
            process, host = gateway("--listen", listen, preexec_fn=silence)
            try:
                second = process.stdout.readline().split()[1].removeprefix("http://")
                for one in (host, f"{at}:{second.rpartition(':')[2]}" if at else second):
                    check.equal(ask(one, as_root)[0], 200, one)
                    status, body = ask(one, as_nobody)
                    check.equal(status, 401, one)
                    check.contains(body, "this gateway serves its own user and root")
            finally:
                stop(process)
    finally:
        stop(service)


def test_a_client_that_has_gone_is_not_taken_for_root():
    """The table has user 0 for a socket that its owner has closed."""
    program = ("import socket, sys\n"
               "host, port = sys.argv[1].split(':')\n"
               "client = socket.create_connection((host, int(port)))\n"
               "client.sendall(b'GET /v1/targets HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n"
               "client.close()\n")
    log = os.path.join(stack.WORK, "gateway-log")
    service = sonded()
    with open(log, "w", encoding="ascii") as file:
        process, host = gateway(preexec_fn=refuse_netlink, stderr=file)
    try:
        check.equal(ask(host, as_root)[0], 200)
        process.send_signal(signal.SIGSTOP)
        for _ in range(3):
            subprocess.run(as_nobody("/usr/bin/python3", "-c", program, host), timeout=60, check=True)
        process.send_signal(signal.SIGCONT)
        check.equal(ask(host, as_nobody)[0], 401)
        lines = check.until(lambda: requests_of(log, 5), what="the log of five requests")
        check.equal([line.count(" status=200 ") for line in lines], [1, 0, 0, 0, 0])
    finally:
        stop(process)
        stop(service)


def requests_of(log, count):
    with open(log, encoding="ascii") as file:
        lines = [line for line in file if "/v1/targets" in line]
    return lines if len(lines) >= count else None


def test_sonded_and_sonde_history_read_the_table_of_sockets():
    port = check.free_port()
    service = sonded("--grpc", f"127.0.0.1:{port}", preexec_fn=refuse_netlink)
    try:
        check.equal(grpc_as(as_root, f"127.0.0.1:{port}")[0], 0)
        status, text = grpc_as(as_nobody, f"127.0.0.1:{port}")
        check.equal(status, 1)
        check.contains(text, "serves its own user and root")
    finally:
        stop(service)
    process, address = history(refuse_netlink)
    try:
        check.equal(grpc_as(as_root, address, "History/GetHistoryInfo")[0], 0)
        check.contains(grpc_as(as_nobody, address, "History/GetHistoryInfo")[1], "serves its own user and root")
    finally:
        stop(process)


def history(preexec_fn, *flags):
    process = start(os.path.join(stack.PREFIX, "bin/sonde-history"), "--store", "sqlite:" + os.path.join(stack.WORK, "store"), "--grpc",
                    "127.0.0.1:0", *flags, env=stack.environment(), stdout=subprocess.PIPE, preexec_fn=preexec_fn)
    return process, process.stdout.readline().split()[1]


def test_without_an_answer_nobody_is_let_in_and_the_reason_is_told():
    tokens = os.path.join(stack.WORK, "tokens")
    with open(tokens, "w", encoding="ascii") as file:
        file.write("a-token-of-the-test\n")
    os.chmod(tokens, 0o600)
    service = sonded()
    process, host = gateway("--token-file", tokens, preexec_fn=say_nothing)
    try:
        for who in (as_root, as_nobody):
            status, body = ask(host, who)
            check.equal(status, 401)
            check.contains(body, SILENCE + " (Authorization: Bearer ..., or as the password of any user)")
            check.equal(ask(host, who, "-H", "Authorization: Bearer a-token-of-the-test")[0], 200)
    finally:
        stop(process)
        stop(service)
    for flags, then in (((), " (which this service accepts with --token-file)"), (("--token-file", tokens), "")):
        process, address = history(say_nothing, *flags)
        try:
            status, text = grpc_as(as_root, address, "History/GetHistoryInfo")
            check.equal(status, 1)
            check.contains(text, "UNAUTHENTICATED " + SILENCE + then)
        finally:
            stop(process)


users.install()
check.main(globals())
