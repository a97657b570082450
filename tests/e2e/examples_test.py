# SPDX-License-Identifier: Apache-2.0
"""Builds the examples in clients/ against an installed Sonde, as a user would, and runs them."""

import json
import os
import re
import shutil
import subprocess

from tests.cli import check
from tests.e2e import stack

stack.install()
DEMO = os.path.abspath("clients/demo/demo")


def test_a_cpp_program_that_links_the_guest_is_profiled_with_its_labels():
    program = os.path.join(stack.WORK, "embedded")
    subprocess.run(["g++", "-O2", f"-I{stack.PREFIX}/include", os.path.abspath("clients/cpp/embedded.cc"),
                    f"-L{stack.PREFIX}/lib", "-lsonde", f"-Wl,-rpath,{stack.PREFIX}/lib", "-pthread", "-o", program],
                   check=True)
    folder = check.short_folder()
    service = ("--service", f"unix:{folder}/grpc.sock")
    env = {**stack.environment(), "SONDE_SOCKET": f"{folder}/guest.sock"}
    sonded = subprocess.Popen([f"{stack.PREFIX}/bin/sonded", "--socket", f"{folder}/guest.sock", "--grpc", service[1],
                               "--data-dir", f"{folder}/data"], env=stack.environment(), stdout=subprocess.PIPE)
    assert sonded.stdout.readline().startswith(b"grpc: ")
    embedded = subprocess.Popen([program], env=env, stdout=subprocess.PIPE, text=True)
    try:
        check.equal(embedded.stdout.readline(), "ready\n")
        check.until(lambda: "embedded" in stack.sonde("targets", *service)[0], what="the attached program")
        check.until(lambda: "resize_image" in stack.sonde("top", "-d", "1", *service)[0], what="its work")
        stack.sonde("record", "embedded", "-d", "1", "-F", "499", "-o", f"{folder}/x.pb.gz", *service)
        raw = subprocess.run(["go", "tool", "pprof", "-raw", f"{folder}/x.pb.gz"], env=stack.environment(),
                             capture_output=True, text=True, check=True).stdout
        for label in ("thumbnails", "previews", "request:"):
            check.contains(raw, label)
        embedded.terminate()
        out, _ = embedded.communicate(timeout=20)
        check.equal(embedded.returncode, 0, "status")
        check.contains(out, "connected")
    finally:
        check.stop(embedded)
        check.stop(sonded)
        shutil.rmtree(folder, ignore_errors=True)


def test_the_go_example_gets_a_pprof_file_by_default():
    path = os.path.join(stack.WORK, "hottest.pb.gz")
    with stack.Server(DEMO, "-t", "1", "--tick", flags=("--name", "demo"), ready="demo: pid") as server:
        env = {**stack.environment(), "GOCACHE": os.path.join(stack.WORK, "go"), "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
        done = subprocess.run(["go", "run", os.path.abspath("clients/go/hottest.go"), "-gateway", server.page,
                               "-seconds", "1", "-o", path, "demo"], env=env, capture_output=True, text=True, check=False)
        check.equal(done.returncode, 0, done.stderr)
        check.contains(done.stdout, f"{server.pid}  demo")
    top = subprocess.run(["go", "tool", "pprof", "-top", path], env=stack.environment(), capture_output=True,
                         text=True, check=True).stdout
    check.contains(top, "match_rules")


class Service:
    """A demo server under `sonde run` with a gRPC address, and an address in one of its functions."""

    def __enter__(self):
        self.folder = check.short_folder()
        self.address = f"unix:{self.folder}/grpc"
        self.server = stack.Server(DEMO, "-t", "1", "--tick", flags=("--name", "demo", "--grpc", self.address), ready="demo: pid")
        listing = subprocess.run(["nm", DEMO], capture_output=True, text=True, check=True).stdout
        offset = int(re.search(r"(\w+) [tT] match_rules$", listing, re.M)[1], 16)
        with open(f"/proc/{self.server.pid}/maps", encoding="ascii") as maps:
            self.code = hex(int(maps.readline().split("-")[0], 16) + offset + 4)
        return self

    def __exit__(self, *_):
        self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def output_of(*words, env=None):
    done = subprocess.run(words, env={**stack.environment(), **(env or {})}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{words} returned {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def check_client(service, *client, env=None):
    """A small client does its four tasks: a capture with progress, live windows, heap profiling on and off, names of addresses."""
    path = f"{service.folder}/out.collapsed"
    seconds = "--seconds" if "node" in client[0] else "-d"
    _, progress = output_of(*client, "capture", seconds, "1", "--output", path, "demo", env=env)
    assert re.search(r"\d+ s  \d+ samples", progress), progress
    with open(path, encoding="utf-8") as file:
        check.contains(file.read(), "match_rules")
    windows, _ = output_of(*client, "live", "--windows", "2", "--window", "300", "demo", env=env)
    check.equal(len(re.findall(r"^[01]: \d+ samples", windows, re.M)), 2, windows)
    for words, answer in (("on", "on, one sample per"), ("status", "on, one sample per"), ("off", "off"), ("status", "off")):
        check.contains(output_of(*client, "heap", words, "demo", env=env)[0], answer)
    names, _ = output_of(*client, "symbolize", "demo", service.code, "0x10", env=env)
    check.contains(names, f"{service.code}  match_rules")
    check.contains(names, "0x10  ?? in no mapping")


def test_the_python_client_does_its_tasks():
    with Service() as service:
        check_client(service, "/usr/bin/python3", os.path.abspath("clients/python/sonde_client.py"), "--service", service.address)


def test_the_node_client_does_its_tasks():
    modules = os.environ.get("SONDE_NODE_MODULES", "")
    if not os.path.isdir(modules):
        raise check.Skip("no @grpc/grpc-js: SONDE_NODE_MODULES names no folder")
    with Service() as service:
        check_client(service, "node", os.path.abspath("clients/node/sonde_client.js"), "--proto",
                     os.path.abspath("proto/sonde/v1/profiler.proto"), "--service", service.address, env={"NODE_PATH": modules})


def test_the_cpp_client_names_addresses():
    folder = check.short_folder()
    subprocess.run(["protoc", "-I", f"{stack.PREFIX}/share/sonde/proto", f"--cpp_out={folder}", f"--grpc_out={folder}",
                    "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin", "sonde/v1/profiler.proto"], check=True)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "grpc++", "protobuf"], capture_output=True, text=True, check=True)
    program = f"{folder}/symbolize"
    subprocess.run(["g++", "-O0", f"-I{folder}", os.path.abspath("clients/cpp/symbolize.cc"), f"{folder}/sonde/v1/profiler.pb.cc",
                    f"{folder}/sonde/v1/profiler.grpc.pb.cc", *flags.stdout.split(), "-o", program], check=True)
    with Service() as service:
        names, _ = output_of(program, service.address, "demo", service.code, "0x10")
        check.contains(names, f"{service.code}  match_rules ")
        check.contains(names, "0x10  ??")
        refused = subprocess.run([program, service.address, "nobody", "0x10"], capture_output=True, text=True, check=False)
        check.equal(refused.returncode, 1)
        check.contains(refused.stderr, "nobody")


def test_the_go_example_saves_a_heap_and_switches_profiling_off_again():
    path = os.path.join(stack.WORK, "heap.pb.gz")
    with Service() as service:
        env = {"GOCACHE": os.path.join(stack.WORK, "go"), "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
        output_of("go", "run", os.path.abspath("clients/go/heap.go"), "-gateway", service.server.page, "-seconds", "1", "-o", path,
                  "demo", env=env)
        _, _, body = service.server.get("/v1/heap")
        check.equal(json.loads(body)["active"], False, "heap profiling afterwards")
    check.contains(output_of("go", "tool", "pprof", "-top", path)[0], "inuse_space")


check.main(globals(), at_once=2)
