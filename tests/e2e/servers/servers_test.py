# SPDX-License-Identifier: Apache-2.0
"""Real servers under load, sampled at 999 Hz: no sample is lost, no stack is cut short, and the sum of the samples agrees with
the CPU clock. redis is recorded at the same time."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

from tests.cli import check
from tests.e2e import stack

stack.install()
SOURCES = os.path.abspath("tests/e2e/servers")
CLICKHOUSE = """<yandex>
<logger><level>warning</level><console>1</console></logger>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
<path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path><user_files_path>{folder}/files/</user_files_path>
<users_config>/etc/clickhouse-server/users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>268435456</mark_cache_size>
</yandex>
"""


def need(program):
    path = shutil.which(program, path="/usr/sbin:/usr/bin:/bin")
    if not path:
        raise check.Skip(f"{program} is not installed")
    return path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_served(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def comments(server, name, seconds=4):
    """The comments in the profile, as a dictionary: {"dropped": "none", ...}."""
    path = os.path.join(stack.WORK, f"{name}.pb.gz")
    status, _, body = server.get(f"/debug/pprof/profile?seconds={seconds}&frequency=999&output=proto")
    assert status == 200, body
    with open(path, "wb") as file:
        file.write(body)
    said = subprocess.run(["go", "tool", "pprof", "-comments", path], env=stack.environment(), capture_output=True,
                          text=True, check=True).stdout
    return dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)


def check_nothing_is_lost(said, least_seconds, least_share=97):
    check.equal(said["dropped"], "none", "dropped")
    assert "cut stacks" not in said, said
    sampled, used = map(float, re.search(r"([\d.]+) s sampled of ([\d.]+) s", said["coverage"]).groups())
    assert sampled > least_seconds, said
    assert least_share <= 100 * sampled / used <= 103, said


def tracing(server, service):
    """DeepFlow's tree of what was recorded, root first; an empty list if that is nothing."""
    query = {"app_service": service, "profile_language_type": "eBPF", "profile_event_type": "on-cpu", "tag_filter": "",
             "time_start": int(time.time()) - 900, "time_end": int(time.time())}
    status, _, body = server.get("/v1/profile/ProfileTracing", method="POST", body=json.dumps(query))
    check.equal(status, 200, body)
    return json.loads(body)["result"]


def test_redis():
    need("redis-benchmark")
    port = str(free_port())
    command = (need("redis-server"), "--port", port, "--save", "", "--dir", stack.WORK)
    load = ("redis-benchmark", "-p", port, "-q", "-l", "-t", "set,get,lpush", "-c", "20", "-P", "16")
    with stack.Server(*command, flags=("--history",), ready="Ready to accept connections") as server, stack.Load(*load):
        check_nothing_is_lost(comments(server, "redis"), 0.3)
        tree = check.until(lambda: tracing(server, "redis-server"), 60, "a recorded window")
        check.equal(sum(node["self_value"] for node in tree), tree[0]["total_value"])
        check.contains(" ".join(node["profile_location_str"] for node in tree), "processCommand")
        host = check.until(lambda: tracing(server, "Total"), 60, "the CPU time of all processes")
        check.contains([node["profile_location_str"] for node in host], "[p] redis-server")
        # The command of DeepFlow's document has malformed JSON.
        status, _, body = server.get("/v1/profile/ProfileTracing", method="POST", body='{"tag_filter: "", "time_start": 1}')
        check.equal((status, json.loads(body)["OPT_STATUS"]), (400, "INVALID_POST_DATA"))
        check.contains(body.decode(), "malformed JSON at byte ")


HAPROXY = """global
  chroot {jail}
  user nobody
  nbthread 2
  stats socket {jail}/stats
defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 1s
frontend hello
  bind 127.0.0.1:{port}
  http-request return status 200 content-type text/plain string "hello"
"""


def test_haproxy_in_its_chroot():
    """The worker is a child process that enters a chroot and changes its user before it starts its threads."""
    if os.geteuid() != 0:
        raise check.Skip("only root may chroot")
    port, jail, path = free_port(), os.path.join(stack.WORK, "jail"), os.path.join(stack.WORK, "haproxy.cfg")
    os.mkdir(jail)
    with open(path, "w", encoding="ascii") as file:
        file.write(HAPROXY.format(jail=jail, port=port))
    load = (need("wrk"), "-t1", "-c8", "-d60s", f"http://127.0.0.1:{port}/")
    with stack.Server(need("haproxy"), "-W", "-db", "-f", path) as server:
        worker = check.until(lambda: [t["pid"] for t in server.targets() if t["pid"] != server.pid], what="the worker")[0]
        check.until(lambda: is_served(port), what="haproxy's port")
        with stack.Load(*load):
            status, _, body = server.get(f"/t/{worker}/debug/pprof/profile?seconds=3&frequency=999&output=collapsed")
        assert status == 200, body
        check.contains(body.decode(), "run_poll_loop")


def ask_clickhouse(port, query):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", query.encode(), timeout=30) as answer:
            return answer.read().decode().strip()
    except urllib.error.URLError:
        return None


def test_clickhouse():
    program, folder = need("clickhouse-server"), os.path.join(stack.WORK, "clickhouse")
    os.makedirs(folder)
    http, config = free_port(), os.path.join(folder, "config.xml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(CLICKHOUSE.format(http=http, tcp=free_port(), folder=folder))
    query = "select sum(cityHash64(toString(number))) from numbers(900000000)"
    load = ("curl", "-s", f"http://127.0.0.1:{http}/", "--data-binary", query)
    with stack.Server(program, f"--config-file={config}") as server:
        check.until(lambda: ask_clickhouse(http, "select 1") == "1", 180, "an answer of clickhouse-server")
        with stack.Load(*load):
            check_nothing_is_lost(comments(server, "clickhouse"), 0.3)
        assert ask_clickhouse(http, "select 6 * 7") == "42"


def test_samples_of_a_thousand_threads_are_complete():
    program = os.path.join(stack.WORK, "thousand")
    subprocess.run(["gcc", "-O1", "-pthread", f"{SOURCES}/thousand.c", "-o", program], check=True)
    with stack.Server(program, ready="ready") as server:
        # Each thread works for about three periods only, so the unfinished last one is a large share.
        check_nothing_is_lost(comments(server, "thousand", seconds=6), 0.3, least_share=90)


check.main(globals())
