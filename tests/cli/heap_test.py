# SPDX-License-Identifier: Apache-2.0
"""`sonde heap` with a service that follows a script: what is asked, what is told, how it exits."""

import json
import os
import shutil
import subprocess

from tests.cli import check

SONDE = os.path.abspath("clients/cli/sonde")
FOLDER = check.short_folder()
ADDRESS = f"unix:{FOLDER}/grpc"


def sonde(*words, status=0):
    """(stdout, stderr) of a verb that must exit so."""
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


def test_on_and_off():
    check.contains(sonde("status", "redis")[0], "heap profiling is off; `sonde heap on`")
    check.contains(sonde("off", "redis")[0], "was off already")
    out = sonde("on", "redis", "--interval", "60", "--sample", "65536")[0]
    for part in ("heap profiling is on", "switched by sonde heap", "one sample per 64 KiB", "a dump every 60 s",
                 "2 dumps kept"):
        check.contains(out, part)
    check.equal((state()["active"], state()["intervalS"], state()["sampleBytes"]), (True, 60, "65536"))
    check.contains(sonde("status", "redis")[0], "one sample per 64 KiB")
    off = sonde("off", "redis")[0]
    check.contains(off, "heap profiling is off")
    check.contains(off, "2 dumps kept")
    sonde("off", "redis", "--delete-dumps")
    check.equal((state()["active"], state()["dumps"]), (False, 0))


def test_on_twice_is_refused_with_4_and_the_services_words():
    sonde("on", "redis")
    out, err = sonde("on", "redis", "--interval", "5", status=4)
    check.equal(out, "")
    check.contains(err, "since 10:00:00, by tester")
    check.equal(state()["intervalS"], 0)
    sonde("off", "redis")


def test_a_target_that_cannot_tells_the_line_to_set():
    for words in (("on", "noprof"), ("reset", "noprof"), ("dump", "noprof", "-o", "n.heap")):
        check.contains(sonde(*words, status=4)[1], "MALLOC_CONF=prof:true,prof_active:false")
    check.contains(sonde("status", "noprof")[0], "MALLOC_CONF=prof:true,prof_active:false")
    check.contains(sonde("status", "glibc")[0], "it does not use jemalloc")
    assert not os.path.exists(os.path.join(FOLDER, "n.heap"))


def test_a_dump_has_the_format_of_its_extension():
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


def test_kept_dumps_are_listed_and_fetched_by_name():
    check.contains(sonde("list", "redis")[0], "no dump is kept")
    sonde("on", "redis", "--interval", "1")
    check.equal(sonde("list", "redis")[0], "000002.heap  2023-11-14 22:13:22  1000 bytes\n"
                                           "000001.heap  2023-11-14 22:13:21  1000 bytes\n")
    check.equal([dump["name"] for dump in json.loads(sonde("list", "redis", "--json")[0])["dumps"]],
                ["000002.heap", "000001.heap"])
    sonde("dump", "redis", "--name", "000001.heap")
    check.contains(content("000001.heap").decode(), "dump=000001.heap")
    sonde("dump", "redis", "--name", "000002.heap", "-o", "c.svg")
    check.equal(content("c.svg")[:5], b"<?xml")
    check.contains(sonde("dump", "redis", "--name", "000009.heap", "-o", "d.heap", status=1)[1], "no such dump")
    assert not os.path.exists(os.path.join(FOLDER, "d.heap"))
    sonde("off", "redis", "--delete-dumps")


def test_a_dump_that_breaks_off_leaves_no_file():
    before = sorted(os.listdir(FOLDER))
    for words in (("full", 1), ("cut", 1), ("error-INTERNAL", 1), ("nobody", 1)):
        sonde("dump", words[0], "-o", "e.heap", status=words[1])
    check.equal(sorted(os.listdir(FOLDER)), before)


def test_reset_begins_a_new_epoch():
    before = int(state()["epoch"])
    sonde("reset", "redis", "--sample", "1048576")
    check.equal((int(state()["epoch"]), state()["sampleBytes"]), (before + 1, "1048576"))


def test_several_targets_must_be_told_apart():
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
