# SPDX-License-Identifier: Apache-2.0
"""The CPU commands of the REST documents, as printed, against a redis that was started without Sonde: the gateway's --target, the
prefix /t/PID, and redis among all processes."""

import json
import os
import re
import shutil
import subprocess

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import users

SOCKET = os.path.join(stack.WORK, "redis.sock")
OUT = os.path.join(stack.WORK, "out")
state = {}


def start():
    """Starts redis with a script that never ends, sonded and the gateway. Returns why the tests must be skipped; None = they need not."""
    for program in ("redis-server", "redis-cli"):
        if not shutil.which(program):
            return f"{program} is not installed"
    if os.geteuid() != 0:
        return "sonded samples all processes only as root"
    redis = users.start("redis-server", "--port", "0", "--unixsocket", SOCKET, "--save", "", "--dir", stack.WORK,
                        stdout=subprocess.DEVNULL)
    check.until(lambda: os.path.exists(SOCKET), what="redis")
    users.start("redis-cli", "-s", SOCKET, "eval", "while true do redis.call('incr', 'n') end", "0", stdout=subprocess.DEVNULL)
    users.sonded()
    state["pid"], state["host"] = redis.pid, users.gateway("--target", str(redis.pid))[1]
    refused = run("curl -s -S --fail-with-body 'HOST/t/@all:PID/debug/pprof/profile?seconds=1&output=top'")
    return refused.stdout if refused.returncode else None


def run(line):
    """A command of a document with the gateway's address for HOST and redis's pid for PID."""
    line = line.replace("HOST", state["host"]).replace("PID", str(state["pid"]))
    env = {**stack.environment(), "HOME": OUT, "PPROF_TMPDIR": OUT, "JEPROF_TMPDIR": OUT}
    return subprocess.run(["bash", "-c", line], cwd=OUT, env=env, capture_output=True, text=True, errors="replace", timeout=120,
                          check=False)


def shell(line):
    if state["skip"]:
        raise check.Skip(state["skip"])
    done = run(line)
    check.equal(done.returncode, 0, f"status of {line} ({done.stdout[-500:]}{done.stderr[-2000:]})")
    return done.stdout


def has_main_loop(text):
    """Whether a profile shows redis at work. A busy machine may give redis no time, or not have read its unwind tables yet."""
    return "aeMain" in text


def until(command, *more):
    """Runs commands until the last one's output shows redis at work."""
    def attempt():
        out = shell(command)
        for another in more:
            out = shell(another)
        return has_main_loop(out)

    check.until(attempt, 60, f"the main loop of redis in {command}")


def test_tikvs_commands():
    fetch = "curl -s -H 'Content-Type:application/protobuf' -X GET 'http://HOST/debug/pprof/profile?seconds=1&frequency=499' -o "
    until(fetch + "tikv.proto", "go tool pprof -top tikv.proto")
    until("curl -s -X GET 'http://HOST/debug/pprof/profile?seconds=1&frequency=499' -o tikv.svg", "cat tikv.svg")
    address = re.search(r"(0x[0-9a-f]+) M=\d+ aeMain", shell("go tool pprof -raw tikv.proto")).group(1)
    check.contains(shell(f"curl -s -X POST -d '{address}' 'http://HOST/debug/pprof/symbol'"), "aeMain")


def test_the_commands_of_iox_and_go():
    until("go tool pprof -top 'http://HOST/debug/pprof/profile?seconds=1'")
    until("go tool pprof -top 'http://HOST/t/PID/debug/pprof/profile?seconds=1'")
    until("go tool pprof -top 'http://HOST/t/@all:redis-server/debug/pprof/profile?seconds=1'")


def test_julias_commands():
    until("curl -s 'HOST/profile?delay=0.002&duration=1' --output prof1.pb.gz", "go tool pprof -top prof1.pb.gz")
    until("curl -s 'HOST/profile_start?delay=0.002'",
          "curl -s 'HOST/t/PID/debug/pprof/profile?seconds=1' -o /dev/null",  # the session lasts as long
          "curl -s 'HOST/profile_stop?pprof=false'")
    shell("curl -s 'HOST/task_backtraces' --output task_backtraces.txt")
    check.contains(shell("cat task_backtraces.txt"), "redis-server (pid")


def test_jeprof_and_greptimes_cpu_path():
    until("jeprof --seconds=1 --text http://HOST/t/PID/pprof/profile 2>&1")
    until("curl -s -X POST 'HOST/t/PID/debug/prof/cpu?seconds=1&output=text'")


def test_a_thread_is_not_a_process():
    shell("true")
    thread = next(tid for tid in os.listdir(f"/proc/{state['pid']}/task") if int(tid) != state["pid"])
    check.contains(shell(f"curl -s -w ' %{{http_code}}' HOST/t/{thread}/debug/pprof/profile"), "is a thread, not a process")


def test_redis_among_all_processes():
    for target in ("@all", "@all:PID"):
        fetch = f"curl -s 'HOST/t/{target}/debug/pprof/profile?seconds=1&frequency=199&output=collapsed'"
        until(f"{fetch} | grep '^redis-server;' || true")


def test_memory_commands_say_what_they_need():
    for path, status in (("debug/pprof/heap", 501), ("debug/pprof/heap_activate", 501), ("heap_snapshot", 501),
                         ("debug/pprof/allocs?seconds=1", 501)):
        text = shell(f"curl -s -w ' %{{http_code}}' 'HOST/t/PID/{path}'")
        check.contains(text, "sonde run -- COMMAND")
        check.contains(text, f" {status}")


def test_a_static_program_is_told_what_it_can_have_instead():
    path = os.path.join(OUT, "static")
    subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", path], input="int pause(void); int main(void) { return pause(); }",
                   text=True, check=True)
    static = users.start(path)
    try:
        text = shell(f"curl -s -w ' %{{http_code}}' 'HOST/t/{static.pid}/debug/pprof/heap'")
        check.contains(text, "static is statically linked, so libsonde.so cannot be preloaded; sample its CPU time from outside")
        check.contains(text, " 501")
    finally:
        users.stop(static)


def test_the_list_and_the_headers():
    listed = json.loads(shell("curl -s 'HOST/v1/targets?all=true'"))["targets"]
    redis = next(target for target in listed if target["pid"] == state["pid"])
    check.equal((redis["name"], redis["unattached"], redis["user"], redis["unavailable"]), ("redis-server", True, "root", ""))
    assert int(redis["cpuNs"]) > 0, redis
    order = [int(target["cpuNs"]) for target in listed]
    check.equal(order, sorted(order, reverse=True), "order of the list")
    check.contains(shell("curl -s -D- -o /dev/null 'HOST/debug/pprof/profile?seconds=1'"), "sonde-source: host")


users.install()
os.makedirs(OUT, exist_ok=True)
state["skip"] = start()
check.main(globals(), at_once=3)
