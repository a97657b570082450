# SPDX-License-Identifier: Apache-2.0
"""Hosts that register with sonde-collect over gRPC, each a few lines of Python: what a host may say, and what ends its call."""

import os
import queue
import subprocess

import grpc

from tests.cli import check
from tests.fleet.collector import messages

MESSAGE = messages("proto/controller.desc")
COLLECT = os.path.abspath("clients/collect/sonde-collect")
METHOD = "/sonde.v1.Controller/"


class Controller:
    """sonde-collect, to which nobody but registrants comes."""

    def __enter__(self):
        self.folder = check.short_folder()
        self.address = f"unix:{self.folder}/grpc"
        with open(f"{self.folder}/log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([COLLECT, "--history", f"unix:{self.folder}/none", "--spool", f"{self.folder}/spool",
                                             "--grpc", self.address], stdout=subprocess.PIPE, stderr=log, text=True)
        check.equal(self.process.stdout.readline(), f"grpc: {self.address}\n", "the first line")
        self.channel = grpc.insecure_channel(self.address)
        return self

    def __exit__(self, *_):
        self.channel.close()
        self.process.terminate()
        self.process.communicate(timeout=60)
        check.equal(self.process.returncode, 0, "status")

    def hosts(self):
        call = self.channel.unary_unary(METHOD + "ListHosts", request_serializer=MESSAGE("ListHostsRequest").SerializeToString,
                                        response_deserializer=MESSAGE("ListHostsResponse").FromString)
        return {host.name: host for host in call(MESSAGE("ListHostsRequest")(), timeout=20).hosts}


class Registrant:
    """One call of RegisterHost. Requests may be messages or bytes."""

    def __init__(self, controller, *first):
        self.channel = grpc.insecure_channel(controller.address)
        self.requests = queue.Queue()
        for request in first:
            self.requests.put(request)
        method = self.channel.stream_stream(METHOD + "RegisterHost", request_serializer=lambda request: request
                                            if isinstance(request, bytes) else request.SerializeToString(),
                                            response_deserializer=MESSAGE("CollectRequest").FromString)
        self.answers = method(iter(self.requests.get, None))

    def say(self, **fields):
        self.requests.put(MESSAGE("RegisterHostRequest")(**fields))

    def end(self):
        """How the call ended: status, reason, text."""
        try:
            for _ in self.answers:
                pass
        except grpc.RpcError:
            pass
        reason = dict(self.answers.trailing_metadata() or ()).get("sonde-reason")
        return self.answers.code(), reason, self.answers.details()

    def close(self):
        self.requests.put(None)
        self.answers.cancel()
        self.channel.close()


def registration(name, instance="1"):
    return MESSAGE("RegisterHostRequest")(registration={"name": name, "instance": instance})


def hello(instance="1"):
    return {"hello": {"instance": instance, "source": 7, "epoch": 1, "first_seq": 1, "host": "h", "version": "0", "api_min": 1,
                      "api_max": 1}}


def test_a_host_is_asked_to_collect_and_listed_until_it_leaves():
    with Controller() as controller:
        host = Registrant(controller, registration("py"))
        first = next(host.answers)
        check.equal((first.start.session, first.settings.frequency_hz, first.settings.is_paused), ("fleet", 0, False), "the start")
        host.say(answer=hello())
        host.say(answer={"status": {"targets": 3}})
        check.until(lambda: controller.hosts()["py"].targets == 3, what="the host's status")
        check.equal(controller.hosts()["py"].source, "registered", "source")
        host.close()
        check.until(lambda: controller.hosts()["py"].state == 0, what="the end of the call")
        check.equal(controller.hosts()["py"].targets, 0, "targets of a host that is away")


def test_a_new_call_of_the_same_instance_replaces_the_old_one():
    with Controller() as controller:
        old = Registrant(controller, registration("py"))
        next(old.answers)
        old.say(answer=hello())
        check.until(lambda: controller.hosts()["py"].state == 2, what="the first call")
        stranger = Registrant(controller, registration("py", "2"))
        code, reason, text = stranger.end()
        check.equal((code, reason), (grpc.StatusCode.ABORTED, "SESSION_BUSY"), text)
        new = Registrant(controller, registration("py"))
        next(new.answers)
        code, _, text = old.end()
        check.equal((code, text), (grpc.StatusCode.CANCELLED, "the host has registered again"), "the old call")
        new.say(answer=hello())
        check.until(lambda: controller.hosts()["py"].state == 2, what="the second call")
        new.close()


def test_what_makes_no_sense_ends_the_call_and_nothing_else():
    wrong = (((MESSAGE("RegisterHostRequest")(),), "no registration"),
             ((registration(""),), "1 to 255 letters"), ((registration("a" * 256),), "1 to 255 letters"),
             ((registration("a b"),), "1 to 255 letters"), ((registration("a", "x" * 64),), "more than 63 bytes"),
             ((b"\xff\xff\xff",), "cannot be decoded"), ((registration("a"), b"\x12\x03\xff\xff\xff"), "cannot be decoded"),
             ((registration("a"), MESSAGE("RegisterHostRequest")()), "has no answer"),
             ((registration("a"), MESSAGE("RegisterHostRequest")(answer={"windows": [{"seq": 1, "process": 9}]})), "hello"),
             ((registration("a"), None), "has ended the call"),
             ((registration("a"), b"\x12" * ((4 << 20) + 1)), "larger than max"))
    with Controller() as controller:
        good = Registrant(controller, registration("good"))
        next(good.answers)
        good.say(answer=hello())
        for requests, expected in wrong:
            host = Registrant(controller, *requests)
            _, _, text = host.end()
            check.contains(text, expected)
            host.channel.close()
        check.equal(controller.hosts()["good"].state, 2, "the host that made no mistake")
        good.close()


def test_unknown_methods_are_refused():
    with Controller() as controller:
        call = controller.channel.unary_unary("/sonde.v1.Profiler/GetInfo", request_serializer=lambda _: b"",
                                              response_deserializer=lambda answer: answer)
        try:
            call(None, timeout=20)
            raise AssertionError("an unknown method was answered")
        except grpc.RpcError as error:
            check.equal(error.code(), grpc.StatusCode.UNIMPLEMENTED, "code")


check.main(globals())
