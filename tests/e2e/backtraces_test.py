# SPDX-License-Identifier: Apache-2.0
"""The stacks of all threads, by REST, by `sonde threads` and as JSON: of 3,000 threads, of which some end while they are
looked at; nobody is interrupted."""

import json
import os
import re
import subprocess
import threading
import time

from tests.cli import check
from tests.e2e import stack

WAITERS = 3000
CROWD = os.path.join(stack.WORK, "crowd")
stack.install()
subprocess.run(["gcc", "-O2", "-g", "-pthread", "-o", CROWD, "tests/e2e/crowd.c"], check=True)


def names(answer, thread):
    return [frame["name"] for frame in answer["stacks"][thread["stack"] - 1]["frames"]]


def look(*words):
    return json.loads(stack.sonde("threads", "--json", *words)[0])


def test_every_thread_tells_what_it_does():
    with stack.Server(CROWD, str(WAITERS), ready="ready") as server:
        answer = look("crowd")
        waiters = [thread for thread in answer["threads"] if thread["name"] in ("waiter", "odd\n\\xff) R 1")]
        check.equal(len(waiters), WAITERS, "threads that wait")
        assert all(thread["state"] == "S" and thread["stack"] for thread in waiters)
        assert sum(thread["name"] != "waiter" for thread in waiters) > WAITERS / 8
        check.equal(len({thread["stack"] for thread in waiters}), 10, "depths")
        for thread in waiters[::100]:
            frames = names(answer, thread)
            assert "wait_deep" in frames and "wait_here" in frames and "pthread_cond_wait" in frames, frames
        assert not any(int(thread.get("stopNs", 0)) for thread in waiters[:100]), "a waiting thread was stopped"
        worker = next(thread for thread in answer["threads"] if thread["name"] == "worker")
        assert "work_hard" in names(answer, worker), names(answer, worker)
        assert int(worker["stopNs"]) > 0 and int(worker["cpuNs"]) > 0
        check.equal(answer.get("note", ""), "")

        text = server.get("/task_backtraces")[2].decode()
        assert re.match(r"crowd \(pid \d+\): 30\d\d threads with \d+ different stacks", text), text[:200]
        assert re.search(r"^\d{3} threads$", text, re.M) and "and 200 more" in text, text[:500]
        assert all(line.isprintable() for line in text.split("\n")), "something in it steers terminals"


def test_one_thread_can_be_asked_for():
    with stack.Server(CROWD, "5", ready="ready") as server:
        all_threads = look("crowd")["threads"]
        one = look(str(server.pid), "--tid", str(server.pid))
        check.equal([thread["tid"] for thread in one["threads"]], [server.pid])
        assert "main" in names(one, one["threads"][0])
        few = look("crowd", "--most", "2", "--depth", "2")
        check.equal(len(few["threads"]), 2)
        assert few["notWalked"] >= len(all_threads) - 4 and "max_threads" in few["note"], few
        assert any("frames left out" in frame["name"] for found in few["stacks"] for frame in found["frames"]), few
        stack.sonde("threads", "crowd", "--tid", "1", status=1)


def test_a_call_that_a_stop_would_end_is_not_ended():
    with stack.Server(CROWD, "1", ready="ready") as server:
        for _ in range(150):
            answer = look("crowd")
            looper = next(thread for thread in answer["threads"] if thread["name"] == "looper")
            if looper["state"] == "S":
                frames = names(answer, looper)
                assert "poll_events" in frames and "loop" in frames, (frames, looper)
        time.sleep(0.2)
        assert not any("interrupted" in line for line in server.out), server.out


def test_ticks_of_a_capture_do_not_make_it_worse():
    with stack.Server(CROWD, "1", ready="ready") as server:
        capture = threading.Thread(target=server.get, args=("/debug/pprof/profile?seconds=6&frequency=9999",))
        capture.start()
        seen = 0
        while capture.is_alive():
            answer = look("crowd")
            worker = next(thread for thread in answer["threads"] if thread["name"] == "worker")
            seen += bool(worker.get("stack") and "work_hard" in names(answer, worker))
        assert seen > 5, seen
        time.sleep(0.2)
        assert not any("interrupted" in line for line in server.out), server.out


check.main(globals())
