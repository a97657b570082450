# SPDX-License-Identifier: Apache-2.0
"""The symbol methods of a real sonded without targets, called from Python: uploads, names by build-id and by mappings, streams
of batches, the list of files, eviction, and errors."""

import concurrent.futures
import functools
import http.server
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import shutil

import grpc

SONDED, CLIENT = (os.path.abspath(path) for path in ("service/sonded", "clients/python/sonde_client.py"))
sys.path.insert(0, os.path.dirname(CLIENT))
from sonde_client import Service  # noqa: E402
from tests.cli import check  # noqa: E402

SOURCE = """static inline __attribute__((always_inline)) int twice(int x) {
    volatile int y = x;
    return y * 2;
}
__attribute__((noinline)) int planted(int x) {
    return twice(x) + 1;
}
int main(int argc, char **argv) { return planted(argc); }
"""


def run(*words, **options):
    return subprocess.run(words, check=True, capture_output=True, text=True, **options).stdout


class Sonded:
    """One service with a temporary folder, which runs until the end of the with block."""

    def __init__(self, *flags):
        self.folder = tempfile.mkdtemp(prefix="x.")
        env = {name: value for name, value in os.environ.items() if not name.startswith("SONDE_")}
        self.process = subprocess.Popen(
            [SONDED, "--socket", self.path("guest"), "--grpc", "unix:" + self.path("grpc"), "--data-dir",
             self.path("data"), *flags], stdout=subprocess.PIPE, text=True, env=env)
        assert self.process.stdout.readline().startswith("grpc: ")
        self.service = Service("unix:" + self.path("grpc"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.service.close()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0
        self.process.stdout.close()
        shutil.rmtree(self.folder)

    def upload(self, data, chunk=10000, size=None):
        def requests():
            yield {"size_bytes": len(data) if size is None else size, "chunk": data[:chunk]}
            for at in range(chunk, len(data), chunk):
                yield {"chunk": data[at:at + chunk]}
        return self.service.UploadDebugFile(requests(), timeout=30)

    def uploads(self):
        top = self.path("data/symbols/uploads")
        return sorted(os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names)


class Program:
    """A compiled program: complete, stripped, and only its debug information."""

    def __init__(self, folder):
        if not shutil.which("gcc") or not shutil.which("objcopy"):
            raise check.Skip("no gcc")
        full, part = (os.path.join(folder, name) for name in ("full", "part.debug"))
        run("gcc", "-g", "-O1", "-Wl,--build-id=sha1", "-x", "c", "-", "-o", full, input=SOURCE)
        run("objcopy", "--only-keep-debug", full, part)
        with open(full, "rb") as file:
            self.full = file.read()
        with open(part, "rb") as file:
            self.debug = file.read()
        self.build_id = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", full)).group(1)
        self.planted = int(re.search(r"^([0-9a-f]+) T planted$", run("nm", full), re.M).group(1), 16)
        load = next(line.split() for line in run("readelf", "-lW", full).splitlines() if " R E " in line)
        self.offset, self.vaddr = int(load[1], 16), int(load[2], 16)
        os.remove(full)
        os.remove(part)


def refused(code, reason, call):
    try:
        call()
    except grpc.RpcError as error:
        check.equal((error.code(), dict(error.trailing_metadata()).get("sonde-reason")), (code, reason), error.details())
        return error.details()
    raise AssertionError(f"the call was not refused with {reason}")


def names(symbols):
    return [[frame.name for frame in symbol.frames] for symbol in symbols]


def test_an_upload_gives_names_inlines_files_and_lines_by_build_id():
    with Sonded() as sonded:
        program = Program(sonded.folder)
        ask = dict(build_id=program.build_id, addresses=[program.planted + 4, 1], wait_ms=20000)
        text = refused(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", lambda: sonded.service.Symbolize(**ask))
        check.contains(text, "upload")
        uploaded = sonded.upload(program.debug)
        check.equal((uploaded.build_id, uploaded.kind, uploaded.quality), (program.build_id, 1, 3))
        check.equal([os.path.relpath(path, sonded.path("data/symbols/uploads")) for path in sonded.uploads()],
                    [f".build-id/{program.build_id[:2]}/{program.build_id[2:]}.debug"])
        inside, outside = sonded.service.Symbolize(timeout=30, **ask).symbols
        check.equal(names([inside, outside]), [["twice", "planted"], []])
        check.equal((inside.quality, inside.reason, inside.frames[1].line), (3, "", 6))
        check.equal(inside.build_id, program.build_id)


def test_addresses_are_resolved_by_mappings_and_unknown_build_ids_reported():
    with Sonded() as sonded:
        program = Program(sonded.folder)
        sonded.upload(program.debug)
        start = 0x550000000000
        mapping = dict(start=start, limit=start + 0x1000, offset=program.offset & ~0xfff, build_id=program.build_id)
        stranger = dict(start=start + 0x10000, limit=start + 0x11000, build_id="abcd")
        address = start + program.planted + 4 - (program.vaddr & ~0xfff)
        symbols = sonded.service.Symbolize(mappings=[stranger, mapping], wait_ms=20000,
                                           addresses=[address, start + 0x10004, 5]).symbols
        check.equal(names(symbols), [["twice", "planted"], [], []])
        check.equal(symbols[0].module_offset, program.planted + 4)
        check.equal([symbol.reason for symbol in symbols], ["", "UNKNOWN_BUILD_ID", ""])
        symbols = sonded.service.Symbolize(mappings=[mapping], addresses=[address + 1], kind=1, wait_ms=20000).symbols
        check.equal(names(symbols), [["twice", "planted"]])


def test_the_code_of_a_function_has_lines_and_inlined_calls():
    with Sonded() as sonded:
        program = Program(sonded.folder)
        sonded.upload(program.full)
        code = sonded.service.GetCode(build_id=program.build_id, addresses=[program.planted + 4, 1], wait_ms=2000, timeout=60)
        while code.without_lines == "CONVERTING":
            code = sonded.service.GetCode(build_id=program.build_id, addresses=[program.planted + 4, 1], wait_ms=2000, timeout=60)
        text = code.strings
        check.equal([(text[one.name], one.start) for one in code.functions], [("planted", program.planted)])
        check.equal([(one.address, one.function) for one in code.addresses], [(program.planted + 4, 1), (1, 0)])
        ends = [one.address + one.size for one in code.instructions]
        check.equal([one.address for one in code.instructions], [program.planted] + ends[:-1], "instructions without gaps")
        check.equal(ends[-1], code.functions[0].end)
        check.equal(code.instructions[-1].kind, 4, "the last one returns")
        inlined = code.places[code.addresses[0].place - 1]
        call = code.places[inlined.parent - 1]
        check.equal([(text[place.function], place.line) for place in (inlined, call)], [("twice", inlined.line), ("planted", 6)])
        check.equal((inlined.line in (2, 3), call.parent), (True, 0))
        start = 0x550000000000
        moved = sonded.service.GetCode(build_id=program.build_id, addresses=[start + program.planted + 4 - (program.vaddr & ~0xfff)],
                                       mappings=[dict(start=start, limit=start + 0x1000, offset=program.offset & ~0xfff)])
        check.equal(moved.addresses[0].address, program.planted + 4, "address in a mapping")
        ask = functools.partial(sonded.service.GetCode, build_id=program.build_id, function=program.planted)
        check.equal(list(ask().instructions), list(code.instructions))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:  # they wait for each other
            answers = list(pool.map(lambda _: ask(timeout=60), range(8)))
        check.equal([list(answer.instructions) for answer in answers], 8 * [list(code.instructions)])


def test_code_that_cannot_be_had_is_refused_or_explained():
    with Sonded() as sonded:
        program = Program(sonded.folder)
        sonded.upload(program.debug)
        ask, invalid = sonded.service.GetCode, (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")
        check.contains(ask(build_id=program.build_id, addresses=[program.planted]).without_code, "debug file without its program")
        refused(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", lambda: ask(build_id="abcdef", addresses=[1]))
        refused(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", lambda: ask(build_id=program.build_id, function=program.planted + 1))
        check.contains(refused(*invalid, lambda: ask(addresses=[1])), "build_id is missing")
        refused(*invalid, lambda: ask(build_id="xy", addresses=[1]))
        check.contains(refused(*invalid, lambda: ask(build_id=program.build_id, wait_ms=60001)), "wait_ms")
        for many in (dict(addresses=[1] * 65537), dict(mappings=[dict(start=1)] * 8193)):
            check.contains(refused(grpc.StatusCode.INVALID_ARGUMENT, "TOO_LARGE", lambda: ask(build_id=program.build_id, **many)), "at most")


def test_a_stream_sends_every_name_once():
    with Sonded() as sonded:
        program = Program(sonded.folder)
        sonded.upload(program.debug)
        batches = [dict(build_id=program.build_id, addresses=[program.planted + 4] * 20000, wait_ms=20000),
                   dict(addresses=[program.planted + 4, 1])]
        strings, functions, modules, seen = [], [], [], []
        parts = 0
        for part in sonded.service.SymbolizeStream(iter(batches), timeout=30):
            parts += 1
            assert not part.reset and len(part.module) <= 8192
            strings += part.strings
            functions += part.functions
            modules += part.modules
            at = 0
            for count in part.frame_count:
                seen.append([strings[functions[number].name] for number in part.function[at:at + count]])
                at += count
            check.equal(len(part.module), len(part.frame_count))
        check.equal(len(seen), 20002)
        check.equal((seen[0], seen[19999], seen[20000], seen[20001]), (["twice", "planted"],) * 3 + ([],))
        assert parts >= 4, parts
        check.equal(len(set(strings)), len(strings))
        check.equal([module.build_id for module in modules], [program.build_id])


def test_stored_files_are_listed_and_removed_by_eviction():
    with Sonded() as sonded:
        program = Program(sonded.folder)
        check.equal(len(sonded.service.ListSymbolFiles().files), 0)
        sonded.upload(program.full)
        sonded.service.Symbolize(build_id=program.build_id, addresses=[program.planted], wait_ms=20000)
        files = {file.kind: file for file in sonded.service.ListSymbolFiles().files}
        check.equal(sorted(files), [0, 1])
        check.equal({file.build_id for file in files.values()}, {program.build_id})
        check.equal((files[0].state, files[0].quality), (1, 3))
        assert files[0].bytes and files[1].bytes >= len(program.full)
        refused(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", lambda: sonded.service.EvictSymbols(id="beef"))
        refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT", sonded.service.EvictSymbols)
        removed = sonded.service.EvictSymbols(id=program.build_id.upper(), uploads=True)
        check.equal((removed.files, removed.bytes), (2, files[0].bytes + files[1].bytes))
        check.equal(sonded.uploads(), [])
        check.equal(len(sonded.service.ListSymbolFiles().files), 0)


def test_unusable_uploads_are_refused_and_leave_no_files():
    with Sonded("--upload-mib", "1") as sonded:
        program = Program(sonded.folder)
        invalid = (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")
        too_large = (grpc.StatusCode.INVALID_ARGUMENT, "TOO_LARGE")
        check.contains(refused(*invalid, lambda: sonded.upload(b"hello")), "not a 64-bit little-endian ELF file")
        check.contains(refused(*invalid, lambda: sonded.upload(b"")), "size_bytes")
        check.contains(refused(*invalid, lambda: sonded.upload(program.debug, size=len(program.debug) + 1)), "ended after")
        refused(*too_large, lambda: sonded.upload(program.debug, size=len(program.debug) - 1))
        refused(*too_large, lambda: sonded.upload(program.debug, size=(4 << 30) + 1))
        check.contains(refused(*too_large, lambda: sonded.upload(program.debug, size=2 << 20)), "evict")
        check.equal(sonded.uploads(), [])
        sonded.upload(program.debug)
        check.equal(len(sonded.uploads()), 1)


def test_an_upload_is_removed_if_its_client_disconnects():
    with Sonded() as sonded:
        program = Program(sonded.folder)
        leave = threading.Event()

        def requests():
            yield {"size_bytes": len(program.debug), "chunk": program.debug[:1000]}
            leave.wait(20)
        call = sonded.service.channel.stream_unary(
            "/sonde.v1.Profiler/UploadDebugFile",
            request_serializer=lambda fields: sonded.service.message("UploadDebugFileRequest")(**fields).SerializeToString(),
            response_deserializer=None).future(requests())
        check.until(sonded.uploads, what="the start of the upload")
        call.cancel()
        leave.set()
        check.until(lambda: not sonded.uploads(), what="the end of the upload")
        sonded.upload(program.debug)


class DebugServer:
    """A debuginfod server with the debug file of one program, until the end of the with block. `asked` has the requested paths."""

    def __init__(self, build_id, data):
        asked = self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                found = self.path == f"/buildid/{build_id}/debuginfo"
                self.send_response(200 if found else 404)
                self.send_header("Content-Length", str(len(data) if found else 0))
                self.end_headers()
                self.wfile.write(data if found else b"")

            def log_message(self, *_):
                pass
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()


def test_debug_files_are_fetched_from_the_configured_server():
    folder = tempfile.mkdtemp(prefix="x.")
    program = Program(folder)
    with DebugServer(program.build_id, program.debug) as server, Sonded("--debuginfod", server.url) as sonded:
        def ask():
            return sonded.service.Symbolize(build_id=program.build_id, addresses=[program.planted], wait_ms=10000)
        text = refused(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", ask)  # refused at once, without waiting for the server
        check.contains(text, "debuginfod")
        check.until(lambda: any(path.endswith(".debug") for path in sonded.uploads()), what="the debug file")
        check.equal([frame.name for frame in ask().symbols[0].frames][-1], "planted")
        check.equal(server.asked, [f"/buildid/{program.build_id}/debuginfo"])
        for _ in range(3):
            refused(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", lambda: sonded.service.Symbolize(build_id="beef"))
            check.until(lambda: "/buildid/beef/debuginfo" in server.asked, what="the request to the server")
            time.sleep(0.1)
        check.equal(server.asked.count("/buildid/beef/debuginfo"), 1)
    shutil.rmtree(folder)


def test_an_invalid_debuginfod_url_is_refused():
    folder = tempfile.mkdtemp(prefix="x.")
    for url in ("nonsense", "file:///etc"):
        done = subprocess.run([SONDED, "--debuginfod", url, "--socket", "@x", "--data-dir", folder], text=True,
                              capture_output=True, timeout=20, check=False)
        assert done.returncode != 0 and "debuginfod" in done.stderr, done
    shutil.rmtree(folder)


def test_contradictory_and_invalid_requests_are_refused():
    with Sonded() as sonded:
        invalid = (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")
        ask = sonded.service.Symbolize
        check.contains(refused(*invalid, lambda: ask(build_id="abcd", target={"pid": 1})), "say one")
        check.contains(refused(*invalid, lambda: ask(build_id="../../etc/passwd")), "build-id")
        check.contains(refused(*invalid, lambda: ask(build_id="ab" * 33)), "build-id")
        check.contains(refused(*invalid, lambda: ask(mappings=[dict(start=5, limit=5)])), "must be below end")
        check.contains(refused(*invalid, lambda: ask(build_id="abcd", wait_ms=60001)), "wait_ms")
        refused(grpc.StatusCode.INVALID_ARGUMENT, "TOO_LARGE", lambda: ask(mappings=[dict(start=5, limit=6)] * 8193))
        refused(grpc.StatusCode.NOT_FOUND, "NOT_FOUND",
                lambda: list(sonded.service.SymbolizeStream(iter([dict(build_id="abcd", addresses=[1])]))))


def test_stopping_does_not_wait_for_open_streams():
    with Sonded() as sonded:
        program = Program(sonded.folder)
        sonded.upload(program.debug)
        end = threading.Event()

        def batches():
            yield dict(build_id=program.build_id, addresses=[1])
            end.wait(20)
        stream = sonded.service.SymbolizeStream(batches())
        next(stream)
        start = time.monotonic()
        sonded.process.send_signal(signal.SIGTERM)
        check.equal(sonded.process.wait(20), 0)
        end.set()
        assert time.monotonic() - start < 10
        try:
            list(stream)
        except grpc.RpcError as error:
            check.equal(error.code(), grpc.StatusCode.UNAVAILABLE)


check.main(globals())
