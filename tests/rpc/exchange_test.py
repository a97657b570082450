#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Many calls over one stream: exchange_test.py FAKE_SERVER."""

import contextlib
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path[:0] = [os.path.abspath("clients/python"), os.getcwd()]
import grpc  # noqa: E402

import sonde_client  # noqa: E402
from tests.cli import check  # noqa: E402

FAKE_SERVER = os.path.abspath(sys.argv.pop(1))
READ, CONTROL = "read-token-read-token", "control-token-control"
SLOW = {"build_id": "dead", "addresses": [3]}  # answered when wait_ms is over
OK, CANCELLED, INVALID, TIME_OVER, NOT_FOUND, DENIED, BUSY = 0, 1, 3, 4, 5, 7, 8
UNIMPLEMENTED, UNAVAILABLE, UNAUTHENTICATED = 12, 14, 16


class Server:
    def __init__(self, *args, token=None):
        self.folder = tempfile.mkdtemp(prefix="x.", dir="/tmp")
        if token:
            with open(f"{self.folder}/tokens", "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o600)) as out:
                out.write(f"{READ} read\n{CONTROL} control,read\n")
            args += ("--token-file", f"{self.folder}/tokens", "--token-everywhere")
        self.log = open(f"{self.folder}/log", "w", encoding="utf-8")
        self.child = subprocess.Popen([FAKE_SERVER, "--grpc", f"unix:{self.folder}/rpc", "--log", *args],
                                      stdout=subprocess.PIPE, stderr=self.log, text=True)
        assert self.child.stdout.readline().startswith("grpc: ")
        self.service = sonde_client.Service(f"unix:{self.folder}/rpc", token)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.service.close()
        self.child.terminate()
        status = self.child.wait(timeout=30)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        assert status == 0, f"the service ended with {status}"

    def logged(self):
        with open(f"{self.folder}/log", encoding="utf-8") as text:
            return text.read().splitlines()


class Exchange:
    """One stream: ask() sends a message, answer() waits for that of one call."""

    def __init__(self, server, raw=False):
        self.service, self.requests, self.answers, self.ended = server.service, queue.Queue(), {}, None
        self.messages, self.changed = 0, threading.Condition()
        if raw:
            stub = self.service.channel.stream_stream("/sonde.v1.Profiler/Exchange", request_serializer=None,
                                                      response_deserializer=None)
            self.stream = stub(iter(self.requests.get, None), metadata=self.service.metadata)
        else:
            self.stream = self.service.Exchange(iter(self.requests.get, None))
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        end = (OK, "")
        try:
            for message in self.stream:
                with self.changed:
                    self.messages += 1
                    for answer in getattr(message, "answers", ()):
                        assert answer.id not in self.answers, f"{answer.id} is answered twice"
                        self.answers[answer.id] = answer
                    self.changed.notify_all()
        except grpc.RpcError as error:
            end = (error.code().value[0], error.details())
        with self.changed:
            self.ended = end
            self.changed.notify_all()

    def call(self, number, method, deadline_ms=0, token=None, **fields):
        request = self.service.message(f"{method}Request")(**fields).SerializeToString()
        return {"id": number, "method": method, "request": request, "deadline_ms": deadline_ms,
                "authorization": f"Bearer {token}" if token else ""}

    def ask(self, *calls, cancelled=()):
        self.requests.put({"calls": calls, "cancelled": cancelled})

    def wait(self, condition, what):
        with self.changed:
            assert self.changed.wait_for(condition, 20), f"{what} did not come"

    def answer(self, number):
        self.wait(lambda: number in self.answers, f"an answer to {number}")
        return self.answers[number]

    def code(self, number):
        return self.answer(number).code

    def end(self):
        self.wait(lambda: self.ended is not None, "the end")
        return self.ended


@contextlib.contextmanager
def exchange(*args, token=None):
    with Server(*args, token=token) as server:
        stream = Exchange(server)
        yield stream
        if stream.ended is None:
            stream.requests.put(None)
            check.equal(stream.end(), (OK, ""))
        check.until(lambda: server.service.GetInfo().streams_running == 0, what="the streams end")


def test_calls_of_one_message_are_answered_each():
    with exchange() as stream:
        stream.ask(stream.call(1, "GetInfo"), stream.call(2, "ListTargets"), stream.call(3, "GetCommandLine"))
        check.equal([stream.code(number) for number in (1, 2, 3)], [OK] * 3)
        targets = stream.service.message("ListTargetsResponse").FromString(stream.answer(2).response)
        check.equal([target.name for target in targets.targets], ["demo"])


def test_an_empty_message_is_answered_at_once():
    with exchange() as stream:
        stream.ask()
        stream.wait(lambda: stream.messages == 1, "an answer")
        check.equal(stream.answers, {})


def test_a_quick_call_overtakes_a_slow_one():
    with exchange() as stream:
        stream.ask(stream.call(7, "Symbolize", wait_ms=800, **SLOW), stream.call(8, "GetInfo"))
        check.equal(stream.code(8), OK)
        assert 7 not in stream.answers
        check.equal(stream.code(7), OK)


def test_an_error_is_that_of_its_call_alone():
    with exchange() as stream:
        stream.ask(stream.call(1, "GetCommandLine", target={"name": "nobody"}), stream.call(2, "GetInfo"))
        check.equal((stream.code(1), stream.answer(1).reason), (NOT_FOUND, "TARGET_NOT_FOUND"))
        check.contains(stream.answer(1).message, "nobody")
        check.equal(stream.code(2), OK)


def test_what_cannot_be_called_is_said():
    with exchange() as stream:
        empty = {"request": b""}
        stream.ask({"id": 1, "method": "Nobody", **empty}, {"id": 2, "method": "", **empty},
                   {"id": 3, "method": "/sonde.v1.Profiler/GetInfo", **empty}, {"id": 4, "method": "StreamCpu", **empty},
                   {"id": 5, "method": "Exchange", **empty}, {"id": 6, "method": "Symbolize", "request": b"\xff\xff"},
                   {"id": 7, "method": "GetInfo", "deadline_ms": 3600001}, {"id": 8, "method": "GetInfo"})
        check.equal([stream.code(number) for number in range(1, 9)],
                    [UNIMPLEMENTED] * 3 + [INVALID, INVALID, INVALID, INVALID, OK])
        check.contains(stream.answer(4).message, "by itself")


def test_a_cancelled_call_is_answered_so():
    with exchange() as stream:
        stream.ask(stream.call(1, "Symbolize", wait_ms=10000, **SLOW), stream.call(2, "GetInfo"))
        stream.answer(2)
        stream.ask(cancelled=[1, 2, 99])
        check.equal(stream.code(1), CANCELLED)


def test_a_call_cancelled_in_its_own_message_is_answered_so():
    with exchange() as stream:
        stream.ask(stream.call(1, "Symbolize", wait_ms=10000, **SLOW), cancelled=[1])
        check.equal(stream.code(1), CANCELLED)


def test_a_deadline_ends_its_call_alone():
    with exchange() as stream:
        stream.ask(stream.call(1, "Symbolize", deadline_ms=50, wait_ms=10000, **SLOW),
                   stream.call(2, "Symbolize", deadline_ms=20000, wait_ms=300, **SLOW))
        check.equal((stream.code(1), stream.answer(1).reason), (TIME_OVER, "DEADLINE_EXCEEDED"))
        check.equal(stream.code(2), OK)


def test_every_token_is_judged_by_itself():
    with exchange(token=READ) as stream:
        stream.ask(stream.call(1, "GetInfo"), stream.call(2, "StartCpu"), stream.call(3, "StartCpu", token=CONTROL),
                   stream.call(4, "GetInfo", token="wrong"), stream.call(5, "StartCpu", token=READ),
                   stream.call(6, "GetInfo", token=READ))
        check.equal([stream.code(number) for number in range(1, 7)], [OK, DENIED, OK, UNAUTHENTICATED, DENIED, OK])
        check.contains(stream.answer(2).message, "scope control")


def test_without_a_token_there_is_no_stream():
    with Server(token=READ) as server:
        server.service.metadata = ()
        check.equal(Exchange(server).end()[0], UNAUTHENTICATED)
        server.service.metadata = (("authorization", f"Bearer {READ}"),)


def test_an_id_that_runs_ends_the_stream():
    with exchange() as stream:
        stream.ask(stream.call(5, "Symbolize", wait_ms=10000, **SLOW), stream.call(5, "GetInfo"))
        code, text = stream.end()
        check.equal(code, INVALID)
        check.contains(text, "id 5")


def test_an_id_may_be_used_again_after_its_answer():
    with Server() as server:
        stream = Exchange(server)
        for _ in range(3):
            stream.ask(stream.call(5, "GetInfo"))
            check.equal(stream.code(5), OK)
            stream.answers.clear()
        stream.requests.put(None)
        check.equal(stream.end()[0], OK)


def test_more_calls_than_may_run_are_refused_each():
    with exchange() as stream:
        for start in (0, 600):
            stream.ask(*(stream.call(start + n, "Symbolize", wait_ms=60000, **SLOW) for n in range(1, 601)))
        refused = [stream.answer(number) for number in range(1025, 1201)]
        check.equal({answer.reason for answer in refused}, {"TOO_MANY_CAPTURES"})
        stream.ask(cancelled=range(1, 1025))
        check.equal({stream.code(number) for number in range(1, 1025)}, {CANCELLED})
        stream.ask(stream.call(2000, "GetInfo"))
        check.equal(stream.code(2000), OK)


def test_a_message_of_too_many_calls_ends_the_stream():
    for message in ({"calls": 1025}, {"cancelled": 1025}):
        with exchange() as stream:
            stream.ask(*(stream.call(n, "GetInfo") for n in range(message.get("calls", 0))),
                       cancelled=range(message.get("cancelled", 0)))
            check.contains(stream.end()[1], "1024")


def test_bytes_that_are_no_message_end_their_stream_and_no_other():
    with exchange() as other:
        server_like = type("Like", (), {"service": other.service})
        dice = random.Random(1)
        for bad in (b"\xff", b"\x0a\x05ab", b"\x0a\xff\xff\xff\xff\x0f", *(dice.randbytes(40) for _ in range(50))):
            stream = Exchange(server_like, raw=True)
            stream.requests.put(bad)
            stream.requests.put(None)
            assert stream.end()[0] in (OK, INVALID, 8), stream.end()
        other.ask(other.call(1, "GetInfo"))
        check.equal(other.code(1), OK)


def test_half_close_waits_for_what_runs():
    with Server() as server:
        stream = Exchange(server)
        stream.ask(stream.call(1, "Symbolize", wait_ms=400, **SLOW))
        stream.requests.put(None)
        check.equal(stream.code(1), OK)
        check.equal(stream.end(), (OK, ""))


def test_a_stream_without_a_message_ends_well():
    with Server() as server:
        stream = Exchange(server)
        stream.requests.put(None)
        check.equal(stream.end(), (OK, ""))


def test_a_client_that_goes_away_ends_its_calls():
    with Server() as server:
        stream = Exchange(server)
        stream.ask(*(stream.call(n, "Symbolize", wait_ms=10000, **SLOW) for n in range(1, 21)), stream.call(50, "GetInfo"))
        stream.answer(50)
        stream.stream.cancel()
        check.until(lambda: sum("call=Symbolize" in line and "CANCELLED" in line for line in server.logged()) == 20,
                    what="the log of 20 cancelled calls")


def test_every_call_has_its_line_in_the_log():
    with Server() as server:
        stream = Exchange(server)
        stream.ask(stream.call(1, "GetInfo"), stream.call(2, "GetCommandLine", target={"name": "nobody"}))
        stream.answer(2)
        stream.requests.put(None)
        stream.end()
        check.until(lambda: any("call=Exchange" in line for line in server.logged()), what="the stream's line")
        lines = server.logged()
        assert any("call=GetInfo peer=unix" in line and "status=OK" in line for line in lines), lines
        assert any("call=GetCommandLine" in line and "status=TARGET_NOT_FOUND" in line for line in lines), lines
        assert any("call=Exchange" in line and "calls=2" in line for line in lines), lines


def test_a_service_that_stops_answers_what_runs():
    with Server("--grace-ms", "10000") as server:
        stream = Exchange(server)
        stream.ask(stream.call(1, "Symbolize", wait_ms=700, **SLOW), stream.call(2, "GetInfo"))
        stream.answer(2)
        server.child.send_signal(signal.SIGTERM)
        check.equal(stream.code(1), OK)
        check.equal(stream.end()[0], UNAVAILABLE)


def test_a_killed_service_ends_the_stream():
    server = Server()
    stream = Exchange(server)
    stream.ask(stream.call(1, "Symbolize", wait_ms=10000, **SLOW), stream.call(2, "GetInfo"))
    stream.answer(2)
    server.child.kill()
    check.equal(stream.end()[0], UNAVAILABLE)
    assert 1 not in stream.answers
    server.child.wait()
    shutil.rmtree(server.folder, ignore_errors=True)


def test_large_answers_come_whole():
    with exchange() as stream:
        addresses = list(range(8192))
        stream.ask(*(stream.call(n, "Symbolize", build_id="abcd", addresses=addresses) for n in range(1, 31)))
        check.equal({stream.code(n) for n in range(1, 31)}, {OK})
        sizes = {len(stream.answer(n).response) for n in range(1, 31)}
        check.equal(len(sizes), 1)
        assert sizes.pop() > 8192


def test_a_client_that_reads_nothing_is_read_no_more():
    """It asks for answers of a megabyte, without end."""
    with Server() as server:
        with open(f"/proc/{server.child.pid}/statm", encoding="ascii") as before:
            pages = int(before.read().split()[1])
        stub = server.service.channel.stream_stream("/sonde.v1.Profiler/Exchange", response_deserializer=None,
                                                    request_serializer=server.service.message("ExchangeRequest").SerializeToString)
        request = server.service.message("SymbolizeRequest")(build_id="abcd", addresses=range(65536)).SerializeToString()
        sent = []

        def requests():
            for number in range(1, 400):
                sent.append(number)
                yield server.service.message("ExchangeRequest")(calls=[{"id": number, "method": "Symbolize", "request": request}])
        call = stub(requests())
        time.sleep(2)
        with open(f"/proc/{server.child.pid}/statm", encoding="ascii") as after:
            grown = (int(after.read().split()[1]) - pages) * 4096 >> 20
        with open(f"/proc/{server.child.pid}/maps", encoding="utf-8") as text:
            sanitized = any("libasan" in line or "libtsan" in line for line in text)
        server.service.GetInfo()
        call.cancel()
        assert grown < 200 or sanitized, f"{grown} MB for a client that reads nothing"
        assert len(sent) < 399, "everything was read"


check.main(globals())
