# SPDX-License-Identifier: Apache-2.0
"""Builds the examples in clients/ against an installed Sonde, as a user would, and runs them."""

import os
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
    with stack.Server(DEMO, flags=("--name", "demo"), ready="demo: pid") as server:
        env = {**stack.environment(), "GOCACHE": os.path.join(stack.WORK, "go"), "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
        done = subprocess.run(["go", "run", os.path.abspath("clients/go/hottest.go"), "-gateway", server.page,
                               "-seconds", "1", "-o", path, "demo"], env=env, capture_output=True, text=True, check=False)
        check.equal(done.returncode, 0, done.stderr)
        check.contains(done.stdout, f"{server.pid}  demo")
    top = subprocess.run(["go", "tool", "pprof", "-top", path], env=stack.environment(), capture_output=True,
                         text=True, check=True).stdout
    check.contains(top, "match_rules")


check.main(globals(), at_once=2)
