# SPDX-License-Identifier: Apache-2.0
"""The demo server under an installed Sonde. Its functions use known shares of the CPU time; the tests check them through every
interface and run every verb of `sonde`."""

import concurrent.futures
import gzip
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import xml.etree.ElementTree

from tests.cli import check
from tests.e2e import stack

DEMO = os.path.abspath("clients/demo/demo")
SHARES = {"parse_header": 0.10, "compress_block": 0.20, "match_rules": 0.70}
CHAINS = {"parse_header": "read_request", "compress_block": "write_response", "match_rules": "apply_policy"}
PATH = os.path.join(stack.WORK, "out")

stack.install()
SERVER = stack.Server(DEMO, flags=("--name", "demo", "--history"), ready="demo: pid")


def at_once(function, *argument_lists):
    """Calls the function with each tuple of arguments, side by side, and returns the results."""
    with concurrent.futures.ThreadPoolExecutor(len(argument_lists)) as pool:
        return [done.result() for done in [pool.submit(function, *arguments) for arguments in argument_lists]]


def three_sigma(share, samples):
    return 3 * (share * (1 - share) / max(samples, 1)) ** 0.5 + 0.005


def check_shares(seconds, frequency):
    """Compares the share of each function with its known share. On a busy machine it takes more captures, until there are
    enough samples."""
    stacks = []
    for _ in range(5):
        stacks += SERVER.stacks(seconds=seconds, frequency=frequency)
        samples = stack.total(stacks)
        if samples > 200:
            break
    assert samples > 200, f"only {samples} samples"
    for name, share in SHARES.items():
        check.near(stack.leaf_share(stacks, name), share, three_sigma(share, samples), f"share of {name}")


def test_functions_have_their_known_shares_at_99_and_999_hz():
    at_once(check_shares, (6, 99), (3, 999))


def test_every_leaf_has_the_right_callers():
    stacks = SERVER.stacks(seconds=2, frequency=999)
    for leaf, caller in CHAINS.items():
        share = stack.chain_share(stacks, "serve", "handle_request", caller, leaf)
        # with a deeper stack, serve calls handle_request by way of descend
        share += stack.chain_share(stacks, "descend", "handle_request", caller, leaf)
        assert share >= 0.99, f"{leaf}: {share} of its samples have the right callers"


def test_threads_have_their_names():
    threads = {frames[0] for frames, _ in SERVER.stacks(seconds=1, frequency=999)}
    assert any(name.startswith("http-1") for name in threads), threads
    assert any(name.startswith("http-2") for name in threads), threads


def test_curl_gets_a_flame_graph():
    flame = PATH + ".svg"
    subprocess.run(["curl", "-fsS", "-o", flame, f"{SERVER.page}/debug/pprof/profile?seconds=1"], check=True)
    with open(flame, encoding="utf-8") as picture:
        text = picture.read()
    check.contains(text, "<svg")
    check.contains(text, "match_rules")
    xml.etree.ElementTree.parse(flame)


def go_pprof_top(*words):
    env = stack.environment()
    done = subprocess.run(["go", "tool", "pprof", "-top", *words], env={**env, "PPROF_TMPDIR": stack.WORK},
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def first_function(top):
    lines = top.splitlines()
    header = next(i for i, line in enumerate(lines) if "flat%" in line)
    return re.sub(r"^(±\S+ +)+", "", lines[header + 1].split(maxsplit=5)[5])  # few samples have columns of intervals, too


def test_go_tool_pprof_reads_both_paths():
    for top in at_once(go_pprof_top, *((f"{SERVER.page}{path}?seconds=2",) for path in ("/debug/pprof/profile", "/pprof/profile"))):
        check.contains(first_function(top), "match_rules")


def jeprof(address):
    return subprocess.run(["jeprof", "--text", "--seconds=2", address], capture_output=True, text=True, timeout=120, check=False,
                          env={**stack.environment(), "JEPROF_TMPDIR": tempfile.mkdtemp(dir=stack.WORK)})


def test_jeprof_reads_the_gperftools_path():
    for done in at_once(jeprof, (SERVER.host,), (f"{SERVER.page}/pprof/profile",)):
        assert done.returncode == 0, done.stderr
        table = [line for line in done.stdout.splitlines() if "%" in line]
        check.contains(table[0], "match_rules")


def test_record_writes_every_format_by_its_extension():
    starts = {".svg": b"<?xml", ".pb.gz": b"\x1f\x8b", ".collapsed": None, ".speedscope.json": b"{", ".txt": None, ".md": b"# Profile",
              ".firefox.json": b'{"meta":',
              ".prof": b"\0\0\0\0\0\0\0\0\3"}
    recorded = at_once(stack.sonde, *(("record", "demo", "-d", "0.5", "-F", "499", "-o", PATH + extension) for extension in starts))
    for (extension, start), (_, summary) in zip(starts.items(), recorded):
        assert re.search(r"samples in \d\.\d s, 0 dropped", summary), summary
        with open(PATH + extension, "rb") as result:
            body = result.read()
        assert body.startswith(start or b""), body[:40]
        assert len(body) > 100, body
        if extension == ".firefox.json":
            check.contains(body.decode(), "Each sample is in the 20 ms in which it was taken.")
        if extension not in (".prof", ".pb.gz"):
            assert b"match_rules" in body
    assert b"match_rules" in gzip.open(PATH + ".pb.gz").read()


def test_top_and_draw_work_offline_on_a_recorded_file():
    stack.sonde("record", "-d", "1", "-F", "499", "-o", PATH + ".pb.gz")
    check.contains(go_pprof_top(PATH + ".pb.gz"), "match_rules")
    top, _ = stack.sonde("top", PATH + ".pb.gz", "--service", "unix:/nowhere")
    check.equal(first_function(top), "match_rules")
    stack.sonde("draw", PATH + ".pb.gz", "-o", PATH + ".again.svg", "--service", "unix:/nowhere")
    with open(PATH + ".again.svg", encoding="utf-8") as picture:
        check.contains(picture.read(), "apply_policy")


def test_top_of_a_running_target():
    top, _ = stack.sonde("top", str(SERVER.pid), "-d", "1", "-F", "999")
    check.equal(first_function(top), "match_rules")


def test_targets_lists_the_demo():
    text, _ = stack.sonde("targets")
    check.contains(text, "demo")
    listed = json.loads(stack.sonde("targets", "--json")[0])["targets"]
    check.equal([(target["name"], target["pid"]) for target in listed], [("demo", SERVER.pid)])


def test_targets_watch_prints_attached_targets():
    watch = subprocess.Popen([stack.SONDE, "targets", "--watch", "--json"], env=stack.environment(), text=True,
                             stdout=subprocess.PIPE)
    first = json.loads(watch.stdout.readline())
    check.equal((first["kind"], first["target"]["name"]), ("ATTACHED", "demo"))
    watch.send_signal(signal.SIGINT)
    check.equal(watch.wait(20), 0, "status after Ctrl-C")


def address_of(symbol):
    listing = subprocess.run(["nm", DEMO], capture_output=True, text=True, check=True).stdout
    offset = next(int(line.split()[0], 16) for line in listing.splitlines() if line.endswith(" " + symbol))
    with open(f"/proc/{SERVER.pid}/maps", encoding="ascii") as maps:
        base = next(int(line.split("-")[0], 16) for line in maps if "/demo" in line)
    return base + offset


def test_symbol_resolves_an_address():
    address = address_of("match_rules") + 3
    text, _ = stack.sonde("symbol", "demo", hex(address))
    words = text.split()
    check.equal((words[0], words[1], words[-1]), (hex(address), "match_rules", "(+0x3)"))
    check.contains(stack.sonde("symbol", "0x1")[0], "not mapped")


def test_doctor_finds_the_service_and_the_target():
    done = subprocess.run([stack.SONDE, "doctor", "--json"], env=stack.environment(), capture_output=True, text=True,
                          check=False)
    findings = json.loads(done.stdout)["findings"]
    states = {(finding["subject"], finding["state"]) for finding in findings}
    assert {("service", "ok"), ("target", "ok"), ("symbols", "ok"), ("programs", "ok")} <= states, done.stdout
    check.equal(done.returncode, 1 if any(state == "fix" for _, state in states) else 0, "status")


def test_ctrl_c_ends_the_capture_in_the_target_and_keeps_it():
    path = PATH + ".stopped.svg"
    record = subprocess.Popen([stack.SONDE, "record", "-d", "60", "-o", path], env=stack.environment(),
                              stderr=subprocess.PIPE, text=True)
    running = lambda: json.loads(stack.sonde("targets", "--json")[0])["targets"][0]["capturesRunning"]
    check.until(lambda: running() == 1, what="a running capture")
    record.send_signal(signal.SIGINT)
    _, err = record.communicate(timeout=60)
    check.equal(record.returncode, 0, f"status ({err})")
    check.until(lambda: running() == 0, seconds=30, what="the end of the capture in the target")
    left = [name for name in os.listdir(stack.WORK) if "stopped" in name or name.startswith(".sonde-")]
    check.equal(left, [os.path.basename(path)])
    with open(path, encoding="utf-8") as file:
        check.contains(file.read(), "</svg>")


def test_the_exit_status_depends_on_the_error():
    stack.sonde("record", "-o", PATH + ".unknown", status=2)
    stack.sonde("record", "-d", "99999", status=2)
    stack.sonde("record", "no-such-target", "-o", PATH + ".svg", status=1)
    stack.sonde("targets", "--service", "unix:/nowhere/sock", status=3)
    stack.sonde("top", "/no/such/file.pb.gz", status=1)
    stack.sonde("no-such-verb", status=2)


def test_the_flame_graph_of_an_idle_target_says_no_samples():
    with stack.Server("/bin/sleep", "60") as idle:
        status, _, body = idle.get("/debug/pprof/profile?seconds=1")
        check.equal(status, 200)
        check.contains(body.decode(), "no samples")


def test_a_target_that_exits_during_a_capture_leaves_a_partial_profile():
    with stack.Server(DEMO, "--seconds", "4", ready="demo: pid") as short:
        started = time.monotonic()
        stacks = short.stacks(seconds=30, frequency=999)
        assert time.monotonic() - started < 20
        check.contains(" ".join(frames[-1] for frames, _ in stacks), "match_rules")
        check.equal(short.process.wait(20), 0)


def weights(*words):
    lines = stack.sonde(*words, "-o", "-", "--format", "collapsed")[0].splitlines()
    return [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in lines]


def sum_of(stacks, *functions):
    return sum(weight for frames, weight in stacks if all(name in frames for name in functions))


def test_the_demo_of_the_guide_waits_and_holds_memory_in_the_expected_functions():
    address = f"unix:{stack.WORK}/guide.sock"
    service = ("--service", address)
    with stack.Server(DEMO, "--guide", "--threads", "2", flags=("--grpc", address), ready="demo: pid"):
        waits = weights("record", "demo", "-d", "2", "--mode", "off-cpu", *service)
        assert sum_of(waits, "query_database", "wait_for_reply") > 0, waits
        assert sum_of(waits, "update_table", "write_journal") > 0, waits
        stack.sonde("heap", "on", "--sample", "16384", *service)
        full = 2 * 256 * (24 + 8 << 10)
        heap = check.until(lambda: (lambda found: sum_of(found, "remember") > 0.85 * full and found)(
            weights("heap", "dump", *service)), seconds=60, what="the memory of the demo")
        held = sum_of(heap, "remember")
        check.near(held / full, 1, 0.2, "memory held")
        check.near(sum_of(heap, "store_page") / held, 0.75, 0.1, "share of the pages")
        check.near(sum_of(heap, "open_session") / held, 0.25, 0.1, "share of the sessions")


def printed_command():
    """The query of the history that bazel/demo.sh prints."""
    with open("bazel/demo.sh", encoding="utf-8") as script:
        text = script.read().split("<<TRACING\n")[1].split("\nTRACING\n")[0]
    return text.replace("$page", SERVER.page).replace("\\$", "$").replace("\\\\", "\\")


def tracing():
    done = subprocess.run(["bash", "-c", printed_command()], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    check.equal((answer["OPT_STATUS"], answer["DESCRIPTION"]), ("SUCCESS", ""))
    return answer["result"]


def test_the_printed_query_of_the_history_has_the_known_shares():
    shown = lambda nodes: [node for node in nodes if node["profile_location_str"] == "match_rules"]
    nodes = check.until(lambda: (lambda found: shown(found) and found)(tracing()), seconds=60, what="a window of history")
    check.equal((nodes[0]["profile_location_str"], nodes[0]["parent_node_id"]), ("demo", "-1"))
    total = nodes[0]["total_value"]
    check.equal(sum(node["self_value"] for node in nodes), total)
    share = sum(node["self_value"] for node in shown(nodes)) / total
    check.near(share, SHARES["match_rules"], 0.15, "share of match_rules")


def test_history_on_the_command_line_shows_what_was_recorded():
    listed, errors = stack.sonde("history", "--list")
    check.contains(listed, "demo  on-cpu")
    check.equal(errors, "")
    table, completeness = stack.sonde("history", "demo")
    check.equal(first_function(table), "match_rules")
    assert re.match(r"(in)?complete: \d+ of \d+ windows of \d+ s.*, from .* until .*, \d+ samples dropped", completeness), completeness
    stack.sonde("history", "demo", "-o", PATH + ".history.pb.gz")
    check.contains(go_pprof_top(PATH + ".history.pb.gz"), "match_rules")


try:
    check.main(globals())
finally:
    SERVER.stop()
