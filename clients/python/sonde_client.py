#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A small client of Sonde's gRPC service, to use or to copy from. It requires python3-grpcio and python3-protobuf, but no
generated code: it gets the message types from the service by server reflection.

    sonde_client.py [--service ADDR] targets [--all]
    sonde_client.py [--service ADDR] capture -d 10 -F 99 -o redis.svg [TARGET]
    sonde_client.py [--service ADDR] live [--windows N] [TARGET]
    sonde_client.py [--service ADDR] collect [-F 19] [--window S] [--windows N] NAME...
    sonde_client.py [--service ADDR] heap on|off|status [TARGET]
    sonde_client.py [--service ADDR] symbolize TARGET 0xADDRESS...

ADDR is unix:PATH or HOST:PORT (default: SONDE_SERVICE). TARGET is a name or a pid of any process; @all is the whole machine,
@all:NAME every process of that name, @all:PID a process and all that it starts. As a module:

    from sonde_client import Service
    service = Service("127.0.0.1:20179")
    for target in service.ListTargets().targets: print(target.name, target.pid)
    stream = service.StreamCpu(window_ms=500)      # an iterator; stream.cancel() stops it in the target, too
"""

import argparse
import collections
import os
import queue
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FORMATS = (  # by file extension
    (".pb.gz", "PPROF"),
    (".svg", "SVG_FLAMEGRAPH"),
    (".collapsed", "COLLAPSED"),
    (".speedscope.json", "SPEEDSCOPE"),
    (".firefox.json", "FIREFOX"),
    (".md", "MARKDOWN"),
    (".txt", "TEXT_TOP"),
    (".prof", "LEGACY_CPU"),
)


def _field(number, payload):
    """Encodes a length-delimited protobuf field; the payload must be shorter than 128 bytes."""
    return bytes((number << 3 | 2, len(payload))) + payload


def _fields(data):
    """Yields (number, payload) for each length-delimited field of a message; skips varint fields and knows no others."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            varint()
            continue
        length = varint()
        yield tag >> 3, data[at:at + length]
        at += length


def describe(channel, symbol, metadata=()):
    """Asks the service for the FileDescriptorProto that declares a symbol."""
    ask = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                request_serializer=None, response_deserializer=None)
    answers = ask(iter([_field(4, symbol.encode())]), metadata=metadata, timeout=10)
    for answer in answers:
        for number, body in _fields(answer):
            if number == 4:
                return descriptor_pb2.FileDescriptorProto.FromString(next(_fields(body))[1])
    raise LookupError(f"the service does not describe {symbol}")


class Service:
    """Has a method for each method of sonde.v1.Profiler and sonde.v1.History. Unary methods return a message; server-streaming methods return an
    iterator of messages that has cancel(). Pass the fields of the request as keyword arguments, and the deadline in seconds
    as `timeout`. Client-streaming methods take an iterable of dicts of fields instead."""

    def __init__(self, address, token=None, credentials=None, options=()):
        self.metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self.channel = (grpc.secure_channel(address, credentials, options) if credentials
                        else grpc.insecure_channel(address, options))
        pool = descriptor_pool.DescriptorPool()
        self._pool = pool
        self._factory = message_factory.MessageFactory(pool)
        for name in ("sonde.v1.Profiler", "sonde.v1.History"):
            pool.Add(describe(self.channel, name, self.metadata))
            for method in pool.FindServiceByName(name).methods:
                setattr(self, method.name, self._bind(method))

    def message(self, name):
        """Returns the class of a message type of sonde.v1."""
        return self._factory.GetPrototype(self._pool.FindMessageTypeByName("sonde.v1." + name))

    def _bind(self, method):
        request = self._factory.GetPrototype(method.input_type)
        response = self._factory.GetPrototype(method.output_type)
        described = descriptor_pb2.MethodDescriptorProto()
        method.CopyToProto(described)
        make = {(False, False): self.channel.unary_unary, (False, True): self.channel.unary_stream,
                (True, False): self.channel.stream_unary, (True, True): self.channel.stream_stream}[
                    described.client_streaming, described.server_streaming]
        stub = make(f"/{method.containing_service.full_name}/{method.name}",
                    request_serializer=request.SerializeToString, response_deserializer=response.FromString)
        if described.client_streaming:
            return lambda requests, timeout=None: stub((request(**fields) for fields in requests), timeout=timeout,
                                                       metadata=self.metadata)
        return lambda timeout=None, **fields: stub(request(**fields), timeout=timeout, metadata=self.metadata)

    def close(self):
        self.channel.close()


def selector(target):
    if not target:
        return {}
    if target == "@all" or target.startswith("@all:"):
        return {**selector(target[len("@all:"):]), "all": True}
    return {"pid": int(target)} if target.isdigit() else {"name": target}


def show_targets(service, args):
    for target in service.ListTargets(include_unattached=args.all, timeout=30).targets:
        print(f"{target.pid}\t{target.name}\t{target.user or target.uid}\t{target.clock or '-'}\t"
              f"{target.unavailable or ('no guest' if target.unattached else f'{target.captures_running} captures')}")


def capture(service, args):
    names = [name for ending, name in FORMATS if args.output.endswith(ending)]
    if not names:
        sys.exit(f"{args.output}: unknown extension; use one of {' '.join(ending for ending, _ in FORMATS)}")
    events = service.CaptureCpu(target=selector(args.target), duration_ms=round(args.duration * 1000),
                                frequency_hz=args.frequency, source=args.source, rendering={"format": names[0]})
    parts, samples, dropped, clock = [], 0, 0, ""
    for event in events:
        kind = event.WhichOneof("event")
        if kind == "progress":
            print(f"\r{event.progress.elapsed_ms / 1000:.0f} s  {event.progress.samples} samples", end="",
                  file=sys.stderr)
        elif kind == "result":
            samples, dropped, clock = event.result.samples, event.result.dropped, event.result.clock
        else:
            parts.append(event.chunk)
    with open(args.output, "wb") as out:  # write the file only once the result is complete
        out.writelines(parts)
    print(f"{args.output}: {samples} samples, {dropped} dropped, clock {clock}", file=sys.stderr)


class Dictionary:
    """The strings, frames and stacks that a stream has sent so far; windows refer to them by index."""

    def __init__(self):
        self.strings, self.frames, self.stacks = [], [], []

    def add(self, window):
        self.strings.extend(window.strings)
        self.frames.extend(window.frames)
        self.stacks.extend(window.stacks)

    def functions(self, stack):
        """Returns the names of the functions of a stack, leaf first."""
        return [self.strings[self.frames[frame].function] for frame in self.stacks[stack].frames]


def live(service, args):
    known = Dictionary()
    stream = service.StreamCpu(target=selector(args.target), window_ms=args.window,
                               frequency_hz=args.frequency, source=args.source, max_windows=args.windows)
    for window in stream:
        known.add(window)
        leaves = collections.Counter()
        for count in window.counts:
            leaves[(known.functions(count.stack) or [""])[0]] += count.count
        total = sum(leaves.values())
        top = "  ".join(f"{name} {100 * hits / total:.0f} %" for name, hits in leaves.most_common(3))
        print(f"{window.sequence}: {total} samples, {sum(d.count for d in window.drops)} dropped  {top}", flush=True)
        if window.last:
            print(window.end_reason)


class Definitions:
    """What a call of Collect has defined so far. A number may be defined anew."""

    def __init__(self):
        self.texts, self.processes, self.frames, self.stacks = {0: ""}, {}, {}, {}

    def add(self, answer):
        self.texts.update((text.number, text.text) for text in answer.texts)
        for known, new in ((self.processes, answer.processes), (self.frames, answer.frames), (self.stacks, answer.stacks)):
            known.update((item.number, item) for item in new)

    def rows(self, window):
        """Yields (functions, leaf first; thread's name; value) for each row of a window."""
        stack = 0
        for i, step in enumerate(window.stack):
            stack += step
            frames = (self.frames[number] for number in self.stacks[stack].frames)
            functions = [self.texts[line.function] for frame in frames for line in frame.lines]
            thread = window.threads[window.thread[i] if window.thread else 0]
            yield functions, self.texts[thread], window.value[i]


def collect(service, args):
    """Prints windows and acknowledges them, as a fleet controller does once it has stored them."""
    requests, known, windows = queue.Queue(), Definitions(), 0
    rules = [{"service": name, "probability": 1} for name in args.names]
    requests.put({"start": {"session": args.session, "controller": "sonde_client.py"},
                  "settings": {"rules": rules, "frequency_hz": args.frequency, "window_s": args.window}})
    answers = service.Collect(iter(requests.get, None))
    epoch = 0
    for answer in answers:
        epoch = answer.hello.epoch or epoch
        known.add(answer)
        for window in answer.windows:
            process, leaves = known.processes[window.process], collections.Counter()
            for functions, _, value in known.rows(window):
                leaves[(functions or [""])[0]] += value
            top = "  ".join(f"{name} {value / 1e6:.0f}" for name, value in leaves.most_common(3))
            print(f"{process.service} {process.pid}  {known.texts[window.event]}  {window.begin_unix_s}+{window.length_s} s  "
                  f"{sum(window.value) / 1e6:.0f} ms  {top}", flush=True)
            requests.put({"ack": {"epoch": epoch, "seq": window.seq}})
            windows += 1
        if args.windows and windows >= args.windows:
            break
    requests.put(None)


def heap(service, args):
    """Switches heap profiling of a target, or says what it is; a target that cannot be profiled says why in `note`."""
    target = selector(args.target)
    if args.switch == "on":
        state = service.HeapActivate(target=target, owner="sonde_client.py", timeout=30)
    elif args.switch == "off":
        state = service.HeapDeactivate(target=target, timeout=30).state
    else:
        state = service.HeapStatus(target=target, timeout=30)
    if not state.available:
        sys.exit(f"not available: {state.note}")
    print(f"{'on' if state.active else 'off'}" + (f", one sample per {state.sample_bytes} bytes" if state.active else ""))


def symbolize(service, args):
    """Prints each address with its function, file and line. Inlined functions come first, callers below them."""
    addresses = [int(address, 16) for address in args.addresses]
    answer = service.Symbolize(target=selector(args.target), addresses=addresses, wait_ms=5000, timeout=30)
    for address, symbols in zip(addresses, answer.symbols):
        for frame in symbols.frames:
            place = f" {frame.file}:{frame.line}" if frame.file else ""
            print(f"{address:#x}  {frame.name}{place}")
        if not symbols.frames:
            print(f"{address:#x}  ?? {symbols.reason or 'in no mapping'}")


def main():
    parser = argparse.ArgumentParser(description="A small client of Sonde's gRPC service.")
    parser.add_argument("--service", default=os.environ.get("SONDE_SERVICE", "unix:/run/sonde/grpc.sock"))
    parser.add_argument("--token", default=os.environ.get("SONDE_TOKEN"))
    verbs = parser.add_subparsers(dest="verb", required=True)
    targets = verbs.add_parser("targets")
    targets.set_defaults(run=show_targets)
    targets.add_argument("--all", action="store_true", help="every process that could be profiled")
    for name, run in (("capture", capture), ("live", live)):
        verb = verbs.add_parser(name)
        verb.add_argument("-F", "--frequency", type=int, default=99)
        verb.add_argument("--source", type=str.upper, default="AUTOMATIC", choices=("AUTOMATIC", "HOST", "GUEST"))
        verb.add_argument("target", nargs="?")
        verb.set_defaults(run=run)
    verbs.choices["capture"].add_argument("-d", "--duration", type=float, default=10)
    verbs.choices["capture"].add_argument("-o", "--output", required=True)
    verbs.choices["live"].add_argument("--window", type=int, default=1000, help="milliseconds")
    verbs.choices["live"].add_argument("--windows", type=int, default=0, help="exit after this many")
    gather = verbs.add_parser("collect")
    gather.set_defaults(run=collect)
    gather.add_argument("-F", "--frequency", type=int, default=19)
    gather.add_argument("--window", type=int, default=10, help="seconds")
    gather.add_argument("--windows", type=int, default=0, help="exit after this many")
    gather.add_argument("--session", default="sonde_client.py")
    gather.add_argument("names", nargs="+", metavar="NAME", help="of processes with the guest; * stands for any characters")
    switch = verbs.add_parser("heap")
    switch.set_defaults(run=heap)
    switch.add_argument("switch", choices=("on", "off", "status"))
    switch.add_argument("target", nargs="?")
    names = verbs.add_parser("symbolize")
    names.set_defaults(run=symbolize)
    names.add_argument("target")
    names.add_argument("addresses", nargs="+", metavar="0xADDRESS")
    args = parser.parse_args()
    try:
        args.run(Service(args.service, args.token), args)
    except grpc.RpcError as error:
        reason = dict(error.trailing_metadata() or ()).get("sonde-reason", error.code().name)
        sys.exit(f"{reason}: {error.details()}")
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
