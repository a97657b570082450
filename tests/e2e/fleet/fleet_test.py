# SPDX-License-Identifier: Apache-2.0
"""Two real sonded, sonde-collect and sonde-history: what History has of both machines is what the processes' CPU clocks say, although
every part is killed or away for a while."""

import json
import os
import re
import signal
import socket
import subprocess

from tests.cli import check
from tests.e2e import stack
from tests.e2e.fleet.machines import (HISTORY, HOSTS, NAME, SPOOL, clock_ns, refused, start_collect, start_demo, start_history, start_sonded, stored_ns, until_stored, write_hosts)


def test_two_machines_are_stored_once_although_parts_are_killed():
    write_hosts("a", "b")
    with start_sonded("a"), start_sonded("b"), start_history() as history:
        with start_collect() as collect:
            check.until(lambda: collected("a") and collected("b"), what="both sessions")
            demos = {machine: start_demo(machine, 14) for machine in "ab"}
            check.until(lambda: stored_ns("a") > 0, seconds=40, what="the first window")
            collect.kill()
        history.kill()
        with start_collect() as collect:
            check.until(lambda: "windows wait in the spool" in collect.logged(), seconds=40, what="an absent History")
            clocks = {machine: clock_ns(demo) for machine, demo in demos.items()}
            with start_history():
                for machine, expected_ns in clocks.items():
                    until_stored(machine, expected_ns)
                check.equal(collect.end(), 0, "status")
                for machine, expected_ns in clocks.items():
                    check.near(stored_ns(machine), expected_ns, 0.15 * expected_ns, machine)


def collected(machine):
    done = subprocess.run(["/usr/bin/python3", "-B", "-c", "import sys; sys.path.insert(0, 'clients/python')\n"
                           "from sonde_client import Service\n"
                           f"info = Service('unix:{stack.WORK}/{machine}/grpc.sock').GetInfo(timeout=5)\n"
                           "print(*(s.is_connected and not s.status.trouble for s in info.collect_sessions))"],
                          capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip() == "True"


def test_a_list_that_changes_and_a_pause_take_effect_at_once():
    write_hosts("c")
    with start_sonded("c"), start_sonded("d"), start_history(), start_collect("--spool-mib", "16") as collect:
        check.until(lambda: collected("c"), what="the first host")
        write_hosts("d", "none")
        check.until(lambda: f"host none (unix:{stack.WORK}/none/grpc.sock): " in collect.logged(), what="why a host is missing")
        check.until(lambda: collected("d") and not collected("c"), what="the other host")
        with open(os.path.join(SPOOL, "paused"), "w", encoding="utf-8") as switch:
            switch.write("an incident\n")
        check.until(lambda: "recording is paused: an incident" in collect.logged(), what="the pause")
        os.unlink(os.path.join(SPOOL, "paused"))
        check.until(lambda: "recording is resumed" in collect.logged(), what="the end of the pause")
        check.equal(collect.end(), 0, "status")


def get(url, *flags):
    """The status and the body of a GET, or of what the flags of curl say."""
    done = subprocess.run(["curl", "-s", "-w", "\\n%{http_code}", *flags, url], capture_output=True, text=True, timeout=30, check=False)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def metric(base, name):
    found = re.search(rf"^{re.escape(name)} ([0-9.]+)$", get(f"{base}/metrics")[1], re.M)
    return float(found.group(1)) if found else 0


def check_metrics(base):
    check.until(lambda: metric(base, "sonde_collect_stored_windows_total") > 0, seconds=40, what="a stored window")
    text = get(f"{base}/metrics")[1]
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=30, check=False)
    check.equal(done.returncode, 0, done.stdout + done.stderr)
    check.equal(metric(base, 'sonde_collect_hosts{state="connected"}'), 1, "connected hosts")
    check.equal(metric(base, "sonde_collect_breaker_open"), 0, "the breaker")
    assert metric(base, "sonde_collect_windows_total") >= metric(base, "sonde_collect_stored_windows_total") > 0, text
    assert metric(base, "process_resident_memory_bytes") > 1e6, text
    with open(os.path.join(stack.PREFIX, "share/sonde/prometheus/sonde-collect-alerts.yml"), encoding="utf-8") as alerts:
        used = set(re.findall(r"\bsonde_collect_[a-z_]+\b", alerts.read()))
    assert used and not used - set(re.findall(r"^# TYPE (\S+)", text, re.M)), "alerts name metrics that do not exist"
    assert "name=" not in text and NAME not in text, "a metric names a host or a process"


def check_hosts(base):
    check.until(lambda: not json.loads(get(f"{base}/hosts?name=e")[1])[0]["trouble"], what="the beginning of the recording")
    check.until(lambda: json.loads(get(f"{base}/hosts?name=none")[1])[0]["trouble"], what="a failure to connect")
    hosts = {host["name"]: host for host in json.loads(get(f"{base}/hosts")[1])}
    check.equal(sorted(hosts), ["e", "none"], "hosts")
    check.equal(hosts["e"]["state"], "connected", "state")
    check.equal(hosts["e"]["labels"], {"machine": "e"}, "labels")
    assert hosts["e"]["windows"] > 0 and not hosts["e"]["trouble"], hosts["e"]
    assert hosts["none"]["state"] != "connected" and hosts["none"]["failures_in_a_row"] > 0, hosts["none"]
    assert hosts["none"]["trouble"], "the reason why a host is not connected"
    check.equal([host["name"] for host in json.loads(get(f"{base}/hosts?name=none")[1])], ["none"], "one host")
    check.equal(json.loads(get(f"{base}/hosts?name=other")[1]), [], "an unknown host")
    lines = get(f"{base}/")[1].splitlines()
    check.contains(lines[0], "1 of 2 hosts are connected")
    assert lines[2].startswith("none (") and lines[3].startswith("e ("), lines


def check_refusals(base):
    check.equal(get(f"{base}/metrics", "-H", "Host: evil.example")[0], 403, "a name that is not loopback's")
    for name in ("localhost", "[::1]:9464", "127.0.0.1:1"):
        check.equal(get(f"{base}/metrics", "-H", f"Host: {name}")[0], 200, name)
    check.equal(get(f"{base}/metrics", "-X", "POST", "-d", "x")[0], 405, "POST")
    check.equal(get(f"{base}/metric")[0], 404, "an unknown path")
    check.equal(get(f"{base}/metrics", *(word for i in range(10) for word in ("-H", f"X-{i}: " + "x" * 100000)))[0], 400,
                "headers that are too long")


def test_the_status_says_what_arrives_and_why_a_host_is_missing():
    write_hosts("e", "none")
    with start_sonded("e"), start_history(), start_collect("--metrics", "127.0.0.1:0", "--breaker", "100", ready="metrics: ") as collect:
        base = collect.ready.removeprefix("metrics: ").removesuffix("/metrics")
        check.until(lambda: metric(base, 'sonde_collect_hosts{state="connected"}') == 1, seconds=40, what="a connected host")
        demo = start_demo("e", 7)
        check_metrics(base)
        check_hosts(base)
        check_refusals(base)
        demo.communicate(timeout=60)
        words = ["--hosts", HOSTS, "--history", HISTORY, "--spool", SPOOL + "2", "--metrics"]
        check.contains(refused(*words, base.removeprefix("http://")), "cannot listen on")
        for wrong in ("9464", "host:9464", "127.0.0.1:99999", "[::1:9464"):
            check.contains(refused(*words, wrong), "the port must be a number from 0 to 65535")
        check.equal(collect.end(), 0, "status")


def test_a_service_manager_is_told_and_asks_for_a_reload():
    tokens = {name: os.path.join(stack.WORK, name) for name in ("token-of-g", "token-of-collect")}
    for name, token in zip(tokens, ("a" * 32, "b" * 32)):
        write_token(tokens[name], token)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(os.path.join(stack.WORK, "notify"))
        manager.settimeout(60)
        with start_sonded("g", "--grpc", "127.0.0.1:0", "--token-file", tokens["token-of-g"]) as sonded:
            with open(HOSTS, "w", encoding="utf-8") as hosts:
                hosts.write(f"{sonded.process.stdout.readline().removeprefix('grpc: ').strip()} name=g\n")
            with start_collect("--hosts-token-file", tokens["token-of-collect"], NOTIFY_SOCKET=manager.getsockname()) as collect:
                check.equal(manager.recv(4096), b"READY=1", "the first message")
                check.until(lambda: "host g (" in collect.logged(), what="why the host is refused")
                write_token(tokens["token-of-collect"], "a" * 32)
                collect.process.send_signal(signal.SIGHUP)
                check.contains(manager.recv(4096).decode(), "RELOADING=1\nMONOTONIC_USEC=")
                check.equal(manager.recv(4096), b"READY=1", "the end of the reload")
                check.until(lambda: "): is connected again" in collect.logged(), seconds=90, what="the host")
                check.equal(collect.end(), 0, "status")
                check.equal(manager.recv(4096), b"STOPPING=1", "the last message")


def write_token(path, token):
    with open(path + ".new", "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(token + "\n")
    os.rename(path + ".new", path)


def test_mistakes_are_refused_with_what_to_do():
    write_hosts("a")
    good = {"--hosts": HOSTS, "--history": HISTORY, "--spool": SPOOL}
    for missing in good:
        flags = [word for name, value in good.items() if name != missing for word in (name, value)]
        check.contains(refused(*flags), f"{missing} is missing")
    words = [word for pair in good.items() for word in pair]
    check.contains(refused(*words, "--frequency", "1000"), "999")
    check.contains(refused(*words, "--budget", os.path.join(stack.WORK, "none")), "cannot be read")
    with open(os.path.join(stack.WORK, "budget"), "w", encoding="utf-8") as budget:
        budget.write("web many\n")
    check.contains(refused(*words, "--budget", budget.name), "1")
    with open(HOSTS, "w", encoding="utf-8") as hosts:
        hosts.write("web-1\n")
    check.contains(refused(*words), "hosts.txt")
    write_hosts("a")
    with start_collect():
        check.contains(refused(*words), "another process uses the spool")


check.main(globals())
