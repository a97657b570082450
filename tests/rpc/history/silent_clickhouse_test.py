# SPDX-License-Identifier: Apache-2.0
"""sonde-history over a ClickHouse that takes connections and then answers nothing, or sends without end: SIGTERM ends the program at
the start and later, and a client that gives up ends the read. A program that waits on is ended by its watchdog, with status 1."""

import signal
import socket
import subprocess
import threading

import grpc

from tests.cli import check
from tests.rpc.history.deliveries import BEGIN, ENVIRONMENT, SONDE_HISTORY, History, delivery

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
VERSION = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n\x0718.16.1"
SELECTION = {"from_unix_ns": BEGIN * 10**9, "until_unix_ns": (BEGIN + 60) * 10**9}
ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n"


class ClickHouse:
    """Answers each request, but is silent at those whose text has `silent_at`, and never finishes those with `endless_at`."""

    def __init__(self, silent_at=b"", endless_at=b""):
        self.silent_at, self.endless_at = silent_at, endless_at
        self.waits, self.is_read, self.has_gone = (threading.Event() for _ in range(3))
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.store = f"clickhouse:http://127.0.0.1:{self.socket.getsockname()[1]}/sonde"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.socket.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            try:
                while request := self.read(connection):
                    self.answer(connection, request)
            except OSError:
                return

    @staticmethod
    def read(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            if not (more := connection.recv(65536)):
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        while lengths and len(body) < int(lengths[0]):
            body += connection.recv(65536)
        return head + body

    def answer(self, connection, request):
        if self.silent_at and self.silent_at in request:
            self.waits.set()
            connection.recv(1)  # until the other end closes it
            self.has_gone.set()
        elif self.endless_at and self.endless_at in request:
            self.send_endlessly(connection)
        else:
            connection.sendall(VERSION if b"version()" in request else EMPTY)

    def send_endlessly(self, connection):
        connection.sendall(ENDLESS)
        connection.settimeout(0.1)
        try:
            while True:
                connection.sendall(b"\1")
                self.waits.set()
                try:
                    if not connection.recv(1):
                        break
                except TimeoutError:
                    continue
        except OSError:
            pass
        self.has_gone.set()


def wait(event, what):
    assert event.wait(60), what


def test_sigterm_ends_a_program_whose_store_does_not_open():
    for statement in (b"version()", b"CREATE TABLE"):
        server = ClickHouse(silent_at=statement)
        with subprocess.Popen([SONDE_HISTORY, "--store", server.store, "--grpc", f"unix:{check.short_folder()}/grpc"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
            wait(server.waits, "a request")
            process.send_signal(signal.SIGTERM)
            output, errors = process.communicate(timeout=60)
            check.equal((process.returncode, output, errors), (0, "", ""), "the end")


def refused(call):
    try:
        call()
        raise AssertionError("the call succeeds")
    except grpc.RpcError as error:
        assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED), error.code()


def test_sigterm_ends_a_program_whose_queries_leases_and_maintenance_wait():
    calls = {b"stack AS st, thread": lambda service: service.QueryTop(selection=SELECTION, timeout=60),
             b"FROM leases": lambda service: service.RenewLease(group="g", holder="h", duration_s=60, timeout=60),
             b"FROM system.parts": None}
    for statement, call in calls.items():
        server, thread = ClickHouse(silent_at=statement), None
        with History(store=server.store) as history:  # which checks the status
            if call:
                thread = threading.Thread(target=refused, args=(lambda: call(history.service),))
                thread.start()
            wait(server.waits, "a request")
        if thread:
            thread.join(60)


def test_windows_whose_insert_hangs_are_not_acknowledged_when_the_program_ends():
    server, answers, errors = ClickHouse(silent_at=b"INSERT%20INTO%20samples"), [], []
    with History(store=server.store) as history:
        def write():
            try:
                answers.extend(history.service.Write(iter([delivery(0)]), timeout=60))
            except grpc.RpcError as error:
                errors.append(error.code())
        call = threading.Thread(target=write)
        call.start()
        wait(server.waits, "an insert")
    call.join(60)
    check.equal(answers, [], "the acknowledgements")
    assert errors and errors[0] in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED), errors


def late(service):
    try:
        service.QueryTop(selection=SELECTION, timeout=1)
        raise AssertionError("the call succeeds")
    except grpc.RpcError as error:
        check.equal(error.code(), grpc.StatusCode.DEADLINE_EXCEEDED, "the status")


def test_a_client_that_gives_up_or_is_late_ends_the_read():
    for options in ({"silent_at": b"stack AS st, thread"}, {"endless_at": b"stack AS st, thread"}):
        server = ClickHouse(**options)
        with History(store=server.store) as history:
            call = history.service.QueryTree(selection=SELECTION)
            wait(server.waits, "a query")
            call.cancel()
            wait(server.has_gone, "the end of the connection")
            server.has_gone.clear()
            late(history.service)
            wait(server.has_gone, "the end of the second connection")


check.main(globals())
