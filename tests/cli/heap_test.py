# SPDX-License-Identifier: Apache-2.0
"""`sonde heap` with a scripted service: its requests, its output and its exit status."""

import json
import os
import shutil
import subprocess

from tests.cli import check

SONDE = os.path.abspath("clients/cli/sonde")
FOLDER = check.short_folder()
ADDRESS = f"unix:{FOLDER}/grpc"


def sonde(*words, status=0):
    """Runs an action, checks its exit status and returns (stdout, stderr)."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SONDE_")}
    clean.update(XDG_RUNTIME_DIR=FOLDER, SONDE_SERVICE=ADDRESS, TZ="UTC")
    done = subprocess.run([SONDE, "heap", *words], env=clean, capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL, cwd=FOLDER)
    check.equal(done.returncode, status, f"status of {words} ({done.stdout}{done.stderr})")
    return done.stdout, done.stderr


def state(target="redis"):
    return json.loads(sonde("status", target, "--json")[0])


def content(name):
    with open(os.path.join(FOLDER, name), "rb") as file:
        return file.read()


def test_on_and_off_switch_heap_profiling():
    check.contains(sonde("status", "redis")[0], "heap profiling is off; switch it on with `sonde heap on`")
    check.contains(sonde("off", "redis")[0], "was already off")
    out = sonde("on", "redis", "--interval", "60", "--keep-dumps", "20", "--sample", "65536")[0]
    for part in ("heap profiling is on", "switched on by sonde heap", "one sample per 64 KiB", "one dump every 60 s; the newest 20 are kept",
                 "2 dumps saved"):
        check.contains(out, part)
    check.equal((state()["active"], state()["intervalS"], state()["sampleBytes"]), (True, 60, "65536"))
    check.contains(sonde("status", "redis")[0], "one sample per 64 KiB")
    off = sonde("off", "redis")[0]
    check.contains(off, "heap profiling is off")
    check.contains(off, "2 dumps saved")
    sonde("off", "redis", "--delete-dumps")
    check.equal((state()["active"], state()["dumps"]), (False, 0))


def test_on_twice_exits_with_4_and_the_message_of_the_service():
    sonde("on", "redis")
    out, err = sonde("on", "redis", "--interval", "5", status=4)
    check.equal(out, "")
    check.contains(err, "since 10:00:00, by tester")
    check.equal(state()["intervalS"], 0)
    sonde("off", "redis")


def test_a_target_without_heap_profiling_gets_the_setting_to_add():
    for words in (("on", "noprof"), ("reset", "noprof"), ("dump", "noprof", "-o", "n.heap")):
        check.contains(sonde(*words, status=4)[1], "MALLOC_CONF=prof:true,prof_active:false")
    check.contains(sonde("status", "noprof")[0], "MALLOC_CONF=prof:true,prof_active:false")
    check.contains(sonde("status", "glibc")[0], "it does not use jemalloc")
    assert not os.path.exists(os.path.join(FOLDER, "n.heap"))


def test_a_dump_is_written_in_the_format_of_the_extension():
    for name, begin in (("a.heap", b"heap_v2/524288"), ("a.pb.gz", b"\x1f\x8b"), ("a.svg", b"<?xml"),
                        ("a.legacy.heap", b"heap profile:"), ("a.heapsnapshot", b'{"format":"HEAPSNAPSHOT"'),
                        ("a.collapsed", b"target=redis format=COLLAPSED snapshot all_one=False"),
                        ("a.txt", b"target=redis format=TEXT_TOP")):
        out, err = sonde("dump", "redis", "-o", name)
        check.equal(content(name)[:len(begin)], begin, name)
        check.equal((out, err), ("", f"{name}: {len(content(name))} bytes\n"))
    check.contains(sonde("dump", "redis", "-o", "-", "--format", "heapsnapshot", "--all-one")[0], "all_one=True")
    check.contains(sonde("dump", "redis", "-o", "-", "--format", "legacy")[0], "heap profile:")
    sonde("dump", "redis")
    check.equal(content("sonde.heap")[:7], b"heap_v2")
    answer = json.loads(sonde("dump", "redis", "-o", "b.heap", "--json")[0])
    check.equal(answer, {"file": "b.heap", "bytes": len(content("b.heap"))})


def test_saved_dumps_are_listed_and_written_by_name():
    check.contains(sonde("list", "redis")[0], "no saved dumps")
    sonde("on", "redis", "--interval", "1")
    check.equal(sonde("list", "redis")[0], "000002.heap  2023-11-14 22:13:22  1000 B\n"
                                           "000001.heap  2023-11-14 22:13:21  1000 B\n")
    check.equal([dump["name"] for dump in json.loads(sonde("list", "redis", "--json")[0])["dumps"]],
                ["000002.heap", "000001.heap"])
    sonde("dump", "redis", "--name", "000001.heap")
    check.contains(content("000001.heap").decode(), "dump=000001.heap")
    sonde("dump", "redis", "--name", "000002.heap", "-o", "c.svg")
    check.equal(content("c.svg")[:5], b"<?xml")
    check.contains(sonde("dump", "redis", "--name", "000009.heap", "-o", "d.heap", status=1)[1], "no such dump")
    assert not os.path.exists(os.path.join(FOLDER, "d.heap"))
    sonde("off", "redis", "--delete-dumps")


def test_the_service_compares_saved_dumps():
    sonde("on", "redis", "--interval", "1")
    check.contains(sonde("diff", "000001.heap", "now", "redis")[0], "format=TEXT_TOP snapshot")
    check.contains(sonde("diff", "000001.heap", "000002.heap", "redis", "-g")[0], "dump=000002.heap base=000001")
    out = sonde("diff", "-d", "0.5", "redis", "-o", "-", "--format", "collapsed", "--growth-only")[0]
    check.contains(out, "base= growth_only=True delta_ms=500")
    check.contains(sonde("diff", "000001.heap", "now", "redis", "--allocator-frames")[0], "with_allocator")
    check.contains(sonde("dump", "redis", "-o", "-", "--format", "top", "--allocator-frames")[0], "with_allocator")
    sonde("list", "redis", "--allocator-frames", status=2)
    sonde("diff", "000001.heap", "now", "redis", "-o", "d.svg")
    check.equal(content("d.svg")[:5], b"<?xml")
    check.contains(sonde("diff", "000009.heap", "now", "redis", status=1)[1], "no such dump")
    for words in ((), ("now", "000001.heap"), ("x.pb.gz", "000001.heap"), ("000001.heap", "x.pb.gz"),
                  ("-d", "1", "redis", "redis"), ("a", "b", "c", "d"), ("000001.heap", "-o", "x.unknown")):
        sonde("diff", *words, status=2)
    sonde("off", "redis", "--delete-dumps")


def test_diff_compares_files_without_the_service():
    rows = {"a": (10, 1000000), "b": (30, 5000000)}
    for name, (objects, size) in rows.items():
        with open(os.path.join(FOLDER, f"{name}.raw"), "w", encoding="utf-8") as file:
            file.write("heap_v2/1\n  t*: 1: 1 [0: 0]\n@ 0x1000 0x2000\n"
                       f"  t*: {objects}: {size} [0: 0]\n@ 0x3000 0x2000\n  t*: 5: {9000000 - size} [0: 0]\n\n"
                       "MAPPED_LIBRARIES:\n00001000-00009000 r-xp 00000000 00:00 0 /usr/bin/x\n")
    out = sonde("diff", "a.raw", "./b.raw", "--format", "collapsed", "-o", "-")[0]
    check.equal(sorted(int(line.split()[-1]) for line in out.splitlines()), [-4000000, 4000000])
    sonde("diff", "a.raw", "b.raw", "-g", "-o", "g.svg")
    check.contains(content("g.svg").decode(), "<title>x, live heap, growth</title>")
    sonde("diff", "a.raw", "b.raw", "-o", "d.svg")
    check.contains(content("d.svg").decode(), "colours compare bytes")
    table = sonde("diff", "a.raw", "b.raw")[0]
    check.contains(table, "Base: a.raw, total ")
    check.contains(table, "# flat% and cum% are shares of the base's total\n")
    out = sonde("diff", "a.raw", "b.raw", "--growth-only", "--type", "inuse_objects", "-o", "g.txt")[0]
    check.equal(out, "")
    check.contains(content("g.txt").decode(), "20 ")
    check.contains(sonde("diff", "a.raw", "nothing.raw", status=1)[1], "nothing.raw")
    os.rename(os.path.join(FOLDER, "a.raw"), os.path.join(FOLDER, "a.hprof"))  # the extension in GreptimeDB's documentation
    done = subprocess.run([SONDE, "draw", "a.hprof", "-o", "a.heapsnapshot"], cwd=FOLDER, capture_output=True, check=True)
    check.equal(done.stderr, b"")
    check.equal(json.loads(content("a.heapsnapshot"))["snapshot"]["node_count"] > 2, True)
    done = subprocess.run([SONDE, "draw", "a.hprof", "-o", "/dev/full", "--format", "heapsnapshot"], cwd=FOLDER,
                          capture_output=True, check=False)
    check.equal(done.returncode, 1)
    check.contains(done.stderr.decode(), "No space left")
    os.rename(os.path.join(FOLDER, "a.hprof"), os.path.join(FOLDER, "a.raw"))
    check.contains(sonde("diff", "a.raw", "b.raw", "--type", "cpu", status=2)[1], "no common sample type")


def test_allocs_records_the_allocations_of_a_period():
    check.contains(sonde("allocs", "redis", "-d", "1", "-o", "f.collapsed")[1], "f.collapsed: 7 samples")
    check.contains(content("f.collapsed").decode(), "allocs duration_ms=1000 sample_bytes=0 probability=0 ")
    out = sonde("allocs", "redis", "-d", "1", "-p", "0.25", "-o", "-", "--format", "top")[0]
    check.contains(out, "probability=0.25")
    sonde("allocs", "redis", "-d", "1", "-s", "1")
    check.equal(content("sonde.svg")[:5], b"<?xml")
    check.contains(sonde("allocs", "redis", "-d", "1", "-o", "-", "--format", "top", "--allocator-frames")[0], "with_allocator")
    for words in (("-o", "x.heap"), ("-o", "x.prof"), ("-p", "2"), ("-d", "0"), ("--growth-only",), ("a", "b")):
        sonde("allocs", *words, status=2)
    check.contains(sonde("allocs", "noprof", "-d", "1", status=4)[1], "MALLOC_CONF=prof:true")


def test_an_incomplete_dump_leaves_no_file():
    before = sorted(os.listdir(FOLDER))
    for words in (("full", 1), ("cut", 1), ("error-INTERNAL", 1), ("nobody", 1)):
        sonde("dump", words[0], "-o", "e.heap", status=words[1])
    check.equal(sorted(os.listdir(FOLDER)), before)


def test_reset_starts_a_new_epoch():
    before = int(state()["epoch"])
    sonde("reset", "redis", "--sample", "1048576")
    check.equal((int(state()["epoch"]), state()["sampleBytes"]), (before + 1, "1048576"))


def test_several_targets_require_a_choice():
    check.contains(sonde("status", status=2)[1], "say which")


with open(os.path.join(FOLDER, "log"), "w", encoding="utf-8") as log:
    SERVICE = subprocess.Popen(["/usr/bin/python3", "-B", "tests/rest/fake_service.py", "--grpc", ADDRESS, "--targets",
                                "redis,noprof,glibc,full,cut"], stdout=log, stderr=log)
try:
    check.until(lambda: os.path.exists(f"{FOLDER}/grpc"), what="the service")
    check.main(globals())
finally:
    check.stop(SERVICE)
    shutil.rmtree(FOLDER, ignore_errors=True)
