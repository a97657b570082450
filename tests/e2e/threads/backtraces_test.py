# SPDX-License-Identifier: Apache-2.0
"""The stacks of all threads of a process with 3,000 threads, over REST, by `sonde threads` and as JSON. Some threads exit
while they are being walked, and no system call is interrupted. What blocked threads wait for, and deadlocks."""

import atexit
import functools
import json
import os
import re
import subprocess
import threading
import time

from tests.cli import check
from tests.e2e import stack

WAITERS = 3000
CROWD, SHOP = (os.path.join(stack.WORK, name) for name in ("crowd", "shop"))
stack.install()
subprocess.run(["gcc", "-O2", "-g", "-pthread", "-o", CROWD, "tests/e2e/threads/crowd.c"], check=True)
subprocess.run(["g++", "-O2", "-g", "-pthread", "-o", SHOP, "tests/e2e/threads/deadlocks.cc"], check=True)


def names(answer, thread):
    return [frame["name"] for frame in answer["stacks"][thread["stack"] - 1]["frames"]]


def list_threads(*words):
    return json.loads(stack.sonde("threads", "--json", *words)[0])


def ask_threads(server):
    """The same over REST, which starts no program."""
    status, _, body = server.get("/v1/threads")
    check.equal(status, 200, body)
    return json.loads(body)


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
            answer = ask_threads(server)
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
            answer = ask_threads(server)
            worker = next(thread for thread in answer["threads"] if thread["name"] == "worker")
            seen += bool(worker.get("stack") and "work_hard" in names(answer, worker))
        assert seen > 5, seen
        time.sleep(0.2)
        assert not any("interrupted" in line for line in server.out), server.out


# ---- Locks ----

CIRCLES = [{"two-a", "two-b"}, {"three-a", "three-b", "three-c"}, {"rw-reader", "rw-writer"}, {"self"}]


@functools.cache
def shop():
    server = stack.Server(SHOP, ready="ready")
    atexit.register(server.stop)
    return server


def settled(target):
    """The answer when every thread is where it stays; by name, the threads."""
    def look():
        answer = list_threads(target)
        threads = {thread["name"]: thread for thread in answer["threads"]}
        is_settled = len(answer.get("deadlocks", [])) == len(CIRCLES) and "lockWait" in threads["queue-again"]
        return (answer, threads) if is_settled and threads["queue-again"]["lockWait"]["kind"] == "mutex" else None
    return check.until(look, what="all threads where they stay")


def wait_text(thread):
    return thread.get("lockWait", {}).get("text", "")


def check_circles(answer, threads):
    found = [{name for name, thread in threads.items() if re.search(rf"\b{thread['tid']} {name}\b", text)} for text in answer["deadlocks"]]
    check.equal(sorted(map(sorted, found)), sorted(map(sorted, CIRCLES)))


def test_deadlocks_are_named_once_and_at_the_top():
    answer, threads = settled(str(shop().pid))
    check_circles(answer, threads)
    check.contains(wait_text(threads["self"]), "which it holds itself")
    for _ in range(5):  # busy-a and busy-b change all the time
        check_circles(list_threads(str(shop().pid)), threads)
    lines = stack.sonde("threads", str(shop().pid))[0].split("\n")
    check.equal(sorted(lines[1:1 + len(CIRCLES)]), sorted(answer["deadlocks"]))
    assert not any(line.startswith("deadlock") for line in lines[1 + len(CIRCLES):]), lines
    check.equal(list_threads(str(shop().pid), "--tid", str(threads["self"]["tid"]))["deadlocks"],
                [text for text in answer["deadlocks"] if " self " in text])


def test_locks_and_their_holders_are_in_text_and_json():
    answer, threads = settled(str(shop().pid))
    text = stack.sonde("threads", str(shop().pid))[0]
    rows = [(name, "holder", "mutex") for name in ("queue-plain-1", "queue-plain-2", "queue-recursive", "queue-inherit")]
    if any("pthread_mutex_lock" in name for name in names(answer, threads["queue-robust"])):  # only debug information names it
        rows.append(("queue-robust", "holder", "mutex"))
    rows += [("queue-writer", "holder", "read-write lock"), ("queue-again", "signaller", "mutex"), ("timed-a", "timed-b", "mutex"),
             ("two-a", "two-b", "mutex"), ("rw-reader", "rw-writer", "read-write lock"), ("rw-writer", "rw-reader", "mutex")]
    for name, holder, kind in rows:
        wait, owner = threads[name]["lockWait"], threads[holder]["tid"]
        check.equal((wait["kind"], wait["owner"]), (kind, owner), name)
        assert re.fullmatch(rf"waits for {kind} .*, held by {owner} {holder}", wait["text"]), wait
        assert re.search(rf"^  {threads[name]['tid']} {name} .*\n    {re.escape(wait['text'])}$", text, re.M), (name, text)
    check.equal(threads["two-a"]["lockWait"]["function"], "shop::take_order()")
    wait = threads["queue-at-reader"]["lockWait"]
    assert wait["readers"] == 1 and wait["text"].endswith(", held by 1 reader"), wait
    check.equal(len({threads[name]["lockWait"]["address"] for name in ("queue-plain-1", "queue-plain-2")}), 1)


def test_threads_that_wait_for_work_wait_for_no_lock():
    _, threads = settled(str(shop().pid))
    check.equal(threads["idle-condition"]["lockWait"]["kind"], "condition variable")
    check.equal(threads["idle-semaphore"]["lockWait"]["kind"], "semaphore")
    for name in ("idle-condition", "idle-semaphore", "holder", "signaller"):
        check.equal(wait_text(threads[name]), "", name)


def test_a_lock_that_lies_about_its_holder_has_none():
    _, threads = settled(str(shop().pid))
    for name in ("liar-init", "liar-large"):
        check.equal(threads[name]["lockWait"].get("owner", 0), 0, name)
        assert wait_text(threads[name]).startswith("waits for mutex ") and "held" not in wait_text(threads[name]), threads[name]


def test_in_a_container_holders_have_the_tids_of_the_machine():
    try:
        subprocess.run(["unshare", "--pid", "--fork", "true"], check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        raise check.Skip("this user may not create pid namespaces") from error
    outer = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", SHOP], stdout=subprocess.DEVNULL)
    try:
        inner = check.until(lambda: [pid for pid, name in check.children(outer.pid) if name == "shop"], what="the program")[0]
        answer, threads = settled(str(inner))
        check_circles(answer, threads)
        check.equal(threads["queue-plain-1"]["lockWait"]["owner"], threads["holder"]["tid"])
    finally:
        outer.kill()  # unshare ignores SIGTERM
        outer.wait()


check.main(globals())
