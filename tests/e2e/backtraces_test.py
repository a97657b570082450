# SPDX-License-Identifier: Apache-2.0
"""The stacks of all threads of a process with 3,000 threads, over REST, by `sonde threads` and as JSON. Some threads exit
while they are being walked, and no system call is interrupted."""

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


def list_threads(*words):
    return json.loads(stack.sonde("threads", "--json", *words)[0])


def test_the_stack_of_every_thread_is_shown():
    with stack.Server(CROWD, str(WAITERS), ready="ready") as server:
        answer = list_threads("crowd")
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
        assert all(line.isprintable() for line in text.split("\n")), "the text contains control characters"


def test_threads_can_be_selected_and_limited_in_number_and_depth():
    with stack.Server(CROWD, "5", ready="ready") as server:
        all_threads = list_threads("crowd")["threads"]
        one = list_threads(str(server.pid), "--tid", str(server.pid))
        check.equal([thread["tid"] for thread in one["threads"]], [server.pid])
        assert "main" in names(one, one["threads"][0])
        few = list_threads("crowd", "--most", "2", "--depth", "2")
        check.equal(len(few["threads"]), 2)
        assert few["notWalked"] >= len(all_threads) - 4 and "max_threads" in few["note"], few
        assert any("frames left out" in frame["name"] for found in few["stacks"] for frame in found["frames"]), few
        stack.sonde("threads", "crowd", "--tid", "1", status=1)


def test_functions_without_names_are_places_in_their_file_as_in_profiles():
    nameless = os.path.join(stack.WORK, "nameless")
    subprocess.run(["strip", "-o", nameless, CROWD], check=True)
    with stack.Server(nameless, "5", ready="ready") as server:
        answer = list_threads("nameless")
        worker = next(thread for thread in answer["threads"] if thread["name"] == "worker")
        places = {name for name in names(answer, worker) if name.startswith("[nameless]+0x")}
        assert places, names(answer, worker)
        profile = server.get("/debug/pprof/profile?seconds=1&output=collapsed")[2].decode()
        assert places & set(re.split(r"[;\n]| \d+$", profile)), (places, profile)
        check.contains(server.get("/task_backtraces")[2].decode(), places.pop())


def test_a_call_that_fails_with_eintr_after_a_stop_is_not_interrupted():
    with stack.Server(CROWD, "1", ready="ready") as server:
        for _ in range(150):
            answer = list_threads("crowd")
            looper = next(thread for thread in answer["threads"] if thread["name"] == "looper")
            if looper["state"] == "S":
                frames = names(answer, looper)
                assert "poll_events" in frames and "loop" in frames, (frames, looper)
        time.sleep(0.2)
        assert not any("interrupted" in line for line in server.out), server.out


def test_calls_are_not_interrupted_during_a_capture_either():
    with stack.Server(CROWD, "1", ready="ready") as server:
        capture = threading.Thread(target=server.get, args=("/debug/pprof/profile?seconds=6&frequency=9999",))
        capture.start()
        seen = 0
        while capture.is_alive():
            answer = list_threads("crowd")
            worker = next(thread for thread in answer["threads"] if thread["name"] == "worker")
            seen += bool(worker.get("stack") and "work_hard" in names(answer, worker))
        assert seen > 5, seen
        time.sleep(0.2)
        assert not any("interrupted" in line for line in server.out), server.out


check.main(globals())
