# SPDX-License-Identifier: Apache-2.0
"""Existing tools (go tool pprof, google-pprof, jeprof, curl, rsvg-convert, man) read what Sonde serves and writes."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

from tests.cli import check
from tests.e2e import stack

DEMO = os.path.abspath("clients/demo/demo")
stack.install()
SERVER = stack.Server(DEMO, "--tick", flags=("--name", "demo"), ready="demo: pid")
FILE = os.path.join(stack.WORK, "demo")


def run(*words, **options):
    if not shutil.which(words[0], path=stack.environment()["PATH"]):
        raise check.Skip(f"{words[0]} is not installed")
    env = {**stack.environment(), "PPROF_TMPDIR": stack.WORK, "BROWSER": "true"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120, check=False, **options)
    assert done.returncode == 0, f"{words} returned {done.returncode}: {done.stderr}"
    return done.stdout


def recorded(extension):
    """The path of a recorded file in this format. Each format is recorded once."""
    path = FILE + extension
    if not os.path.exists(path):
        stack.sonde("record", "demo", "-d", "1", "-F", "999", "-o", path)
    return path


def test_go_tool_pprof_needs_only_the_host_and_port():
    check.contains(run("go", "tool", "pprof", "-top", "-seconds=1", f"http://{SERVER.host}"), "match_rules")


def test_pprof_files_contain_names_labels_and_mappings():
    raw = run("go", "tool", "pprof", "-symbolize=none", "-raw", recorded(".pb.gz"))
    check.contains(raw, "match_rules")
    check.contains(raw, "samples/count")
    check.contains(raw, "cpu/nanoseconds")
    assert re.search(r"thread:\[http-1\]", raw), raw[:2000]
    assert re.search(r"/demo\b", raw[raw.index("Mappings"):]), "the program is not among the mappings"


def test_go_tool_pprof_shows_callers_and_traces():
    peek = run("go", "tool", "pprof", "-peek=match_rules", recorded(".pb.gz"))
    check.contains(peek, "apply_policy")
    check.contains(run("go", "tool", "pprof", "-traces", recorded(".pb.gz")), "handle_request")


def test_go_tool_pprof_takes_the_difference_of_two():
    other = FILE + ".other.pb.gz"
    stack.sonde("record", "demo", "-d", "0.5", "-o", other)
    check.contains(run("go", "tool", "pprof", "-top", f"-diff_base={other}", recorded(".pb.gz")), "flat%")


def test_go_tool_pprof_reads_the_gperftools_file():
    check.contains(run("go", "tool", "pprof", "-top", DEMO, recorded(".prof")), "match_rules")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetch(host, path):
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    except ConnectionRefusedError:
        return None
    finally:
        connection.close()


def test_the_web_page_of_go_tool_pprof_draws_the_flame_graph():
    host = f"127.0.0.1:{free_port()}"
    page = subprocess.Popen(["go", "tool", "pprof", f"-http={host}", "-no_browser", recorded(".pb.gz")],
                            env={**stack.environment(), "PPROF_TMPDIR": stack.WORK}, stderr=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        check.contains(check.until(lambda: fetch(host, "/ui/flamegraph"), what="the page"), "match_rules")
    finally:
        os.killpg(page.pid, signal.SIGTERM)
        page.wait()


def test_google_pprof_reads_a_gperftools_file_with_its_program():
    # Not jeprof: it cannot resolve names in position-independent programs, not even from gperftools' own files.
    check.contains(run("google-pprof", "--text", DEMO, recorded(".prof")), "match_rules")


def test_jeprof_draws_and_collapses_what_it_fetches():
    check.contains(run("jeprof", "--svg", "--seconds=1", SERVER.host), "match_rules")
    folded = run("jeprof", "--collapsed", "--seconds=1", SERVER.host)
    assert re.search(r"handle_request;apply_policy;match_rules \d+", folded), folded[:500]


def test_google_pprof_reads_the_gperftools_path():
    check.contains(run("google-pprof", "--text", "--seconds=1", f"{SERVER.host}/pprof/profile"), "match_rules")


def test_collapsed_lines_are_a_stack_and_a_count():
    with open(recorded(".collapsed"), encoding="utf-8") as lines:
        for line in lines:
            assert re.fullmatch(r"[^;]+(;[^;]+)* \d+\n", line), line


def test_speedscope_files_follow_its_schema():
    with open(recorded(".speedscope.json"), encoding="utf-8") as file:
        document = json.load(file)
    check.equal(document["$schema"], "https://www.speedscope.app/file-format-schema.json")
    frames = document["shared"]["frames"]
    assert any("match_rules" in frame["name"] for frame in frames), frames
    for profile in document["profiles"]:
        check.equal(profile["type"], "sampled")
        check.equal(len(profile["samples"]), len(profile["weights"]), "weights")
        assert all(0 <= index < len(frames) for sample in profile["samples"] for index in sample)
        check.near(sum(profile["weights"]), profile["endValue"] - profile["startValue"], 1, "the profile's length")


def test_librsvg_renders_the_flame_graph():
    png = FILE + ".png"
    run("rsvg-convert", "-o", png, recorded(".svg"))
    assert os.path.getsize(png) > 5000


def test_curl_gets_profiles_over_http1_http2_and_compressed():
    address = f"{SERVER.page}/debug/pprof/profile?seconds=1"
    for flags in (("--http2-prior-knowledge",), ("--compressed",), ("--http1.1",)):
        check.contains(run("curl", "-fsS", *flags, address), "match_rules")


def test_a_head_request_starts_no_capture():
    started = time.monotonic()
    run("curl", "-fsSI", f"{SERVER.page}/debug/pprof/profile?seconds=30")
    assert time.monotonic() - started < 10


def test_many_concurrent_clients_each_get_their_own_profile():
    jobs = [subprocess.Popen(["curl", "-fsS", f"{SERVER.page}/debug/pprof/profile?seconds={1 + number % 3}"
                              f"&frequency={99 + number}&output=collapsed"], stdout=subprocess.PIPE, text=True)
            for number in range(12)]
    for job in jobs:
        out, _ = job.communicate(timeout=60)
        check.equal(job.returncode, 0, "curl's status")
        check.contains(out, "match_rules")


def test_installed_programs_do_not_search_the_build_directory():
    for name in ("bin/sonde", "bin/sonded", "bin/sonde-gateway", "bin/sonde-history", "bin/sonde-collect", "lib/libsonde.so"):
        needed = run("readelf", "-d", f"{stack.PREFIX}/{name}")
        assert "RUNPATH" not in needed and "RPATH" not in needed, needed


def test_man_shows_the_installed_pages():
    for page, words in (("man1/sonde.1", "sonde record"), ("man8/sonded.8", "--grpc"), ("man8/sonde-gateway.8", "--listen"),
                        ("man8/sonde-history.8", "--store"), ("man8/sonde-collect.8", "--spool")):
        check.contains(run("man", "-P", "cat", "-l", f"{stack.PREFIX}/share/man/{page}"), words)


def test_the_man_pages_name_every_flag():
    programs = [("sonde.1", "man1", [f"{stack.SONDE}"]), ("sonded.8", "man8", [f"{stack.PREFIX}/bin/sonded"]),
                ("sonde-gateway.8", "man8", [f"{stack.PREFIX}/bin/sonde-gateway"]),
                ("sonde-history.8", "man8", [f"{stack.PREFIX}/bin/sonde-history"]),
                ("sonde-collect.8", "man8", [f"{stack.PREFIX}/bin/sonde-collect"])]
    for page, section, command in programs:
        with open(f"{stack.PREFIX}/share/man/{section}/{page}", encoding="utf-8") as text:
            manual = text.read().replace("\\-", "-")
        verbs = re.findall(r"^  (\w+)  ", run(*command, "--help").split("examples:")[0], re.M) if page == "sonde.1" else [None]
        for verb in verbs:
            shown = run(*command, *([verb] if verb else []), "--help")
            for flag in re.findall(r"^  ..? ?(--[a-z0-9-]+)", shown, re.M):
                assert flag in manual, f"{page} does not mention {verb or ''} {flag}"


try:
    check.main(globals())
finally:
    SERVER.stop()
