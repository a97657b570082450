# SPDX-License-Identifier: Apache-2.0
"""Runs the heap commands of the documentation, as printed there, against ClickHouse, redis, BIND and Varnish, which use jemalloc
on Debian. The servers are started with jemalloc's profiler (`sonde run --heap`) or without it, where Sonde's sampler is used."""

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time

from tests.cli import check
from tests.e2e import stack

sys.path.insert(0, "tests/ui")
import devtools_page  # noqa: E402

stack.install()
CLICKHOUSE = shutil.which("clickhouse-server", path="/usr/sbin:/usr/bin")
PPROF = {**stack.environment(), "PPROF_TMPDIR": stack.WORK, "JEPROF_TMPDIR": stack.WORK}
SOCKET = os.path.join(stack.WORK, "redis.sock")
# Without a slow log, whose entries would be among the sampled objects on a slow machine.
REDIS = ("redis-server", "--port", "0", "--unixsocket", SOCKET, "--save", "", "--enable-debug-command", "yes",
         "--slowlog-log-slower-than", "-1")
READY = "ready to accept connections at"


def run(line, **words):
    """Runs one line of the documentation in a shell and returns its stdout."""
    done = subprocess.run(["bash", "-c", "set -o pipefail; " + line.format(**words)], env=PPROF, cwd=stack.WORK,
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{line} gave {done.returncode}: {done.stdout[-500:]}{done.stderr[-1500:]}"
    return done.stdout


def total_mb(text):
    """The total, in MB, in the output of `jeprof --text` or `go tool pprof -top`."""
    jeprof = re.search(r"^Total: ([0-9.]+) MB", text, re.M)
    if jeprof:
        return float(jeprof[1])
    found = re.search(r"of ([0-9.]+)(k?B|MB|GB) total", text)
    return float(found[1]) * {"B": 1 / 2**20, "kB": 1 / 1024, "MB": 1, "GB": 1024}[found[2]]


# ---- ClickHouse ----

CONFIG = """<yandex><logger><level>warning</level><console>1</console></logger>
<http_port>{port}</http_port><listen_host>127.0.0.1</listen_host>
<path>{work}/clickhouse/</path><tmp_path>{work}/clickhouse/tmp/</tmp_path><users_config>users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>5368709120</mark_cache_size></yandex>
"""
USERS = """<yandex><profiles><default/></profiles><users><default><password></password>
<networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
<quotas><default/></quotas></yandex>
"""


class ClickHouse:
    """ClickHouse under Sonde, with one table of the engine Memory."""

    def __init__(self, *flags):
        if not CLICKHOUSE:
            raise check.Skip("clickhouse-server is not installed")
        self.port = check.free_port()
        for name, text in (("config.xml", CONFIG), ("users.xml", USERS)):
            with open(os.path.join(stack.WORK, name), "w", encoding="utf-8") as file:
                file.write(text.format(port=self.port, work=stack.WORK))
        shutil.rmtree(os.path.join(stack.WORK, "clickhouse"), ignore_errors=True)
        self.server = stack.Server(CLICKHOUSE, f"--config-file={stack.WORK}/config.xml",
                                   flags=("--name", "clickhouse", *flags))

    def query(self, text):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", "/", body=text)
            answer = connection.getresponse()
            body = answer.read().decode()
        except OSError:
            return None
        finally:
            connection.close()
        assert answer.status == 200, body
        return body or "done"

    def insert(self, rows):
        self.query(f"insert into t select number, toString(number * number) from system.numbers limit {rows}")

    def __enter__(self):
        try:
            check.until(lambda: self.query("create table if not exists t (k UInt64, s String) engine = Memory"),
                        seconds=180, what="an answer of ClickHouse")
        except BaseException:
            self.server.stop()
            raise
        return self.server

    def __exit__(self, *_):
        self.server.stop()


def test_the_documented_commands_work_with_clickhouse():
    clickhouse = ClickHouse("--heap")
    with clickhouse as server:
        heap = f"{server.page}/debug/pprof/heap"
        check.equal(server.get("/debug/pprof/heap_activate")[2], b"activate heap profile success")
        clickhouse.insert(1000000)
        # TiKV's commands: jeprof on the URL, then on a dump fetched with curl
        run("jeprof --svg {heap} > heap.svg", heap=heap)
        check.contains(run("head -c 5 heap.svg"), "<?xml")
        check.until(lambda: "DB::" in run("jeprof --text {heap}", heap=heap), what="the names of a program of 400 MB")
        run("curl -sf {heap} -o before.hprof", heap=heap)
        check.contains(run("jeprof --svg {binary} before.hprof", binary=CLICKHOUSE), "insertRangeFrom")
        # GreptimeDB's commands: dumps by POST, collapsed stacks, and the growth between two dumps
        clickhouse.insert(2000000)
        run("curl -sf -X POST {page}/debug/prof/mem > after.hprof", page=server.page)
        check.contains(run("jeprof {binary} after.hprof --collapse", binary=CLICKHOUSE), "insertRangeFrom")
        grown = run("jeprof {binary} --base before.hprof after.hprof --collapse", binary=CLICKHOUSE)
        assert re.search(r" [0-9]{7,}$", grown, re.M), grown
        # InfluxDB IOx's and Go's commands
        top = run("go tool pprof -top {heap}", heap=heap)
        check.contains(top, "Type: inuse_space")
        check.contains(top, "DB::ColumnString::insertRangeFrom")
        check.contains(run("go tool pprof -top {page}/t/clickhouse/pprof/heap", page=server.page), "DB::")


def test_clickhouse_without_prof_is_profiled_by_sondes_sampler():
    clickhouse = ClickHouse()
    with clickhouse as server:
        status, _, text = server.get("/debug/pprof/heap_activate")
        check.equal(status, 501)
        check.contains(text.decode(), "start it with MALLOC_CONF=prof:true,prof_active:false; or activate with "
                                      "backend=interposed")
        check.equal(server.get("/debug/pprof/heap_activate?backend=interposed")[0], 200)
        clickhouse.insert(2000000)
        heap = f"{server.page}/debug/pprof/heap"
        run("jeprof --svg {heap} > ours.svg", heap=heap)
        check.until(lambda: "DB::" in run("jeprof --text {heap}", heap=heap), what="the names of a program of 400 MB")
        check.contains(run("go tool pprof -top {heap}", heap=heap), "insertRangeFrom")
        check.equal(server.get("/debug/pprof/heap_deactivate")[2], b"deactivate heap profile success")
        check.equal(clickhouse.query("select count() from t").strip(), "2000000")


# ---- redis ----

class Redis:
    """redis under Sonde; populate() adds keys with values of 200 bytes."""

    def __init__(self, *flags):
        self.server = stack.Server(*REDIS, flags=("--name", "redis", *flags), ready=READY)

    def populate(self, keys, prefix):
        run("redis-cli -s {socket} debug populate {keys} {prefix} 200", socket=SOCKET, keys=keys, prefix=prefix)

    def __enter__(self):
        return self.server

    def __exit__(self, *_):
        self.server.stop()


def test_h5_every_tool_shows_the_same_total():
    redis = Redis("--heap")
    with redis as server:
        check.equal(server.get("/v1/heap?active=true&sample_bytes=16384", method="PUT")[0], 200)
        redis.populate(100000, "key")
        heap, words = f"{server.page}/debug/pprof/heap", {"binary": "/usr/bin/redis-server"}
        run("curl -sf {heap} -o raw.hprof; curl -sf '{heap}?output=legacy' -o legacy.hprof; "
            "curl -sf '{heap}?output=proto' -o pprof.pb.gz", heap=heap)
        expected = total_mb(run("jeprof --text {binary} raw.hprof", **words))
        assert expected > 20, expected
        totals = {line: total_mb(run(line, heap=heap, **words)) for line in (
            "jeprof --text {heap}", "jeprof --text {binary} legacy.hprof", "go tool pprof -top {heap}",
            "go tool pprof -top pprof.pb.gz", "go tool pprof -top legacy.hprof",
            "go tool pprof -top {heap}?output=legacy")}
        for line, total in totals.items():
            check.near(total, expected, 0.02 * expected, line)
        ours = sum(int(line.rsplit(" ", 1)[1]) for line in
                   server.get("/debug/pprof/heap?output=collapsed")[2].decode().splitlines()) / 2**20
        check.near(ours, expected, 0.02 * expected, "collapsed")


def test_h13_a_live_snapshot_opens_in_devtools_with_the_right_totals():
    redis = Redis("--heap")
    with redis as server:
        check.equal(server.get("/v1/heap?active=true&sample_bytes=4096", method="PUT")[0], 200)
        redis.populate(300000, "key")
        lines = server.get("/debug/pprof/heap?output=collapsed")[2].decode().splitlines()
        expected = sum(int(line.rsplit(" ", 1)[1]) for line in lines)
        texts = [server.get(f"/heap_snapshot?all_one={flag}")[2].decode() for flag in ("false", "true")]
        assert len(texts[0]) > 600000  # the answer has several chunks
    try:
        page = devtools_page.DevTools()
    except SystemExit:
        raise check.Skip("no Chromium with selenium") from None
    try:
        result = page.load(texts[0], "zmalloc_usable")
        check.near(result["total"], expected, 0.01 * expected, "total size in DevTools")
        sites = {one["name"] for one in result["classes"] if one["self"]}
        assert sites & {"zmalloc_usable", "zmalloc", "ztrymalloc_usable"}, sites
        names = [frame["functionName"] for frame in result["stack"] or []]
        assert not names or "debugCommand" in names, names
        nodes = json.loads(texts[1])["snapshot"]["node_count"]
        counted = page.load(texts[1])["total"]
        assert 100 < counted < nodes, (counted, nodes)
    finally:
        page.close()


def test_the_command_line_shows_what_grew_between_dumps():
    redis = Redis("--heap")
    with redis as server:
        stack.sonde("heap", "on", "--interval", "1", "--sample", "16384")
        redis.populate(20000, "before")
        name = check.until(lambda: re.findall(r"^(\d{6}\.heap)", stack.sonde("heap", "list")[0], re.M), what="a dump")[0]
        before = os.path.join(stack.WORK, "before.pb.gz")
        stack.sonde("heap", "dump", "-o", before)
        redis.populate(80000, "after")
        grown = stack.sonde("heap", "diff", name, "--growth-only")[0]
        check.contains(grown, "zmalloc")
        after = os.path.join(stack.WORK, "after.pb.gz")
        stack.sonde("heap", "dump", "-o", after)
        check.contains(stack.sonde("heap", "diff", before, after)[0], "zmalloc")
        picture = os.path.join(stack.WORK, "growth.svg")
        stack.sonde("heap", "diff", before, after, "-o", picture)
        run("rsvg-convert {picture} -o {picture}.png", picture=picture)
        # Go's difference over REST, then a difference that H14 refuses
        top = run("go tool pprof -top -seconds=1 {page}/debug/pprof/heap", page=server.page)
        check.contains(top, "Duration: 1s")
        stack.sonde("heap", "reset", "--sample", "32768")
        check.contains(stack.sonde("heap", "diff", name, status=2)[1], "were reset between")


# ---- BIND and Varnish ----

ZONE = """$TTL 60
@ IN SOA ns hostmaster 1 3600 600 86400 60
@ IN NS ns
ns IN A 127.0.0.1
$GENERATE 1-{names} h$ A 10.0.0.1
"""
NAMED = """options {{ directory "{work}"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no;
pid-file none; session-keyfile none; dnssec-validation no; }};
zone "example.org" {{ type primary; file "zone"; }};
controls {{ }};
"""


def write(name, text):
    with open(os.path.join(stack.WORK, name), "w", encoding="utf-8") as file:
        file.write(text)


def test_bind_shows_which_functions_hold_the_memory_of_its_zones():
    named = shutil.which("named", path="/usr/sbin:/usr/bin")
    if not named:
        raise check.Skip("bind9 is not installed")
    write("zone", ZONE.format(names=1))
    write("named.conf", NAMED.format(work=stack.WORK, port=check.free_port()))
    with stack.Server(named, "-g", "-c", f"{stack.WORK}/named.conf", flags=("--heap",)) as server:
        check.equal(server.get("/debug/pprof/heap_activate")[0], 200)
        write("zone", ZONE.format(names=60000))
        time.sleep(1)  # named reloads a zone only if its file is newer than what it loaded
        os.utime(os.path.join(stack.WORK, "zone"))
        os.kill(server.pid, 1)
        heap = f"{server.page}/debug/pprof/heap"
        check.until(lambda: b"isc__mem_get" in server.get("/debug/pprof/heap?output=collapsed")[2],
                    what="the zone's memory")
        check.contains(run("go tool pprof -top {heap}", heap=heap), "isc__mem_get")
        run("jeprof --svg {heap} > named.svg", heap=heap)


def other_varnish(server):
    pids = [one["pid"] for one in server.targets() if one["executable"] == "varnishd" and one["pid"] != server.pid]
    return pids[0] if len(pids) == 1 else None


def test_the_worker_of_varnish_is_a_target_of_its_own():
    varnishd = shutil.which("varnishd", path="/usr/sbin:/usr/bin")
    if not varnishd:
        raise check.Skip("varnish is not installed")
    port = check.free_port()
    command = (varnishd, "-F", "-j", "none", "-a", f"127.0.0.1:{port}", "-b", "none", "-n", f"{stack.WORK}/varnish")
    with stack.Server(*command, flags=("--heap",)) as server:
        # varnishd also starts a compiler, which is a child for a while: wait for the worker
        check.until(lambda: any("Child starts" in line for line in server.out + server.err), what="the worker's start")
        worker = check.until(lambda: other_varnish(server), what="the worker")
        check.equal(server.get("/debug/pprof/heap_activate")[0], 400)  # which of the two?
        prefix = f"/t/{worker}"
        check.equal(server.get(f"{prefix}/v1/heap?active=true&sample_bytes=4096", method="PUT")[0], 200)
        for _ in range(50):
            run("curl -s http://127.0.0.1:{port}/ > answer", port=port)
        check.contains(run("jeprof --text {page}{prefix}/debug/pprof/heap", page=server.page, prefix=prefix), "Total:")
        assert b"no samples" not in server.get(f"{prefix}/debug/pprof/heap?output=top")[2]


check.main(globals())
