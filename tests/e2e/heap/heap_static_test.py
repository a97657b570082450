# SPDX-License-Identifier: Apache-2.0
"""The heap and allocation commands of the documentation, as printed there, on programs with a statically linked jemalloc: in C++,
where it is malloc, and in Rust, where its functions have a prefix and libc's malloc stays."""

import functools
import os
import pwd
import re
import shutil
import subprocess

from tests.cli import check
from tests.e2e import stack

stack.install()
SOURCES = os.path.abspath("tests/e2e/heap")
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc_pic.a"
HOME = pwd.getpwuid(os.getuid()).pw_dir  # of rustup
ENV = {**stack.environment(), "PPROF_TMPDIR": stack.WORK, "JEPROF_TMPDIR": stack.WORK, "HOME": HOME,
       "PATH": f"{stack.environment()['PATH']}:{HOME}/.cargo/bin"}
ROUND = {"parse_request": 3072 * 1024 + 3072 * 8, "encode_reply": 1 << 20, "grow_cache": 1 << 16}


def run(line, **words):
    """Runs one line of the documentation in a shell and returns its stdout."""
    done = subprocess.run(["bash", "-c", "set -o pipefail; " + line.format(**words)], env=ENV, cwd=stack.WORK,
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{line} gave {done.returncode}: {done.stdout[-500:]}{done.stderr[-1500:]}"
    return done.stdout


def build_cpp():
    run("g++ -O1 -std=c++17 -o heap-cpp {source} -l:libjemalloc.a -lm -lpthread", source=f"{SOURCES}/heap.cc")
    return os.path.join(stack.WORK, "heap-cpp")


@functools.cache
def build_rust():
    """Gives the functions of Debian's library the prefix that they have in Rust's crate."""
    if not shutil.which("rustc", path=ENV["PATH"]):
        raise check.Skip("rustc is not installed")
    run("""cp {library} librjem.a && chmod u+w librjem.a && ar d librjem.a jemalloc_cpp.pic.o
           nm -g --defined-only librjem.a 2> /dev/null | sed -nE 's/.* [TW] ([a-z_]+)$/\\1/p' | grep -v ^je_ | sort -u |
               sed 's/.*/& _rjem_&/' > names && objcopy --redefine-syms=names librjem.a""", library=JEMALLOC)
    try:
        run("rustc -C opt-level=2 -C panic=abort -L . -l static=rjem -o heap-rust {source}", source=f"{SOURCES}/heap.rs")
    except AssertionError as error:
        raise check.Skip("rustc does not work here") from error
    return os.path.join(stack.WORK, "heap-rust")


def check_shares(collapsed):
    """What each function allocates, freed or not, beside what it allocates in each round."""
    sums = dict.fromkeys(ROUND, 0)
    for line in collapsed.splitlines():
        for name in ROUND:
            if re.search(rf"\b{name}\b", line):
                sums[name] += int(line.rsplit(" ", 1)[1])
        leaf = line.rsplit(" ", 1)[0].rsplit(";", 1)[-1]
        assert not re.match(r"void\* |operator new|(je|_rjem|prof)_|\w*alloc\w*$", leaf), leaf
    total = sum(sums.values())
    assert total > 4 * sum(ROUND.values()), collapsed[-1000:]
    for name, size in ROUND.items():
        check.near(sums[name] / total, size / sum(ROUND.values()), 0.06, f"the share of {name}")


def check_allocations(server, backend):
    """The commands of IOx and of Julia; heap profiling is neither needed nor switched on."""
    page, active = server.page, run("curl -s {page}/debug/prof/mem/status", page=server.page)
    check_shares(run("""curl -sf -H 'Accept: text/html' '{page}/debug/pprof/allocs?seconds=1' -o allocs.svg &
                        curl -s '{page}/allocs_profile?sample_rate=0.01&duration=1' --output allocs_prof1.pb.gz &
                        curl -sf '{page}/debug/pprof/allocs?seconds=1&interval=4096&output=collapsed'; wait""", page=page))
    check.contains(run("cat allocs.svg"), "parse_request")
    top = run("go tool pprof -top allocs_prof1.pb.gz 2>&1")
    check.contains(top, "parse_request")
    check.contains(top, f"backend: Sonde's sampler {backend}, each allocation with probability 0.01")
    check.equal(run("curl -s '{page}/allocs_profile_start?sample_rate=1'", page=page), "Allocation profiling started.")
    check_shares(run("sleep 0.3; curl -sf '{page}/allocs_profile_stop?output=collapsed'", page=page))
    check.equal(run("curl -s {page}/debug/prof/mem/status", page=page), active)


def check_tikv(server, binary):
    words = {"heap": f"{server.page}/debug/pprof/heap", "binary": binary}
    check.equal(run("curl -s '{heap}_activate?interval=1'", **words), "activate heap profile success")
    listed = check.until(lambda: run("curl -s {heap}_list", **words), what="a periodic dump")
    name = listed.split("\t")[0]
    run("jeprof --svg {heap} > remote.svg; curl -sf '{heap}?name={name}' -o one.heap; jeprof --svg {binary} one.heap > local.svg",
        name=name, **words)
    for file in ("remote.svg", "local.svg"):
        check.contains(run("cat {file}", file=file), "grow_cache")
    check.contains(run("curl -sf '{heap}?jeprof=true'", **words), "grow_cache")
    check.equal(run("curl -s {heap}_deactivate", **words), "deactivate heap profile success")


def check_greptimedb(server, binary):
    words = {"mem": f"{server.page}/debug/prof/mem", "binary": binary}
    check.equal(run("curl -s -X GET {mem}/status", **words), '{"active": true}')
    check.equal(run("curl -s -X POST {mem}/activate", **words), "Heap profiling activated")
    check.until(lambda: "grow_cache" in run("curl -s -X POST '{mem}?output=flamegraph'", **words), what="a sample of grow_cache")
    run("curl -sf -X POST {mem} > before.hprof; sleep 0.1; curl -sf -X POST {mem} > after.hprof", **words)
    check.contains(run("jeprof {binary} after.hprof --collapse", **words), "grow_cache")
    run("jeprof {binary} --base before.hprof after.hprof --collapse", **words)
    check.contains(run("curl -sf -X POST '{mem}?output=flamegraph'", **words), "grow_cache")
    run("curl -sf -X POST '{mem}?output=proto' > greptime.pprof", **words)
    check.contains(run("go tool pprof -top greptime.pprof", **words), "grow_cache")
    check.equal(run("curl -s -X POST {mem}/deactivate", **words), "Heap profiling deactivated")


def test_a_cpp_program_prepared_with_sonde_run_heap():
    binary = build_cpp()
    with stack.Server(binary, flags=("--heap",), ready="ready") as server:
        check_allocations(server, "in jemalloc's hooks")
        check_tikv(server, binary)


def test_a_rust_program_started_as_greptimedb_says():
    binary = build_rust()
    with stack.Server(binary, env={"MALLOC_CONF": "prof:true"}, ready="ready") as server:
        check_greptimedb(server, binary)
        check_allocations(server, "in jemalloc's hooks and on the malloc of libc.so.6")


def test_a_rust_program_without_any_setting():
    with stack.Server(build_rust(), ready="ready") as server:
        check_shares(server.get("/allocs_profile?sample_rate=1&duration=0.5&output=collapsed")[2].decode())


check.main(globals())
