# SPDX-License-Identifier: Apache-2.0
"""A client of Profiler.Collect in Python: decodes the definitions of a call, keeps each window once, and acknowledges it. It
stores nothing on disk; for tests of what speaks the other side of the protocol."""

import os
import queue
import threading

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

DESCRIPTORS = "proto/services.desc"


def messages(path=DESCRIPTORS):
    """The classes of the messages of sonde.v1, by name."""
    pool = descriptor_pool.DescriptorPool()
    factory = message_factory.MessageFactory(pool)
    with open(path, "rb") as file:
        for described in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
            pool.Add(described)
    return lambda name: factory.GetPrototype(pool.FindMessageTypeByName(f"sonde.v1.{name}"))


MESSAGE = messages() if os.path.exists(DESCRIPTORS) else None


class Store:
    """Windows by (source, epoch, seq)."""

    def __init__(self):
        self.lock = threading.Lock()
        self.windows, self.duplicates, self.stacks = {}, 0, {}

    def add(self, key, window):
        with self.lock:
            self.duplicates += key in self.windows
            self.windows[key] = window

    def sums(self):
        result = {}
        with self.lock:
            for window in self.windows.values():
                row = result.setdefault((window["service"], window["event"]), {"windows": 0, "samples": 0, "value": 0})
                row["windows"] += 1
                row["samples"] += window["samples"]
                row["value"] += window["value"]
        return result

    def has(self, doubt):
        with self.lock:
            return any(window["instance"] == doubt["instance"] and window["begin_unix_s"] == doubt["begin_unix_s"]
                       and window["event"] == doubt["event"] for window in self.windows.values())


class Call:
    """One call of Collect with one host, which a thread reads until it ends."""

    def __init__(self, address, store, settings, acknowledges=True, resend=()):
        self.store, self.acknowledges, self.error = store, acknowledges, None
        self.hello = self.status = None
        self.texts, self.processes, self.stacks, self.frames = {0: ""}, {}, {}, set()
        self.requests = queue.Queue()
        request = MESSAGE("CollectRequest")
        self.make = request
        self.requests.put(request(start={"session": "test", "controller": "python"}, settings=settings, resend_stacks=resend))
        self.channel = grpc.insecure_channel(address)
        method = self.channel.stream_stream("/sonde.v1.Profiler/Collect", request_serializer=request.SerializeToString,
                                            response_deserializer=MESSAGE("CollectResponse").FromString)
        self.answers = method(iter(self.requests.get, None))
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            for answer in self.answers:
                self._take(answer)
        except grpc.RpcError as error:
            self.error = error.code()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error
        self.requests.put(None)

    def _take(self, answer):
        if answer.HasField("hello"):
            self.hello = answer.hello
        if answer.HasField("status"):
            self.status = answer.status
        self.texts.update((text.number, text.text) for text in answer.texts)
        self.processes.update((process.number, process) for process in answer.processes)
        self.frames.update(frame.number for frame in answer.frames)
        for stack in answer.stacks:
            assert self.frames.issuperset(stack.frames), "a stack refers to a frame that was not defined"
            self.stacks[stack.number] = stack.id
            self.store.stacks[stack.id] = self.store.stacks.get(stack.id, 0) + 1
        for window in answer.windows:
            self._keep(window)
        if answer.windows and self.acknowledges:
            self.acknowledge(answer.windows[-1].seq)

    def acknowledge(self, seq):
        self.requests.put(self.make(ack={"epoch": self.hello.epoch, "seq": seq}))

    def resend(self, stacks):
        self.requests.put(self.make(resend_stacks=stacks))

    def _keep(self, window):
        process, number = self.processes[window.process], 0
        for difference in window.stack:
            number += difference
            assert number in self.stacks, f"stack {number} was not defined"
        assert len(window.stack) == len(window.value) and (len(window.thread) in (0, len(window.stack)))
        self.store.add((self.hello.source, self.hello.epoch, window.seq), {
            "service": process.service, "instance": process.instance, "event": self.texts[window.event],
            "begin_unix_s": window.begin_unix_s, "samples": window.samples,
            "value": sum(round(value * (window.weight or 1)) for value in window.value)})

    def end(self):
        self.answers.cancel()
        self.thread.join(30)
        self.channel.close()
