# SPDX-License-Identifier: Apache-2.0
"""Kills sonded, the gateway or the target at various moments. The others keep running, and the target can be profiled again
once they have reconnected."""

import json
import os
import random
import signal
import subprocess
import threading
import time

from tests.cli import check
from tests.e2e import stack

DEMO = os.path.abspath("clients/demo/demo")
stack.install()


def hot(server):
    """Takes a short capture. True if it shows the demo's work; False also while sonded, gateway and target reconnect."""
    try:
        return stack.leaf_share(server.stacks(seconds=1, frequency=199), "match_rules") > 0.4
    except (AssertionError, OSError):
        return False


def capture_beside(server, seconds=8):
    """Starts a capture in the background. It may fail, but it must end."""
    def take():
        try:
            server.get(f"/debug/pprof/profile?seconds={seconds}", timeout=30)
        except Exception:  # pylint: disable=broad-except
            pass
    thread = threading.Thread(target=take)
    thread.start()
    return thread


def test_after_sonded_is_killed_during_a_capture_profiling_works_again():
    with stack.Server(DEMO, "--tick", ready="demo: pid") as server:
        beside = capture_beside(server)
        time.sleep(1.0)
        gateway = server.helpers()["sonde-gateway"]
        os.kill(server.helpers()["sonded"], signal.SIGKILL)
        beside.join(20)
        assert not beside.is_alive(), "the capture hangs"
        check.until(lambda: hot(server), 40, "a profile after the restart")
        assert check.alive(server.pid)
        check.equal(server.helpers()["sonde-gateway"], gateway, "the gateway's pid")


def test_after_the_gateway_is_killed_during_a_capture_profiling_works_again():
    with stack.Server(DEMO, "--tick", ready="demo: pid") as server:
        beside = capture_beside(server)
        time.sleep(1.0)
        sonded = server.helpers()["sonded"]
        os.kill(server.helpers()["sonde-gateway"], signal.SIGKILL)
        beside.join(20)
        check.until(lambda: hot(server), 40, "a profile after the restart")
        check.equal(server.helpers()["sonded"], sonded, "sonded's pid")
        assert check.alive(server.pid)


def test_a_capture_ends_when_its_target_is_killed():
    with stack.Server(DEMO, "--tick", ready="demo: pid") as server:
        beside = capture_beside(server)
        time.sleep(1.0)
        os.kill(server.pid, signal.SIGKILL)
        check.equal(server.process.wait(20), 128 + 9, "status")
        beside.join(20)
        assert not beside.is_alive(), "the capture hangs"


def start_sonded(folder):
    return subprocess.Popen([f"{stack.PREFIX}/bin/sonded", "--socket", f"{folder}/guest.sock", "--grpc",
                             f"unix:{folder}/grpc.sock", "--data-dir", f"{folder}/data"], text=True,
                            env=stack.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def ask(folder, *words, **options):
    return stack.sonde(*words, "--service", f"unix:{folder}/grpc.sock", **options)


def test_a_guest_attaches_when_sonded_starts_and_again_after_it_was_killed():
    folder = check.short_folder()
    target = subprocess.Popen([stack.SONDE, "run", "--socket", f"{folder}/guest.sock", "--name", "early", "--", DEMO],
                              env=stack.environment(), stdout=subprocess.DEVNULL)
    try:
        for _ in range(3):
            sonded = start_sonded(folder)
            assert sonded.stdout.readline().startswith("grpc: ")
            check.until(lambda: "early" in ask(folder, "targets")[0], 30, "the attached target")
            check.until(lambda: "match_rules" in ask(folder, "top", "early", "-d", "1", "-F", "499")[0], 40, "a profile")
            sonded.kill()
            sonded.wait()
            assert target.poll() is None
    finally:
        check.stop(target)
        subprocess.run(["rm", "-rf", folder], check=True)


def test_no_samples_are_lost_while_sonded_is_stopped_for_a_second():
    """The target has 64 busy threads, sampled at 999 Hz."""
    folder = check.short_folder()
    sonded = start_sonded(folder)
    assert sonded.stdout.readline().startswith("grpc: ")
    target = subprocess.Popen([stack.SONDE, "run", "--socket", f"{folder}/guest.sock", "--name", "crowd", "--",
                               DEMO, "--threads", "64"], env=stack.environment(), stdout=subprocess.DEVNULL)
    try:
        check.until(lambda: "crowd" in ask(folder, "targets")[0], 30, "the attached target")
        record = subprocess.Popen([stack.SONDE, "record", "crowd", "-d", "4", "-F", "999", "--json", "-o",
                                   f"{folder}/x.pb.gz", "--service", f"unix:{folder}/grpc.sock"],
                                  env=stack.environment(), stdout=subprocess.PIPE, text=True)
        time.sleep(1.5)
        sonded.send_signal(signal.SIGSTOP)
        time.sleep(1.0)
        sonded.send_signal(signal.SIGCONT)
        summary = json.loads(record.communicate(timeout=60)[0])
        comments = subprocess.run([stack.SONDE, "top", f"{folder}/x.pb.gz"], env=stack.environment(), capture_output=True, text=True, check=True)
        check.contains(comments.stdout, "dropped: none")
        check.equal(summary["dropped"], 0, "dropped")
        assert summary["samples"] > 100, summary
    finally:
        sonded.send_signal(signal.SIGCONT)
        check.stop(target)
        check.stop(sonded)
        subprocess.run(["rm", "-rf", folder], check=True)


def test_captures_work_after_sonded_was_killed_several_times_at_random_moments():
    rng = random.Random(int(time.time()))
    with stack.Server(DEMO, "--tick", ready="demo: pid") as server:
        for _ in range(4):
            beside = capture_beside(server, 2)
            time.sleep(2.2 + rng.random())
            for pid in (server.helpers().get("sonded"),):
                if pid:
                    os.kill(pid, signal.SIGKILL)
            beside.join(30)
            assert not beside.is_alive(), "a capture hangs"
            assert check.alive(server.pid)
        check.until(lambda: hot(server), 40, "a profile after the last restart")
        assert server.process.poll() is None


def test_a_capture_is_complete_although_other_targets_start_and_die():
    folder = check.short_folder()
    sonded = start_sonded(folder)
    assert sonded.stdout.readline().startswith("grpc: ")
    env = {**stack.environment(), "SONDE_SOCKET": f"{folder}/guest.sock"}
    long = subprocess.Popen([stack.SONDE, "run", "--name", "long", "--", DEMO], env=env, stdout=subprocess.DEVNULL)
    try:
        check.until(lambda: "long" in ask(folder, "targets")[0], 30, "the attached target")
        record = subprocess.Popen([stack.SONDE, "record", "long", "-d", "5", "-F", "199", "-o", f"{folder}/x.collapsed",
                                   "--service", f"unix:{folder}/grpc.sock"], env=stack.environment(),
                                  stderr=subprocess.PIPE, text=True)
        rounds = 0
        while record.poll() is None:
            short = subprocess.Popen([stack.SONDE, "run", "--name", "short", "--", DEMO], env=env,
                                     stdout=subprocess.DEVNULL)
            time.sleep(0.2)
            child = check.until(lambda: check.children(short.pid), what="the process of the target named short")
            os.kill(child[0][0], signal.SIGKILL)
            check.equal(short.wait(20), 128 + 9, "status")
            rounds += 1
        check.equal(record.returncode, 0, record.stderr.read())
        assert rounds > 2, rounds
        with open(f"{folder}/x.collapsed", encoding="utf-8") as stacks:
            check.contains(stacks.read(), "match_rules")
        check.until(lambda: "short" not in ask(folder, "targets")[0], 10, "removal of the dead targets from the list")
    finally:
        check.stop(long)
        check.stop(sonded)
        subprocess.run(["rm", "-rf", folder], check=True)


check.main(globals(), at_once=2)
