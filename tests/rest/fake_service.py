#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A sonde.v1.Profiler for tests with answers, errors and delays that the real service rarely gives. The name of the target
decides what happens:

    error-REASON      the call ends with that reason
    cut               a result breaks off in the middle
    short             a result ends without an error, but with half of the announced bytes
    long              a result has more bytes than announced
    large, huge       a result of 6 MB or of 17 MiB, in chunks
    idle              no samples
    noprof            jemalloc was started without prof:true
    glibc             the heap cannot be profiled
    full              heap dumps cannot be written and captures cannot be saved
    together          captures only end when twenty of them are running
    stubborn          captures do not end early
    slow              a capture takes its duration
    any other name    everything works; a capture takes a tenth of its duration

A collapsed or top result repeats the request, so that tests can check what arrived. `--targets a,b` are attached; `--unattached c,d` can
only be sampled from outside. It has a history (fake_history.py) unless `--no-history` is given. Prints "grpc: ADDR"."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from concurrent import futures

import grpc

import fake_bodies
import fake_history

SPEED = 10
TOGETHER = 20
REASONS = {  # name: (gRPC status, sentence[, reason if it differs from the name])
    "TARGET_NOT_FOUND": (grpc.StatusCode.NOT_FOUND, "no such process runs here"),
    "TARGET_AMBIGUOUS": (grpc.StatusCode.INVALID_ARGUMENT, "several targets are attached: say which"),
    "TARGET_CONFLICT": (grpc.StatusCode.INVALID_ARGUMENT, "two different targets were named"),
    "TARGET_GONE": (grpc.StatusCode.FAILED_PRECONDITION, "the target has exited"),
    "SESSION_BUSY": (grpc.StatusCode.ABORTED, "since 10:00:00, by tester, until 11:00:00"),
    "TOO_MANY_CAPTURES": (grpc.StatusCode.RESOURCE_EXHAUSTED, "64 captures of busy are running; the limit is 64"),
    "NO_CLOCK": (grpc.StatusCode.FAILED_PRECONDITION, "perf is refused and timers are too"),
    "UNAUTHENTICATED": (grpc.StatusCode.UNAUTHENTICATED, "the token is wrong"),
    "HEAP_BUSY": (grpc.StatusCode.ABORTED, "since 10:00:00, by tester; heap_deactivate stops it", "SESSION_BUSY"),
    "NOT_ACTIVE": (grpc.StatusCode.FAILED_PRECONDITION, "heap profiling is off"),
    "NOT_AVAILABLE": (grpc.StatusCode.FAILED_PRECONDITION, "start it with MALLOC_CONF=prof:true,prof_active:false"),
    "NO_HEAP": (grpc.StatusCode.FAILED_PRECONDITION, "it does not use jemalloc", "NOT_AVAILABLE"),
    "NO_GUEST": (grpc.StatusCode.FAILED_PRECONDITION, "memory profiles need the guest: start it with `sonde run -- COMMAND`",
                 "NOT_AVAILABLE"),
    "NOT_FOUND": (grpc.StatusCode.NOT_FOUND, "there is no such dump"),
    "NO_CAPTURE": (grpc.StatusCode.NOT_FOUND, "capture 9 not found; run `sonde captures` for a list", "NOT_FOUND"),
    "IO": (grpc.StatusCode.INTERNAL, "no space left on the device"),
    "NOBODY_KNOWS": (grpc.StatusCode.DATA_LOSS, "\x01\x1b[31m" * 100),
    "INTERNAL": (grpc.StatusCode.INTERNAL, "a <b>mistake</b>\tinside"),
    "STORE_IS_AWAY": (grpc.StatusCode.UNAVAILABLE, "the store does not answer", "UNAVAILABLE"),
    "TOO_LARGE": (grpc.StatusCode.RESOURCE_EXHAUSTED, "the query needs more than 512 MiB"),
    "QUERY_IS_SLOW": (grpc.StatusCode.DEADLINE_EXCEEDED, "the query took longer than 120 s", "DEADLINE_EXCEEDED"),
    "DEADLINE_EXCEEDED": (grpc.StatusCode.DEADLINE_EXCEEDED, "deadline exceeded"),
}


def load_messages(proto):
    folder = tempfile.mkdtemp(prefix="x.")
    root = os.path.abspath(proto)[:-len("sonde/v1/profiler.proto")]
    subprocess.run(["protoc", f"-I{root}", f"--python_out={folder}", "sonde/v1/profiler.proto", "sonde/v1/history.proto"],
                   check=True)
    sys.path.insert(0, folder)
    os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
    from sonde.v1 import history_pb2, profiler_pb2
    subprocess.run(["rm", "-rf", folder], check=True)
    return profiler_pb2, history_pb2


class Service:
    def __init__(self, messages, names, unattached=(), pids=()):
        self.m = messages
        self.targets = [messages.Target(name=name, pid=pids[i] if i < len(pids) else 1000 + i, uuid=f"{i:032x}", executable=name,
                                        start_unix_ns=1_700_000_000_000_000_000)
                        for i, name in enumerate(names)]
        self.unattached = [messages.Target(name=name, pid=2000 + i, executable=name, unattached=True, uid=1000, user="mary",
                                           container="0123456789ab", cpu_ns=5_000_000_000,
                                           start_unix_ns=1_700_000_000_000_000_000)
                           for i, name in enumerate(unattached)]
        self.lock = threading.Lock()
        self.running = self.total = 0
        self.together = threading.Barrier(TOGETHER)
        self.session = self.last = self.allocs = self.last_allocs = None
        self.token = None
        self.heaps = {target.pid: messages.HeapState(backend="JEMALLOC", available=True, sample_bytes=524288)
                      for target in self.targets}
        self.captures = []
        self.finished, self.began = set(), None  # keys of captures; a file
        self.dumps = {target.pid: [] for target in self.targets}

    def find(self, selector, context):
        for name, value in context.invocation_metadata():
            if name == "authorization":
                self.token = value
        if selector.name.startswith("error-"):
            self.fail(context, selector.name[len("error-"):])
        if not selector.name and not selector.pid and not selector.all:
            if len(self.targets) == 1:
                return self.targets[0]
            self.fail(context, "TARGET_AMBIGUOUS")
        if selector.all and not selector.name:
            return self.m.Target(name=f"@all:{selector.pid}" if selector.pid else "@all")
        targets = self.targets
        if not [t for t in targets if selector.name in ("", t.name) and selector.pid in (0, t.pid)]:
            targets = targets + self.unattached
        found = [t for t in targets if selector.name in ("", t.name) and selector.pid in (0, t.pid)]
        by_name = [t for t in targets if t.name == selector.name]
        by_pid = [t for t in targets if t.pid == selector.pid]
        if selector.name and selector.pid and by_name and by_pid and not found:
            self.fail(context, "TARGET_CONFLICT")
        if found and selector.all:
            return self.m.Target(name="@all:" + selector.name)
        if not found:
            self.fail(context, "TARGET_NOT_FOUND")
        if len(found) > 1:
            self.fail(context, "TARGET_AMBIGUOUS")
        return found[0]

    def fail(self, context, reason):
        status, sentence, *name = REASONS[reason]
        context.set_trailing_metadata((("sonde-reason", (name or [reason])[0]),))
        context.abort(status, sentence)

    def save(self, target, request, kind="cpu"):
        """Adds a saved capture of the request to the list."""
        capture = self.m.Capture(id=len(self.captures) + 1, target=target.name, pid=target.pid, uuid=target.uuid, kind=kind,
                                 start_unix_ns=1_700_000_000_000_000_000, duration_ms=request.duration_ms, samples=7,
                                 dropped=1, size_bytes=100, note=request.note,
                                 frequency_hz=request.frequency_hz if kind == "cpu" else 0)
        self.captures.append(capture)
        return capture

    def ListCaptures(self, request, context):
        fits = [c for c in self.captures if request.target.name in ("", c.target) and request.target.pid in (0, c.pid)]
        return self.m.ListCapturesResponse(captures=fits[::-1])

    def capture(self, number, context):
        if not 1 <= number <= len(self.captures):
            self.fail(context, "NO_CAPTURE")
        return self.captures[number - 1]

    def GetCapture(self, request, context):
        capture = self.capture(request.id, context)
        part = f" from={request.from_ms} until={request.until_ms}" if request.from_ms or request.until_ms else ""
        yield from self.send(self.targets[0], request.rendering, f"capture={capture.id} note={capture.note}{part}")

    def GetCaptureTimeline(self, request, context):
        self.capture(request.id, context)
        value = [len(request.function)] if request.function else [20_000_000, 0, 3]
        return self.m.CaptureTimeline(bin_ms=request.bin_ms or 20, from_ms=request.from_ms, value=value)

    def DiffCaptures(self, request, context):
        self.capture(request.new_id, context)
        self.capture(request.base_id, context)
        yield from self.send(self.targets[0], request.rendering,
                             f"base={request.base_id} new={request.new_id} growth_only={request.growth_only} "
                             f"normalize={request.normalize} from={request.from_ms}-{request.until_ms} "
                             f"base_from={request.base_from_ms}-{request.base_until_ms}")

    def send(self, target, rendering, what, duration_ms=0, capture=None, keep_error=""):
        body = fake_bodies.draw(self.m, target, rendering, what)
        start = self.m.ResultStart(size_bytes=len(body), samples=0 if target.name == "idle" else 7,
                                   dropped=int(target.name != "whole"), duration_ms=duration_ms, budget_note="1 %: 50 Hz" if " locks" in what and target.name != "whole" else "",
                                   keep_error=keep_error, clock="perf-cpu", clock_note="for\r\nall: \xe9")
        if capture:
            start.capture_id = capture.id
            start.capture.CopyFrom(capture)
        yield self.m.CaptureEvent(result=start)
        if target.name == "cut":
            yield self.m.CaptureEvent(chunk=body[:len(body) // 2])
            raise RuntimeError("broken off on purpose")
        if target.name == "short":
            body = body[:len(body) // 2]
        if target.name == "long":
            body += b"HTTP/1.1 200 OK"
        for at in range(0, len(body), 128 << 10):
            yield self.m.CaptureEvent(chunk=body[at:at + (128 << 10)])

    def CaptureCpu(self, request, context):
        target = self.find(request.target, context)
        with self.lock:
            self.running += 1
            self.total += 1
        try:
            if target.name == "together":
                self.together.wait(timeout=30)
            end = time.monotonic() + request.duration_ms / 1000 / (1 if target.name == "slow" else SPEED)
            self.begin()
            while time.monotonic() < end and context.is_active() and not self.is_finished(target, request):
                if not request.no_progress:
                    yield self.m.CaptureEvent(progress=self.m.Progress(duration_ms=request.duration_ms))
                time.sleep(min(0.02, max(0, end - time.monotonic())))
            if context.is_active():
                what = (f"duration_ms={request.duration_ms} frequency_hz={request.frequency_hz} "
                        f"max_samples={request.max_samples} mode={request.mode} max_overhead={request.max_overhead}")
                what += (" as_contentions" if request.as_contentions else "") + (" locks" if request.locks else "")
                if request.event:
                    what += f" event={request.event} period={request.period}"
                if request.source or request.target.all:
                    what += f" source={request.source} all={request.target.all}"
                is_full = request.keep and target.name == "full"
                saved = self.save(target, request) if request.keep and not is_full else None
                yield from self.send(target, request.rendering, what, request.duration_ms, saved,
                                     "no space left on the device" if is_full else "")
        finally:
            with self.lock:
                self.running -= 1

    def begin(self):
        if self.began:
            time.sleep(0.05)
            pathlib.Path(self.began).write_text(f"{time.time():.6f}")

    def is_finished(self, target, request):
        return target.name != "stubborn" and request.key in self.finished

    def FinishCapture(self, request, context):
        if not request.key:
            self.fail(context, "NOT_FOUND")
        self.finished.add(request.key)
        if self.began:
            pathlib.Path(self.began + ".end").touch()
        return self.m.FinishCaptureResponse()

    def StartCpu(self, request, context):
        self.find(request.target, context)
        if self.session:
            self.fail(context, "SESSION_BUSY")
        self.session = (f"session frequency_hz={request.frequency_hz} max_samples={request.max_samples} "
                        f"lease_ms={request.lease_ms} owner={request.owner.replace(' ', '_')} source={request.source}")
        return self.m.CpuSession(owner=request.owner)

    def CaptureAllocs(self, request, context):
        target, _ = self.heap(request.target, context)
        if request.poll_key:
            what = f"poll key={request.poll_key.replace(' ', '_')} total={request.poll_total}"
            yield from self.send(target, request.rendering, what)
            return
        end = time.monotonic() + request.duration_ms / 1000 / SPEED
        while time.monotonic() < end and context.is_active():
            time.sleep(min(0.02, max(0, end - time.monotonic())))
        what = (f"allocs duration_ms={request.duration_ms} sample_bytes={request.sample_bytes} "
                f"probability={request.probability:g}")
        saved = self.save(target, request, "allocs") if request.keep else None
        yield from self.send(target, request.rendering, what, request.duration_ms, saved)

    def StartAllocs(self, request, context):
        self.heap(request.target, context)
        if self.allocs:
            self.fail(context, "SESSION_BUSY")
        self.allocs = (f"session sample_bytes={request.sample_bytes} probability={request.probability:g} "
                       f"lease_ms={request.lease_ms} owner={request.owner.replace(' ', '_')}"
                       + (" with_allocator" if request.keep_allocator_frames else ""))
        return self.m.AllocsSession(owner=request.owner)

    def StopAllocs(self, request, context):
        target = self.find(request.target, context)
        self.allocs, self.last_allocs = None, self.allocs or self.last_allocs
        yield from self.send(target, request.rendering, self.last_allocs or "never started")

    def StopCpu(self, request, context):
        target = self.find(request.target, context)
        self.session, self.last = None, self.session or self.last
        yield from self.send(target, request.rendering, self.last or "never started")

    def Symbolize(self, request, context):
        self.find(request.target, context)
        answer = self.m.SymbolizeResponse()
        for address in request.addresses:
            one = answer.symbols.add()
            names = {0x1000: ["inner", "outer"], 0x2000: ["It::operator--(int)"], 0x3000: ["two\nlines"],
                     0xdead: []}.get(address, [f"function_{address:x}"])
            for name in names:
                one.frames.add(name=name)
        return self.names_only(answer) if request.names_only else answer

    def names_only(self, answer):
        short, numbers = self.m.SymbolizeResponse(), {}
        for symbol in answer.symbols:
            short.frame_counts.append(len(symbol.frames))
            short.frames.extend(numbers.setdefault(frame.name, len(numbers)) for frame in symbol.frames)
        short.names.extend(numbers)
        return short

    def GetCommandLine(self, request, context):
        if request.target.name == "lie-bytes":
            return b"\xff\xff\xff"
        target = self.find(request.target, context)
        return self.m.CommandLine(arguments=["/usr/bin/" + target.name, "--port", "80"])

    def GetBacktraces(self, request, context):
        return fake_bodies.backtraces(self.m, self.find(request.target, context), request)

    def GetCode(self, request, context):
        if request.build_id != "abcd":
            self.fail(context, "NOT_FOUND")
        text = f"n={len(request.addresses)} function={request.function} " + " ".join(f"{one.start}+{one.offset}" for one in request.mappings)
        return self.m.Code(path="/bin/demo", build_id="abcd", strings=["", "f", text], functions=[self.m.CodeFunction(start=4096, end=4100, name=1)],
                           addresses=[self.m.CodeAddress(address=address, function=1) for address in request.addresses],
                           instructions=[self.m.CodeInstruction(address=4096, size=4, text="nop")])

    def RenderProfile(self, request, context):
        yield from self.send(self.targets[0], request.rendering,
                             f"bytes={len(request.profile)} title={request.rendering.title} sample_type={request.sample_type} "
                             f"growth_only={request.growth_only} normalize={request.normalize}")

    def GetInfo(self, request, context):
        return self.m.Info(version="fake", targets=len(self.targets), captures_running=self.running,
                           captures_total=self.total, host=self.token or "", cpu_ns=1_500_000_000,
                           drops_total=[self.m.Drop(cause="ring_full", count=3)], open_fds=30, max_fds=1024,
                           resident_bytes=1 << 20, virtual_bytes=1 << 30, start_unix_ns=1_700_000_000_000_000_000,
                           function_times=[self.m.FunctionTime(target="redis", function='a"(b\\c)\u009b', cpu_ns=2_500_000_000)],
                           exports=[self.m.Export(destination="otlp", sent=7, retries=2, queue_bytes=4096, trouble="HTTP status 503",
                                                  lost=[self.m.Drop(cause="queue_full", count=1)])])

    def heap(self, selector, context, may_lack=False):
        """Returns the target and the state of its heap."""
        target = self.find(selector, context)
        if target.pid not in self.heaps:
            self.fail(context, "NO_GUEST")
        state = self.heaps[target.pid]
        if target.name in ("noprof", "glibc"):
            state.available = False
            state.backend = 0 if target.name == "glibc" else 1
            reason = "NO_HEAP" if target.name == "glibc" else "NOT_AVAILABLE"
            state.note = REASONS[reason][1]
            if not may_lack:
                self.fail(context, reason)
        return target, state

    def HeapStatus(self, request, context):
        return self.heap(request.target, context, may_lack=True)[1]

    def HeapActivate(self, request, context):
        target, state = self.heap(request.target, context, may_lack=request.backend == 2)
        if state.active:
            self.fail(context, "HEAP_BUSY")
        state.backend = request.backend or state.backend
        state.active, state.interval_s, state.owner = True, request.interval_s, request.owner
        state.sample_bytes, state.keep_dumps = request.sample_bytes or 524288, request.keep_dumps or 100
        if request.interval_s:
            self.dumps[target.pid] = [
                self.m.HeapDump(name=f"{number:06}.heap", unix_ns=(1_700_000_000 + number) * 10**9, size_bytes=1000,
                                utc_offset_s=3600)
                for number in (2, 1)]
        state.dumps = len(self.dumps[target.pid])
        return state

    def HeapDeactivate(self, request, context):
        target, state = self.heap(request.target, context, may_lack=True)
        was_active, state.active, state.interval_s = state.active, False, 0
        if request.delete_dumps:
            self.dumps[target.pid] = []
        state.dumps = len(self.dumps[target.pid])
        return self.m.HeapDeactivated(was_active=was_active, state=state)

    def HeapReset(self, request, context):
        state = self.heap(request.target, context)[1]
        state.epoch += 1
        state.sample_bytes = request.sample_bytes or state.sample_bytes
        return state

    def HeapSnapshot(self, request, context):
        target, state = self.heap(request.target, context)
        if target.name == "full":
            self.fail(context, "IO")
        if request.require_active and not state.active:
            self.fail(context, "NOT_ACTIVE")
        if request.base_dump and request.base_dump not in [dump.name for dump in self.dumps[target.pid]]:
            self.fail(context, "NOT_FOUND")
        if request.older_than_ms:
            self.fail(context, "NOT_AVAILABLE")
        time.sleep(request.delta_ms / 1000 / SPEED)
        what = f"snapshot all_one={request.all_one} active={state.active}"
        if request.sample_type:
            what += f" sample_type={request.sample_type}"
        if request.base_dump or request.delta_ms:
            what += f" base={request.base_dump} growth_only={request.growth_only} delta_ms={request.delta_ms}"
        yield from self.send(target, request.rendering, what, request.delta_ms)

    def ListHeapDumps(self, request, context):
        target, _ = self.heap(request.target, context, may_lack=True)
        return self.m.ListHeapDumpsResponse(dumps=self.dumps[target.pid])

    def GetHeapDump(self, request, context):
        target, _ = self.heap(request.target, context)
        if request.name not in [dump.name for dump in self.dumps[target.pid]]:
            self.fail(context, "NOT_FOUND")
        yield from self.send(target, request.rendering, f"dump={request.name}" +
                             (f" base={request.base_dump}" if request.base_dump else ""))

    def GetHeapGdump(self, request, context):
        return self.m.HeapGdump(active=self.heap(request.target, context, may_lack=True)[1].gdump)

    def SetHeapGdump(self, request, context):
        state = self.heap(request.target, context)[1]
        state.gdump = request.active
        return self.m.HeapGdump(active=state.gdump, keep_dumps=state.keep_dumps or 100)

    def StreamCpu(self, request, context):
        target = self.find(request.target, context)
        for number in range(request.max_windows or 1 << 30):
            if not context.is_active():
                return
            time.sleep(request.window_ms / 1000 / SPEED)
            last = number + 1 == request.max_windows
            window = self.m.CpuWindow(sequence=number, strings=[target.name], period_ns=10**9 // request.frequency_hz,
                                      clock=f"source {request.source}", last=last, end_reason="max_windows" if last else "")
            if number == 0:
                window.frames.add(function=0)
                window.stacks.add(frames=[0], thread=1)
            window.counts.add(stack=0, count=1, cpu_ns=10**7)
            yield window
            if target.name == "cut" and number == 2:
                self.fail(context, "TARGET_GONE")

    def WatchTargets(self, request, context):
        for target in self.targets:
            yield self.m.TargetEvent(kind="ATTACHED", target=target)
        yield self.m.TargetEvent(kind="SYNCED")
        while context.is_active():
            time.sleep(0.05)

    def ListTargets(self, request, context):
        listed = list(self.targets)
        if request.include_unattached:
            busy = self.m.Target(name="busy \x1b[2J", pid=11, uid=1000, user="alice", cpu_ns=90 * 10**9, threads=7,
                                 executable="busy", container="0123456789abcdef", unattached=True)
            init = self.m.Target(name="init", pid=1, uid=4711, cpu_ns=7200 * 10**9, threads=1, executable="systemd",
                                 unavailable="belongs to root: sudo sonde ...", unattached=True)
            listed = [busy, *listed, *self.unattached, init]
        response = self.m.ListTargetsResponse(targets=listed)
        for target in response.targets:
            known = {"redis": "redis <is> stripped\u009b\u202e", "init": "node: JavaScript functions have no names"}
            target.advice = known.get(target.name, "") if request.include_advice else ""
        return response


METHODS = {  # name: (request, streams)
    "ListCaptures": ("ListCapturesRequest", False), "GetCapture": ("GetCaptureRequest", True),
    "DiffCaptures": ("DiffCapturesRequest", True), "GetCaptureTimeline": ("GetCaptureTimelineRequest", False),
    "CaptureCpu": ("CaptureCpuRequest", True), "FinishCapture": ("FinishCaptureRequest", False),
    "StartCpu": ("StartCpuRequest", False), "StopCpu": ("StopCpuRequest", True), "Symbolize": ("SymbolizeRequest", False),
    "GetCommandLine": ("GetCommandLineRequest", False), "GetBacktraces": ("GetBacktracesRequest", False),
    "GetInfo": ("GetInfoRequest", False), "GetCode": ("GetCodeRequest", False), "RenderProfile": ("RenderProfileRequest", True),
    "ListTargets": ("ListTargetsRequest", False), "WatchTargets": ("WatchTargetsRequest", True),
    "StreamCpu": ("StreamCpuRequest", True), "HeapStatus": ("HeapStatusRequest", False),
    "HeapActivate": ("HeapActivateRequest", False), "HeapDeactivate": ("HeapDeactivateRequest", False),
    "CaptureAllocs": ("CaptureAllocsRequest", True), "StartAllocs": ("StartAllocsRequest", False),
    "StopAllocs": ("StopAllocsRequest", True),
    "HeapReset": ("HeapResetRequest", False), "HeapSnapshot": ("HeapSnapshotRequest", True),
    "ListHeapDumps": ("ListHeapDumpsRequest", False), "GetHeapDump": ("GetHeapDumpRequest", True),
    "GetHeapGdump": ("GetHeapGdumpRequest", False), "SetHeapGdump": ("SetHeapGdumpRequest", False),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--proto", default="proto/sonde/v1/profiler.proto")
    parser.add_argument("--grpc", required=True)
    parser.add_argument("--targets", default="redis")
    parser.add_argument("--unattached", default="")
    parser.add_argument("--pids", type=int, nargs="*", default=[], help="of the attached targets")
    parser.add_argument("--user", type=int, help="serve as this user")
    parser.add_argument("--no-history", action="store_true")
    parser.add_argument("--began", metavar="FILE", help="captures write the time to FILE when they begin, and FILE.end is written when one is to end")
    options = parser.parse_args()
    messages, history = load_messages(options.proto)
    service = Service(messages, *(list(filter(None, names.split(","))) for names in (options.targets, options.unattached)), pids=options.pids)
    service.began = options.began
    if options.user is not None:
        os.setresuid(options.user, options.user, options.user)
    handlers = {}
    for name, (request, streams) in METHODS.items():
        make = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
        handlers[name] = make(getattr(service, name), getattr(messages, request).FromString,
                              lambda message: message if isinstance(message, bytes) else message.SerializeToString())
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=100))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("sonde.v1.Profiler", handlers),))
    if not options.no_history:
        server.add_generic_rpc_handlers((fake_history.handlers(history, messages, service),))
    if not server.add_insecure_port(options.grpc):
        sys.exit(f"cannot listen on {options.grpc}")
    server.start()
    print(f"grpc: {options.grpc}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
