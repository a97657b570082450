# SPDX-License-Identifier: Apache-2.0
"""Runs real programs, unchanged, under an installed Sonde and checks that every leaf has the right callers."""

import os
import pwd
import re
import shutil
import socket
import subprocess

from tests.cli import check
from tests.e2e import stack

SOURCES = os.path.abspath("tests/e2e/servers")
stack.install()


def need(program):
    """The program's path, searched for also in rustup's folder, which Bazel's PATH does not have."""
    home = pwd.getpwuid(os.getuid()).pw_dir
    path = shutil.which(program, path=f"{stack.environment()['PATH']}:{home}/.cargo/bin")
    if not path:
        raise check.Skip(f"{program} is not installed")
    return path


def build(name, *command):
    path = os.path.join(stack.WORK, name)
    subprocess.run([*command, "-o", path], check=True, env={**os.environ, "HOME": pwd.getpwuid(os.getuid()).pw_dir})
    return path


def build_threads(name, *flags):
    return build(name, "g++", "-O2", "-fomit-frame-pointer", "-pthread", *flags, f"{SOURCES}/threads.cc")


def samples_of(server, seconds=3, frequency=499):
    """Returns at least 200 samples. On a busy machine one capture has fewer, so more captures are taken."""
    stacks = []
    for _ in range(6):
        stacks += server.stacks(seconds=seconds, frequency=frequency)
        if stack.total(stacks) > 200:
            return stacks
    raise AssertionError(f"only {stack.total(stacks)} samples")


def rooted_share(stacks, *roots):
    """The share of the samples whose outermost frame is one of `roots`."""
    good = sum(count for frames, count in stacks if len(frames) > 1 and any(root in frames[1] for root in roots))
    return good / stack.total(stacks)


def test_a_cpp_program_without_frame_pointers_has_the_right_callers():
    with stack.Server(build_threads("threads"), ready="ready") as server:
        stacks = samples_of(server)
        assert stack.leaf_share(stacks, "price_of") > 0.9, stacks[:5]
        checkout = [(frames, count) for frames, count in stacks if any("Checkout::run" in frame for frame in frames)]
        assert 0.6 < stack.total(checkout) / stack.total(stacks) < 0.85
        share = stack.chain_share(checkout, "run", "sum", "price_of")
        assert share >= 0.99, f"{share} of the Checkout samples have the right callers: {checkout[:3]}"
        assert rooted_share(stacks, "clone", "start_thread") > 0.98, stacks[:5]


def names_by_address(path):
    listing = subprocess.run(["nm", "-nC", path], capture_output=True, text=True, check=True).stdout
    rows = [line.split(" ", 2) for line in listing.splitlines() if re.match(r"[0-9a-f]{16} [tTwW] ", line)]
    return [(int(row[0], 16), row[2]) for row in rows]


def name_of(table, frame):
    """The function that "[stripped]+0x12f3" means, by the symbol table of the unstripped program."""
    match = re.fullmatch(r"\[stripped\]\+(0x[0-9a-f]+)", frame)
    if not match:
        return frame
    address = int(match.group(1), 16)
    return next((name for start, name in reversed(table) if start <= address), frame)


def test_a_stripped_program_keeps_its_callers():
    full = build_threads("full", "-Wl,--build-id")
    stripped = os.path.join(stack.WORK, "stripped")
    subprocess.run(["strip", "-o", stripped, full], check=True)
    table = names_by_address(full)
    with stack.Server(stripped, ready="ready") as server:
        server_frames = samples_of(server)
        stacks = [([frames[0]] + [name_of(table, frame) for frame in frames[1:]], count)
                  for frames, count in server_frames]
        assert stack.leaf_share(stacks, "price_of") > 0.9, stacks[:5]
        checkout = [(frames, count) for frames, count in stacks if any("Checkout::run" in frame for frame in frames)]
        assert stack.total(checkout) > 0.5 * stack.total(stacks), stacks[:5]
        share = stack.chain_share(checkout, "run", "sum", "price_of")
        assert share >= 0.99, f"{share}: {checkout[:3]}"
    starts = {hex(start) for start, _ in table}
    places = {frame.split("+")[1] for frames, _ in server_frames for frame in frames if frame.startswith("[stripped]+")}
    assert places and places <= starts, places - starts  # every place is the start of a function


def test_a_rust_program_has_the_right_callers():
    rustc = need("rustc")
    try:
        path = build("server-rs", rustc, "-C", "opt-level=3", "-C", "panic=abort", f"{SOURCES}/server.rs")
    except subprocess.CalledProcessError as error:
        raise check.Skip("rustc does not work here") from error
    with stack.Server(path, ready="ready") as server:
        stacks = samples_of(server)
        assert stack.leaf_share(stacks, "checksum") > 0.9, stacks[:5]
        share = sum(count for frames, count in stacks if "checksum" in frames[-1] and "apply" in frames[-2]
                    and "pipeline" in frames[-3]) / stack.total(stacks)
        assert share >= 0.9, f"{share}: {stacks[:3]}"
        assert any(frames[0].startswith("scan-") for frames, _ in stacks)
        assert not any(re.search(r"::h[0-9a-f]{16}\b", frame) for frames, _ in stacks for frame in frames)


def spans_by_thread(server):
    """{thread: (trace id, span id) or None} of a capture's samples."""
    path = os.path.join(stack.WORK, "spans.pb.gz")
    status, _, body = server.get("/debug/pprof/profile?seconds=1&frequency=199&output=proto")
    assert status == 200, body
    with open(path, "wb") as file:
        file.write(body)
    raw = subprocess.run(["go", "tool", "pprof", "-raw", path], env=stack.environment(), capture_output=True, text=True, check=True)
    found = {}
    for line in raw.stdout.splitlines():
        labels = dict(re.findall(r"(\w+):\[([^\]]*)\]", line))
        if "thread" in labels:
            ids = (labels["trace_id"], labels["span_id"]) if "trace_id" in labels else None
            found.setdefault(labels["thread"], set()).add(ids)
            assert "request" not in labels, line
    return found


def check_spans(program):
    with stack.Server(program, ready="ready", env={"SONDE_OTEL_CONTEXT": "1"}) as server:
        found = spans_by_thread(server)
        check.equal(found.pop("spanned"), {("ab" * 16, "12" * 8)}, "the span")
        check.equal(found, {name: {None} for name in ("unfinished", "nowhere", "cut", "plain")}, "the other threads")


def test_samples_have_the_span_that_the_program_publishes():
    need("go")
    program = build("spans", "gcc", "-O1", "-g", "-pthread", "-rdynamic", f"{SOURCES}/spans.c")
    check_spans(program)
    with stack.Server(program, ready="ready") as server:  # off unless asked for
        check.equal(spans_by_thread(server)["spanned"], {None}, "the span without SONDE_OTEL_CONTEXT")


def test_samples_have_the_span_that_a_library_publishes():
    need("go")
    source = os.path.join(stack.WORK, "context.c")
    with open(source, "w", encoding="ascii") as file:
        file.write("__thread void *volatile otel_thread_ctx_v1;\n")
    library = build("libcontext.so", "gcc", "-shared", "-fPIC", "-mtls-dialect=gnu2", source)
    check_spans(build("spans-of-library", "gcc", "-O1", "-g", "-pthread", "-DSTORAGE=extern", f"{SOURCES}/spans.c", library,
                      f"-Wl,-rpath,{stack.WORK}"))


def test_the_python_interpreter_has_complete_stacks():
    with stack.Server("/usr/bin/python3", f"{SOURCES}/burn.py", ready="ready") as server:
        stacks = samples_of(server)
        inside = sum(count for frames, count in stacks if any("_PyEval_EvalFrameDefault" in frame for frame in frames))
        assert inside / stack.total(stacks) > 0.9, stacks[:5]
        assert rooted_share(stacks, "_start", "clone", "start_thread") > 0.97, stacks[:5]
        # Its functions have no names, and everything that shows the program says what would give them.
        for path in ("/debug/pprof/profile?seconds=1&output=top", "/"):
            check.contains(server.get(path)[2].decode(), ": Python functions have no names; ")


def test_java_without_names_says_what_would_give_them_although_no_sample_is_in_its_own_file():
    need("javac")
    with stack.Server("/usr/bin/java", f"{SOURCES}/Burn.java", ready="ready") as server:
        for path in ("/debug/pprof/profile?seconds=1&output=top", "/"):
            check.contains(server.get(path)[2].decode(), ": Java methods have no names; ")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def test_redis_under_load_has_complete_stacks():
    need("redis-server")
    need("redis-benchmark")
    port = free_port()
    command = ("redis-server", "--port", port, "--save", "", "--dir", stack.WORK)
    with stack.Server(*command, ready="Ready to accept connections") as server:
        load = ("redis-benchmark", "-p", port, "-q", "-l", "-t", "set,get,lpush", "-c", "20", "-P", "16")
        with stack.Load(*load):
            stacks = samples_of(server)
        called = [target["name"] for target in server.targets()]
    assert called == ["redis-server"], called  # redis writes its port over argv[0]
    names = {frame for frames, _ in stacks for frame in frames}
    for expected in ("processCommand", "aeMain", "main"):
        assert any(expected in name for name in names), f"{expected}: {sorted(names)[:60]}"
    main = [(frames, count) for frames, count in stacks if frames[0].startswith("redis-server")]
    assert stack.total(main) > 0.8 * stack.total(stacks), {frames[0] for frames, _ in stacks}
    assert rooted_share(main, "_start", "main") > 0.97, main[:5]


check.main(globals(), at_once=2)
