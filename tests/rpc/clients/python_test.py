# SPDX-License-Identifier: Apache-2.0
"""A Python client of the service: every method over unix and TCP sockets, and the mistakes of real clients. The service runs
with the fake engine, whose answers tests/unit/rpc/fake_engine.h describes."""

import gzip
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc
from google.protobuf import descriptor_pb2

SERVER, DESCRIPTORS, CLIENT = (os.path.abspath(path) for path in sys.argv[1:4])
sys.path.insert(0, os.path.dirname(CLIENT))
sys.dont_write_bytecode = True
from sonde_client import Dictionary, Service, describe, _field, _fields  # noqa: E402

READ, CONTROL = "read-token-read-token", "control-token-control"


class Server:
    """The fake server as a process, with a temporary folder."""

    def __init__(self, *args, tcp=False, addresses=None):
        self.folder = tempfile.mkdtemp(prefix="x.")
        self.path = os.path.join(self.folder, "rpc.sock")
        self.args = args
        self.addresses = addresses or (["127.0.0.1:0"] if tcp else ["unix:" + self.path])
        self.start()

    def start(self):
        flags = [flag for address in self.addresses for flag in ("--grpc", address)]
        self.log = open(os.path.join(self.folder, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen([SERVER, *flags, *self.args], stdout=subprocess.PIPE, stderr=self.log, text=True)
        lines = [self.process.stdout.readline() for _ in self.addresses]
        assert all(line.startswith("grpc: ") for line in lines), self.logged()
        self.bound = [line.split(None, 1)[1].strip() for line in lines]
        self.address = self.bound[0]

    def logged(self):
        with open(self.log.name, encoding="utf-8") as log:
            return log.read()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=20)
        self.process.stdout.close()
        self.log.close()
        return code

    def close(self):
        self.stop()
        shutil.rmtree(self.folder)


def make_secret(folder, text):
    path = os.path.join(folder, "tokens")
    with open(path, "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o600)) as out:
        out.write(text)
    return path


class Case(unittest.TestCase):
    server_args, tcp = (), False

    def setUp(self):
        self.server = Server(*self.server_args, tcp=self.tcp)
        self.addCleanup(self.server.close)
        self.service = Service(self.server.address)
        self.addCleanup(self.service.close)

    def eventually(self, condition, seconds=10):
        until = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), until, "the condition did not become true")
            time.sleep(0.01)

    def refused(self, code, reason, call):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        error = caught.exception
        self.assertEqual(error.code(), code, error.details())
        self.assertEqual(dict(error.trailing_metadata()).get("sonde-reason"), reason)
        return error.details()

    def no_capture_runs(self):
        return self.service.GetInfo().captures_running == 0


class Methods(Case):
    """Every method over a unix socket; TcpMethods runs the same tests over TCP."""

    def test_info(self):
        info = self.service.GetInfo(timeout=5)
        self.assertEqual(info.pid, self.server.process.pid)
        self.assertEqual((info.targets, info.captures_limit_per_target), (1, 64))

    def test_targets(self):
        targets = self.service.ListTargets(timeout=5).targets
        self.assertEqual([(t.name, t.pid) for t in targets], [("demo", 4242)])

    def test_watch_targets(self):
        events = self.service.WatchTargets(timeout=20)
        self.assertEqual([next(events).kind for _ in range(2)], [1, 3])
        self.server.process.send_signal(signal.SIGUSR1)
        event = next(events)
        self.assertEqual((event.kind, event.target.name), (1, "other"))
        self.server.process.send_signal(signal.SIGUSR2)
        self.assertEqual(next(events).kind, 2)
        events.cancel()

    def test_capture_in_every_format(self):
        starts = {"PPROF": b"\x1f\x8b", "SVG_FLAMEGRAPH": b"<", "COLLAPSED": b"", "SPEEDSCOPE": b"{", "TEXT_TOP": b""}
        for name, start in starts.items():
            events = list(self.service.CaptureCpu(duration_ms=10, rendering={"format": name}, timeout=20))
            self.assertEqual(events[0].WhichOneof("event"), "result")
            body = b"".join(event.chunk for event in events[1:])
            self.assertEqual(len(body), events[0].result.size_bytes)
            self.assertTrue(body.startswith(start), name)
            self.assertEqual(events[0].result.samples, 30)
            self.assertEqual(events[0].result.clock, "fake")

    def test_an_uncompressed_capture_has_the_same_bytes(self):
        def body(**rendering):
            return b"".join(e.chunk for e in self.service.CaptureCpu(duration_ms=10, rendering=rendering))
        self.assertIn(b"inlined", body(raw=True))
        self.assertIn(b"inlined", gzip.decompress(body()))

    def test_stream_windows(self):
        known, total, last = Dictionary(), 0, None
        for last in self.service.StreamCpu(window_ms=50, max_windows=3, timeout=20):
            known.add(last)
            total += sum(count.count for count in last.counts)
            self.assertIn(["f1", "main"], [known.functions(count.stack) for count in last.counts])
        self.assertTrue(last.last)
        self.assertEqual(last.end_reason, "max_windows")
        self.assertGreaterEqual(total, 90)
        self.assertEqual(len(known.stacks), 3)

    def test_session(self):
        session = self.service.StartCpu(owner="py", lease_ms=1000)
        self.assertEqual(session.lease_until_unix_ns - session.start_unix_ns, 10**9)
        self.refused(grpc.StatusCode.ABORTED, "SESSION_BUSY", self.service.StartCpu)
        events = list(self.service.StopCpu(rendering={"format": "COLLAPSED"}))
        self.assertIn(b"main;", events[1].chunk)

    def test_symbolize(self):
        symbols = self.service.Symbolize(addresses=[3, 4]).symbols
        self.assertEqual([[f.name for f in s.frames] for s in symbols], [["odd\\xff"], []])

    def test_symbolize_waits_for_better_names(self):
        at_once = self.service.Symbolize(build_id="c0de", addresses=[3]).symbols[0]
        self.assertEqual((at_once.quality, at_once.reason), (2, "CONVERTING"))
        waited = self.service.Symbolize(build_id="c0de", addresses=[3], wait_ms=10000, timeout=20).symbols[0]
        self.assertEqual((waited.quality, waited.reason), (3, ""))

    def test_symbolize_stream(self):
        batches = [{"build_id": "abcd", "addresses": [3, 4]}, {"addresses": [5]}, {"addresses": []}]
        answers = list(self.service.SymbolizeStream(iter(batches), timeout=20))
        self.assertEqual([list(answer.frame_count) for answer in answers], [[1, 0], [1], []])
        self.assertEqual([len(answer.functions) for answer in answers], [1, 0, 0])
        self.assertIn("odd\\xff", answers[0].strings)

    def test_upload_list_and_evict(self):
        uploaded = self.service.UploadDebugFile(iter([{"size_bytes": 8, "chunk": b"\x7fELF"}, {"chunk": b"more"}]), timeout=20)
        self.assertEqual((uploaded.build_id, uploaded.bytes), ("abcd", 8))
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT",
                     lambda: self.service.UploadDebugFile(iter([{"size_bytes": 8, "chunk": b"\x7fELF"}]), timeout=20))
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT",
                     lambda: self.service.UploadDebugFile(iter([{"size_bytes": 4, "chunk": b"text"}]), timeout=20))
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT",
                     lambda: self.service.UploadDebugFile(iter(()), timeout=20))
        self.assertEqual([(f.name, f.reason) for f in self.service.ListSymbolFiles().files], [("de\\xffmo", "STRIPPED")])
        self.assertEqual(self.service.EvictSymbols(id="abcd").files, 1)

    def test_command_line(self):
        self.assertEqual(list(self.service.GetCommandLine().arguments), ["demo", "--port", "80\\xff"])


class TcpMethods(Methods):
    tcp = True


class Refusals(Case):
    def test_a_refusal_states_the_bounds(self):
        details = self.refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT",
                               lambda: list(self.service.CaptureCpu(frequency_hz=10001)))
        self.assertEqual(details, 'frequency_hz: "10001" is not a whole number from 1 to 10000')

    def test_unknown_target(self):
        self.refused(grpc.StatusCode.NOT_FOUND, "TARGET_NOT_FOUND",
                     lambda: self.service.GetCommandLine(target={"name": "gr\u00fc\u00dfe"}))

    def raw(self, path, data):
        return self.service.channel.unary_unary(path, request_serializer=None, response_deserializer=None)(data, timeout=10)

    def test_unknown_method_is_answered_at_once(self):
        start = time.monotonic()
        self.refused(grpc.StatusCode.UNIMPLEMENTED, "UNIMPLEMENTED",
                     lambda: self.raw("/sonde.v1.Profiler/MakeCoffee", b""))
        self.assertLess(time.monotonic() - start, 5)

    def test_malformed_messages_are_invalid_arguments(self):
        for data in (b"\xff\xff\xff", b"\x0a\x7f", b"\x0a\x05abcde"):
            self.refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT",
                         lambda data=data: self.raw("/sonde.v1.Profiler/GetCommandLine", data))

    def test_a_message_that_is_too_large_is_refused_and_the_service_survives(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.raw("/sonde.v1.Profiler/Symbolize", b"\x12" + b"\x01" * (5 << 20))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertEqual(self.service.GetInfo().targets, 1)

    def test_a_call_without_a_message_is_refused(self):
        call = self.service.channel.stream_unary("/sonde.v1.Profiler/GetInfo", None, None)
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT", lambda: call(iter(()), timeout=10))

    def test_too_many_addresses(self):
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "TOO_LARGE",
                     lambda: self.service.Symbolize(addresses=range(65537)))

    def test_deadline_ends_the_capture(self):
        self.refused(grpc.StatusCode.DEADLINE_EXCEEDED, None,
                     lambda: list(self.service.CaptureCpu(duration_ms=60000, timeout=0.3)))
        self.eventually(self.no_capture_runs)


class Ends(Case):
    server_args = ("--grace-ms", "200", "--log")

    def test_cancelling_a_stream_ends_its_capture(self):
        stream = self.service.StreamCpu(window_ms=50)
        next(stream)
        self.assertEqual(self.service.GetInfo().captures_running, 1)
        stream.cancel()
        self.eventually(self.no_capture_runs)

    def test_a_client_that_dies_ends_its_capture(self):
        code = f"from sonde_client import Service\nfor _ in Service({self.server.address!r}).StreamCpu(window_ms=50):\n" \
               "    print('window', flush=True)\n"
        with subprocess.Popen([sys.executable, "-B", "-c", code], cwd=os.path.dirname(CLIENT), stdout=subprocess.PIPE) as other:
            other.stdout.readline()
            self.assertEqual(self.service.GetInfo().captures_running, 1)
            other.kill()
        self.eventually(self.no_capture_runs)

    def test_stopping_ends_live_streams_quickly_and_leaves_no_files(self):
        stream = self.service.StreamCpu(window_ms=50)
        next(stream)
        capture = self.service.CaptureCpu(duration_ms=60000)
        next(capture)
        start = time.monotonic()
        self.assertEqual(self.server.stop(), 0)
        self.assertLess(time.monotonic() - start, 5)
        self.refused(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE", lambda: list(stream))
        with self.assertRaises(grpc.RpcError):
            list(capture)
        self.assertEqual(sorted(os.listdir(self.server.folder)), ["log"])

    def test_the_log_has_one_line_per_call(self):
        list(self.service.CaptureCpu(target={"pid": 4242}, duration_ms=10))
        self.eventually(lambda: "call=CaptureCpu" in self.server.logged())
        line = [line for line in self.server.logged().splitlines() if "call=CaptureCpu" in line][0]
        for part in ("peer=unix:", "status=OK", "pid=4242", "hz=99", "samples=30", "dropped=1"):
            self.assertIn(part, line)

    def test_a_name_cannot_forge_log_lines(self):
        self.refused(grpc.StatusCode.NOT_FOUND, "TARGET_NOT_FOUND",
                     lambda: list(self.service.StreamCpu(target={"name": "a\ncall=Forged"})))
        self.eventually(lambda: "target=a?call=Forged" in self.server.logged())

    def test_a_socket_left_by_a_killed_service_is_replaced(self):
        self.server.process.kill()
        self.server.process.wait()
        self.assertTrue(os.path.exists(self.server.path))
        self.server.stop()
        self.server.start()
        own = [("grpc.use_local_subchannel_pool", 1)]  # do not reuse the broken connection
        with grpc.insecure_channel(self.server.address, options=own) as channel:
            self.assertTrue(describe(channel, "sonde.v1.Profiler"))

    def test_only_the_owner_can_open_the_socket(self):
        self.assertEqual(os.stat(self.server.path).st_mode & 0o777, 0o600)


class Tokens(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="x.")
        self.addCleanup(shutil.rmtree, self.folder)
        tokens = make_secret(self.folder, f"{READ} read\n{CONTROL} read,control\n")
        self.server = Server("--token-file", tokens, "--token-everywhere", "--log", tcp=True)
        self.addCleanup(self.server.close)

    def code(self, token, method, **fields):
        with grpc.insecure_channel(self.server.address) as channel:
            metadata = (("authorization", token),) if token else ()
            call = channel.unary_unary("/sonde.v1.Profiler/" + method, None, None)
            try:
                call(b"", metadata=metadata, timeout=10)
                return "OK"
            except grpc.RpcError as error:
                return error.code().name

    def test_scopes(self):
        self.assertEqual(self.code(None, "GetInfo"), "UNAUTHENTICATED")
        self.assertEqual(self.code("Bearer wrong-wrong-wrong-wrong", "GetInfo"), "UNAUTHENTICATED")
        self.assertEqual(self.code("Bearer " + READ, "GetInfo"), "OK")
        self.assertEqual(self.code("Bearer " + READ, "StartCpu"), "PERMISSION_DENIED")
        self.assertEqual(self.code("Bearer " + CONTROL, "StartCpu"), "OK")
        self.assertNotIn(READ, self.server.logged())
        self.assertNotIn("wrong-wrong", self.server.logged())

    def test_client_with_a_token(self):
        service = Service(self.server.address, token=READ)
        self.assertEqual(service.GetInfo().targets, 1)
        service.close()

    def test_health_needs_no_token(self):
        with grpc.insecure_channel(self.server.address) as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check", None, None)
            self.assertEqual(check(b"", timeout=10), b"\x08\x01")


class Health(Case):
    def check(self, service):
        call = self.service.channel.unary_unary("/grpc.health.v1.Health/Check", None, None)
        return call(_field(1, service) if service else b"", timeout=10)

    def test_check(self):
        self.assertEqual(self.check(b""), b"\x08\x01")
        self.assertEqual(self.check(b"sonde.v1.Profiler"), b"\x08\x01")
        self.refused(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", lambda: self.check(b"no.such.Service"))

    def test_watch(self):
        call = self.service.channel.unary_stream("/grpc.health.v1.Health/Watch", None, None)
        unknown = call(_field(1, b"no.such.Service"), timeout=20)
        self.assertEqual(next(unknown), b"\x08\x03")
        states, answers = call(b"", timeout=20), queue.Queue()

        def read():
            try:
                for state in states:
                    answers.put(state)
            except grpc.RpcError as error:
                answers.put(error.code())

        reader = threading.Thread(target=read)
        reader.start()
        self.assertEqual(answers.get(timeout=10), b"\x08\x01")
        self.server.stop()
        self.assertEqual(answers.get(timeout=10), b"\x08\x02")
        self.assertEqual(answers.get(timeout=10), grpc.StatusCode.UNAVAILABLE)
        reader.join()


class Reflection(Case):
    def ask(self, version, *requests):
        path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
        return list(self.service.channel.stream_stream(path, None, None)(iter(requests), timeout=10))

    def test_services(self):
        wanted = ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                  "grpc.reflection.v1alpha.ServerReflection", "sonde.v1.Profiler"]
        for version in ("v1", "v1alpha"):
            (answer,) = self.ask(version, _field(7, b"*"))
            listed = dict(_fields(answer))[6]
            names = [dict(_fields(body))[1].decode() for _, body in _fields(listed)]
            self.assertEqual(sorted(names), wanted)

    def test_descriptors_are_those_of_the_files(self):
        with open(DESCRIPTORS, "rb") as file:
            files = descriptor_pb2.FileDescriptorSet.FromString(file.read()).file
        self.assertEqual(len(files), 7)
        for file in files:
            declared = [*file.service[:1], *file.message_type[:1]]
            names = ((3, file.name), *((4, f"{file.package}.{each.name}") for each in declared))
            for number, name in names:
                (answer,) = self.ask("v1", _field(number, name.encode()))
                body = dict(_fields(dict(_fields(answer))[4]))[1]
                self.assertEqual(descriptor_pb2.FileDescriptorProto.FromString(body), file)

    def test_unknown_symbols_are_answered_and_the_stream_continues(self):
        answers = self.ask("v1", _field(4, b"sonde.v1.Nobody"), _field(4, b"sonde"), _field(3, b"no.proto"), b"",
                           _field(6, b"sonde.v1.Target"), _field(7, b""))
        kinds = [[number for number, _ in _fields(answer) if number >= 4][0] for answer in answers]
        self.assertEqual(kinds, [7, 7, 7, 7, 7, 6])


@unittest.skipUnless(shutil.which("openssl"), "no openssl program")
class Tls(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="x.")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def make(self, name, signer=None):
        """Creates NAME.pem and NAME.key, self-signed or signed by `signer`."""
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                   "-subj", f"/CN={name}", "-keyout", self.path(name + ".key"), "-out", self.path(name + ".pem"),
                   "-addext", "subjectAltName=IP:127.0.0.1"]
        if signer:
            command += ["-CA", self.path(signer + ".pem"), "-CAkey", self.path(signer + ".key"),
                        "-addext", "basicConstraints=critical,CA:FALSE"]
        subprocess.run(command, check=True, capture_output=True)
        os.chmod(self.path(name + ".key"), 0o600)

    def credentials(self, name=None):
        identity = (self.read(name + ".key"), self.read(name + ".pem")) if name else ()
        return grpc.ssl_channel_credentials(self.read("ca.pem"), *identity)

    def test_certificates_on_both_sides(self):
        for name, signer in (("ca", None), ("server", "ca"), ("client", "ca"), ("stranger", None)):
            try:
                self.make(name, signer)
            except subprocess.CalledProcessError as error:
                self.skipTest(f"openssl refuses: {error.stderr[-100:]}")
        server = Server("--cert", self.path("server.pem"), "--key", self.path("server.key"),
                        "--client-ca", self.path("ca.pem"), addresses=["0.0.0.0:0"])
        self.addCleanup(server.close)
        address = "127.0.0.1:" + server.address.rsplit(":", 1)[1]
        service = Service(address, credentials=self.credentials("client"))
        self.assertEqual(service.GetInfo(timeout=10).targets, 1)
        service.close()
        for name in (None, "stranger"):
            with grpc.secure_channel(address, self.credentials(name)) as channel:
                check = channel.unary_unary("/grpc.health.v1.Health/Check", None, None)
                with self.assertRaises(grpc.RpcError) as caught:
                    check(b"", timeout=10)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)


class Example(Case):
    """The example client in clients/python, run as a program."""

    def run_client(self, *args):
        run = subprocess.run([sys.executable, "-B", CLIENT, "--service", self.server.address, *args],
                             capture_output=True, text=True, timeout=30, check=False)
        return run.returncode, run.stdout, run.stderr

    def test_targets(self):
        attached = "4242\tdemo\troot\tfake\t0 captures\n"
        self.assertEqual(self.run_client("targets"), (0, attached, ""))
        self.assertEqual(self.run_client("targets", "--all"), (0, attached + "78\toutside\t4000000000\tfake\tno guest\n", ""))

    def test_capture_to_a_file(self):
        path = os.path.join(self.server.folder, "demo.collapsed")
        code, _, err = self.run_client("capture", "-d", "0.05", "-o", path, "demo")
        self.assertEqual((code, "30 samples, 1 dropped" in err), (0, True), err)
        with open(path, encoding="utf-8") as file:
            self.assertIn("main;", file.read())

    def test_capture_of_all_processes(self):
        path = os.path.join(self.server.folder, "all.txt")
        for words in (("@all",), ("@all:demo", "--source", "host"), ("@all:78",), ("78",)):
            code, _, err = self.run_client("capture", "-d", "0.05", "-o", path, *words)
            self.assertEqual((code, "clock fake" in err), (0, True), err)
        code, _, err = self.run_client("capture", "-d", "0.05", "-o", path, "@all", "--source", "guest")
        self.assertEqual((code, "INVALID_ARGUMENT: source: several processes" in err), (1, True), err)
        self.assertEqual(self.run_client("live", "--windows", "1", "--window", "50", "@all")[0], 0)

    def test_live(self):
        code, out, _ = self.run_client("live", "--window", "50", "--windows", "2", "4242")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^0: 30 samples, 1 dropped  ")
        self.assertTrue(out.endswith("max_windows\n"))

    def test_refusal(self):
        code, _, err = self.run_client("live", "nobody")
        self.assertEqual((code, err), (1, 'TARGET_NOT_FOUND: no target "nobody" is attached\n'))


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    outcome = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    for test, reason in outcome.skipped:
        print(f"SKIP: {test.id().rsplit('.', 1)[-1]}: {reason}")
    failed, skipped = len(outcome.failures) + len(outcome.errors), len(outcome.skipped)
    print(f"{outcome.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


sys.exit(main())
