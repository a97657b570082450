# SPDX-License-Identifier: Apache-2.0
"""Names, inlined functions, files and lines of a program compiled with -g, in pprof files, over HTTP and from `sonde symbol`; and
those of the same program stripped, after its debug file was uploaded."""

import json
import os
import re
import shutil
import subprocess

from tests.cli import check
from tests.e2e import stack

SOURCE = os.path.abspath("tests/e2e/inlines.c")
stack.install()


def compile_program(name, build_id="sha1"):
    path = os.path.join(stack.WORK, name)
    source = os.path.join(stack.WORK, "inlines.c")
    shutil.copy(SOURCE, source)
    subprocess.run(["gcc", "-g", "-O2", f"-Wl,--build-id={build_id}", source, "-o", path], check=True)
    return path


def line_of(text):
    with open(SOURCE, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def inside(server, path, symbol):
    """A runtime address within the function."""
    table = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
    value = int(re.search(rf"^([0-9a-f]+) \w {symbol}$", table, re.M).group(1), 16)
    with open(f"/proc/{server.pid}/maps", encoding="utf-8") as maps:
        base = next(int(line.split("-")[0], 16) for line in maps if path in line)
    return base + value


def hot_address(server, path):
    """An address in the inlined function, found by asking the service."""
    first = inside(server, path, "knead")
    for address in range(first, first + 64):
        out, _ = stack.sonde("symbol", str(server.pid), hex(address), "--json", "--wait-ms", "10000")
        frames = [frame["name"] for frame in json.loads(out)["symbols"][0]["frames"]]
        if frames == ["stir", "knead"]:
            return address
    raise AssertionError("no address of knead is in the inlined stir")


def pprof(*words):
    if not os.path.exists("/usr/bin/go"):
        raise check.Skip("no go")
    home = os.path.join(stack.WORK, "go")
    env = {**stack.environment(), "HOME": home, "GOCACHE": f"{home}/cache", "GOPATH": home, "PPROF_TMPDIR": home,
           "PPROF_BINARY_PATH": home}
    done = subprocess.run(["/usr/bin/go", "tool", "pprof", *words], env=env, capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def capture(server, name, seconds=2):
    status, _, body = server.get(f"/debug/pprof/profile?seconds={seconds}&frequency=499",
                                 {"Content-Type": "application/protobuf"})
    check.equal(status, 200)
    path = os.path.join(stack.WORK, name)
    with open(path, "wb") as file:
        file.write(body)
    return path


def test_go_tool_pprof_lists_sources_with_inlined_functions():
    with stack.Server(compile_program("inlines"), ready="ready") as server:
        hot_address(server, os.path.join(stack.WORK, "inlines"))  # waits until the file is converted
        path = capture(server, "inlines.pb")
        raw = pprof("-raw", path)
        mapping = next(line for line in raw.splitlines() if "/inlines " in line)
        for flag in ("[FN]", "[FL]", "[LN]", "[IN]"):
            check.contains(mapping, flag)
        assert re.search(rf"stir {stack.WORK}/inlines\.c:{line_of('/* hot */')}", raw), raw[:4000]
        # The caller's line is the call's, not the next one.
        assert re.search(rf"main {stack.WORK}/inlines\.c:{line_of('/* the call */')}\b", raw), raw[:4000]
        listed = pprof("-list", "^knead$", path)
        loop = next(line for line in listed.splitlines() if "value = stir(value + i)" in line)
        assert not re.match(r"^\s*\.\s+\.\s", loop), listed
        check.contains(pprof("-top", path), "(inline)")


def test_the_first_short_capture_of_a_fresh_program_has_lines():
    with stack.Server(compile_program("fresh", f"0x{os.urandom(16).hex()}"), ready="ready") as server:
        raw = pprof("-raw", capture(server, "fresh.pb", 1))
        assert re.search(rf"stir {stack.WORK}/inlines\.c:{line_of('/* hot */')}", raw), raw[:4000]
        assert "fresh: no lines" not in raw, raw[:4000]  # libc may still have none


NODE = """
function hotLeaf(x) {
  let s = x;
  for (let i = 0; i < 1000; i++) s = (s * 31 + i) | 0;
  return s;
}
let r = 0;
for (let i = 0; i < 30000; i++) r ^= hotLeaf(i);
console.log('ready');
function turn() {
  for (let i = 0; i < 3000; i++) r ^= hotLeaf(i);
  setImmediate(turn);
}
turn();
"""


def test_javascript_functions_have_names_files_and_lines():
    if not shutil.which("node"):
        raise check.Skip("no node")
    script = os.path.join(stack.WORK, "hot.js")
    with open(script, "w", encoding="utf-8") as file:
        file.write(NODE)
    with stack.Server("node", "--perf-prof", script, ready="ready") as server:
        raw = pprof("-raw", capture(server, "node.pb"))
        # The JIT may have inlined the loop into its caller, but the line is the loop's in either case.
        assert re.search(r"JS:\S*(hotLeaf|turn) \S*hot\.js:\d+:\d+ \S*hot\.js:4\b", raw), raw[:6000]


def test_symbol_over_http_joins_inlined_functions_by_two_dashes():
    path = compile_program("inlines")
    with stack.Server(path, ready="ready") as server:
        address = hot_address(server, path)
        body = server.get("/debug/pprof/symbol", {"Content-Type": "application/x-www-form-urlencoded"}, method="POST",
                          body=hex(address))[2]
        check.equal(body, f"{hex(address)} stir--knead\n".encode())
        body = server.get("/debug/pprof/symbol", {"Accept-Encoding": "gzip", "User-Agent": "Go-http-client/1.1"},
                          method="POST", body=hex(address))[2]
        assert body.endswith(b"knead\n"), body


def costs(pid):
    """The CPU time in seconds and the resident pages of a process."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), int(fields[21])


def test_resolving_a_hundred_thousand_addresses_costs_the_target_nothing():
    with stack.Server("sleep", "1000") as server:
        with open(f"/proc/{server.pid}/maps", encoding="utf-8") as maps:
            start, end = next(line.split()[0].split("-") for line in maps if " r-xp " in line and "libc" in line)
        start, end = int(start, 16), int(end, 16)
        addresses = [start + (end - start) * i // 100000 for i in range(100000)]
        before = costs(server.pid)
        for first in range(0, 100000, 50000):
            body = "+".join(hex(address) for address in addresses[first:first + 50000])
            status, _, answer = server.get("/debug/pprof/symbol", method="POST", body=body)
            check.equal(status, 200)
            check.equal(answer.count(b"\n"), 50000)
        after = costs(server.pid)
        assert after[0] - before[0] <= 0.02 and after[1] - before[1] <= 16, (before, after)


def test_a_stripped_program_is_named_once_its_debug_file_was_uploaded():
    full = compile_program("inlines")
    bare, debug = os.path.join(stack.WORK, "bare"), os.path.join(stack.WORK, "bare.debug")
    subprocess.run(["strip", "-o", bare, full], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", full, debug], check=True)
    table = subprocess.run(["nm", full], check=True, capture_output=True, text=True).stdout
    knead = int(re.search(r"^([0-9a-f]+) t knead$", table, re.M).group(1), 16)
    notes = subprocess.run(["readelf", "-n", full], check=True, capture_output=True, text=True).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes).group(1)
    with stack.Server(bare, ready="ready") as server:
        stack.sonde("symbol", "--evict", "all")
        with open(f"/proc/{server.pid}/maps", encoding="utf-8") as maps:
            address = next(int(line.split("-")[0], 16) for line in maps if bare in line) + knead
        out, err = stack.sonde("symbol", str(server.pid), hex(address))
        check.contains(out, f"[bare]+{hex(knead)}")  # the function's start, as profiles name it
        check.contains(err, "STRIPPED")
        out, _ = stack.sonde("symbol", str(server.pid), hex(address + 1))
        check.contains(out, f"[bare]+{hex(knead)} (+0x1)")
        _, _, body = server.get("/debug/pprof/symbol", method="POST", body=f"{address + 1:#x}+0x10".encode())
        check.equal(body, f"{address + 1:#x} [bare]+{hex(knead)}\n0x10 ??\n".encode())
        out, _ = stack.sonde("symbol", "--upload", debug)
        check.contains(out, build_id)
        out, _ = stack.sonde("symbol", str(server.pid), hex(address), "--wait-ms", "10000")
        check.contains(out, "knead")
        check.contains(out, "inlines.c:")
        out, _ = stack.sonde("symbol", "--build-id", build_id, hex(knead), "--wait-ms", "10000")
        check.contains(out, "knead")
        path = capture(server, "bare.pb")
        assert re.search(r"stir .*inlines\.c:", pprof("-raw", path)), "the capture does not use the uploaded debug file"
        out, _ = stack.sonde("symbol", "--list")
        rows = [line for line in out.splitlines() if build_id in line]
        assert {line.split()[0] for line in rows} == {"tables", "upload"} and all(" full " in line for line in rows), out
        out, _ = stack.sonde("symbol", "--evict", build_id)
        check.contains(out, f"{len(rows)} files removed")
        _, err = stack.sonde("symbol", "--evict", "beef", status=1)
        check.contains(err, "beef")


def test_a_failed_conversion_is_listed_with_its_reason():
    path = compile_program("damaged", f"0x{os.urandom(16).hex()}")
    subprocess.run(["objcopy", "--compress-debug-sections=zlib", path], check=True)
    sections = subprocess.run(["readelf", "-SW", path], check=True, capture_output=True, text=True).stdout
    offset = int(re.search(r"\.debug_info\s+PROGBITS\s+\S+\s+(\S+)", sections).group(1), 16)
    with open(path, "r+b") as file:
        file.seek(offset + 24)  # skips the compression header
        file.write(bytes(16))
    with stack.Server(path, ready="ready") as server:
        address = inside(server, path, "knead")
        out, err = stack.sonde("symbol", str(server.pid), hex(address), "--wait-ms", "10000")
        check.contains(out, "knead")
        check.contains(err, "CONVERSION_FAILED")
        out, _ = stack.sonde("symbol", "--list")
        row = next(line for line in out.splitlines() if " damaged " in line)
        assert row.split()[1] == "failed" and "CONVERSION_FAILED: the file is damaged" in row, row


def test_uploads_that_are_not_debug_files_are_refused():
    with stack.Server(compile_program("inlines"), ready="ready"):
        _, err = stack.sonde("symbol", "--upload", SOURCE, status=2)
        check.contains(err, "not a 64-bit little-endian ELF file")
        _, err = stack.sonde("symbol", "--upload", "/nowhere", status=1)
        check.contains(err, "/nowhere")
        stack.sonde("symbol", "--list", "--upload", SOURCE, status=2)


check.main(globals())
