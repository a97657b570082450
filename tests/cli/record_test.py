# SPDX-License-Identifier: Apache-2.0
"""`sonde record`, `locks` and `targets --all` with a scripted service: ending a capture early, and commands that are profiled from their
start."""

import fcntl
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import termios
import time

from tests.cli import check

SONDE = os.path.abspath("clients/cli/sonde")
FOLDER = check.short_folder()
ADDRESS = f"unix:{FOLDER}/grpc"


def environment():
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SONDE_")}
    return dict(clean, XDG_RUNTIME_DIR=FOLDER, SONDE_SERVICE=ADDRESS)


def start(*words):
    return subprocess.Popen([SONDE, *words], env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, cwd=FOLDER)


def sonde(*words, status=0):
    """Runs a verb, checks its exit status and returns (stdout, stderr)."""
    process = start(*words)
    out, err = process.communicate(timeout=60)
    check.equal(process.returncode, status, f"status of {words} ({out}{err})")
    return out, err


def path(name):
    return os.path.join(FOLDER, name)


def read(name):
    with open(path(name), "rb") as file:
        return file.read()


def start_sampling(*words):
    """Starts `sonde record` and waits until it samples."""
    for name in ("sampling", "sampling.end"):
        if os.path.exists(path(name)):
            os.remove(path(name))
    process = start("record", "-d", "3000", *words)
    check.until(lambda: os.path.exists(path("sampling")), what="the capture")
    return process


def test_a_signal_ends_the_capture_and_keeps_the_result():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process = start_sampling("redis", "-o", "early.svg")
        process.send_signal(number)
        err = process.communicate(timeout=30)[1]
        check.equal(process.returncode, 0, f"status after signal {number} ({err})")
        check.contains(err, "early.svg: 7 samples")
        check.equal(read("early.svg")[:5], b"<?xml")
        os.remove(path("early.svg"))


def test_the_second_signal_gives_up():
    process = start_sampling("stubborn", "-o", "never.svg")
    process.send_signal(signal.SIGINT)
    check.until(lambda: os.path.exists(path("sampling.end")), what="the request to end the capture")
    check.equal(process.poll(), None)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=30)[1]
    check.equal(process.returncode, 1, err)
    check.contains(err, "nothing was written")
    check.equal([name for name in os.listdir(FOLDER) if "never" in name or name.startswith(".sonde")], [])


def test_an_output_that_cannot_be_written_is_reported_before_the_capture():
    started = time.monotonic()
    check.contains(sonde("record", "redis", "-d", "3000", "-o", "no/such/folder.svg", status=1)[1], "cannot write no/such")
    assert time.monotonic() - started < 20
    closed = subprocess.run(["sh", "-c", f"exec {SONDE} record redis -o - --format top >&-"], env=environment(), check=False,
                            capture_output=True, text=True)
    check.equal(closed.returncode, 1)
    check.contains(closed.stderr, "cannot write")


def test_the_request_names_the_source_and_all_processes():
    out = sonde("record", "redis", "-d", "0.1", "--source", "guest", "-o", "-", "--format", "collapsed")[0]
    check.contains(out, "source=2 all=False")
    assert "threads=split" not in out, out
    out = sonde("record", "redis", "-d", "0.1", "-o", "-", "--format", "collapsed", "--split-threads")[0]
    check.contains(out, "threads=split")
    for words in (("--all",), ("--all", "redis"), ("-a", "4711", "--source", "host")):
        out = sonde("record", *words, "-d", "0.1", "-o", "-", "--format", "collapsed")[0]
        check.contains(out, f"source={'1' if 'host' in words else '0'} all=True")
    for verb in ("record", "top", "live"):
        check.contains(sonde(verb, "redis", "--source", "both", status=2)[1], '"both" is not auto, host or guest')


def test_a_command_runs_while_it_is_recorded_and_its_status_is_returned():
    for command, status in ((("true",), 0), (("sh", "-c", "exit 7"), 7), (("sh", "-c", "kill -9 $$"), 137)):
        out, err = sonde("record", "-o", "command.collapsed", "--", *command, status=status)
        check.contains(err, "command.collapsed: 7 samples")
        check.contains(read("command.collapsed").decode(), "all=True")
        assert not out, out
        os.remove(path("command.collapsed"))
    check.contains(sonde("record", "-o", "command.svg", "--", "sh", "-c", "echo out; echo $SONDE_SERVICE $LD_PRELOAD")[0],
                   f"out\n{ADDRESS}\n")


def test_the_command_starts_when_sampling_has_begun():
    """The service sends the first progress event after a moment, and the command must wait for it."""
    sonde("record", "-o", "late.svg", "--", "sh", "-c", f"date +%s.%N > {path('began')}")
    began, sampling = float(read("began")), float(read("sampling"))
    assert began >= sampling, (began, sampling)


def test_a_capture_of_a_command_ends_after_its_duration_and_the_command_goes_on():
    os.mkfifo(path("fifo"))
    process = start("record", "-d", "5", "-o", "part.svg", "--", "sh", "-c", f"read line < {path('fifo')}; exit 5")
    check.until(lambda: os.path.exists(path("part.svg")), what="the file")
    check.equal(process.poll(), None)
    with open(path("fifo"), "w", encoding="ascii") as fifo:
        fifo.write("\n")
    process.communicate(timeout=30)
    check.equal(process.returncode, 5)


def test_signals_are_passed_on_to_the_command():
    process = start("record", "-o", "trap.svg", "--", "sh", "-c",
                    f"trap 'exit 9' TERM; touch {path('ready')}; while :; do sleep 0.05; done")
    check.until(lambda: os.path.exists(path("ready")), what="the command")
    process.send_signal(signal.SIGTERM)
    err = process.communicate(timeout=30)[1]
    check.equal(process.returncode, 9, err)
    check.contains(err, "trap.svg: 7 samples")


def test_a_command_is_not_started_if_it_cannot_be_recorded():
    check.contains(sonde("record", "-o", "x.svg", "--", "no-such-command", status=127)[1], "no-such-command")
    check.contains(sonde("record", "-o", "x.svg", "--", "/etc/passwd", status=126)[1], "/etc/passwd")
    sonde("record", "-o", "x.svg", "--service", f"unix:{FOLDER}/nobody", "--", "touch", path("touched"), status=125)
    sonde("record", "-o", "no/x.svg", "--", "touch", path("touched"), status=125)
    assert not os.path.exists(path("touched"))
    for words in (("--",), ("redis", "--", "true"), ("--all", "--", "true")):
        sonde("record", *words, status=2)


def test_targets_all_lists_every_process_and_says_why_one_cannot_be_sampled():
    lines = sonde("targets", "--all")[0].splitlines()
    check.equal(lines[0].split(), ["PID", "USER", "CPU", "TIME", "THREADS", "CONTAINER", "GUEST", "NAME"])
    check.equal(lines[1].split(), ["11", "alice", "90.0", "s", "7", "0123456789ab", "-", "busy", "?[2J", "(busy)"])
    check.equal(lines[2].split()[-2:], ["yes", "redis"])
    check.equal(lines[-1].split()[1:4], ["4711", "2", "h"])
    check.contains(lines[-1], "init (systemd): belongs to root: sudo sonde ...")
    check.equal(len(json.loads(sonde("targets", "--all", "--json")[0])["targets"]), 5)
    sonde("targets", "--all", "--watch", status=2)


def test_targets_all_fits_a_narrow_terminal():
    for width, has_threads, has_container in ((120, True, True), (80, True, False), (40, False, False)):
        terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        subprocess.run([SONDE, "targets", "--all"], env=environment(), stdout=theirs, check=True, timeout=60)
        os.close(theirs)
        text = b""
        try:
            while part := os.read(terminal, 65536):
                text += part
        except OSError:
            pass
        os.close(terminal)
        lines = text.decode().splitlines()
        assert max(map(len, lines)) <= width, lines
        check.equal(("THREADS" in lines[0], "CONTAINER" in lines[0]), (has_threads, has_container), f"columns at {width}")


def test_locks_says_why_its_table_may_be_incomplete():
    out, err = sonde("locks", "redis", "-d", "0.2")
    check.contains(out, "no wait for a lock was recorded\n")
    notes = ("overhead ceiling: 1 %: 50 Hz\n", "note: locks: 7 samples are of others\n", "note: locks: and more\n",
             "note: 1 sample dropped\n")
    for note in notes:
        check.contains(err, note)
    answer = json.loads(sonde("locks", "redis", "-d", "0.2", "--json")[0])
    check.equal(answer["dropped"], 1)
    check.equal(answer["notes"], ["1 %: 50 Hz", "locks: 7 samples are of others", "locks: and more"])
    out, err = sonde("locks", "whole", "-d", "0.2")
    check.contains(out, "no thread waited for a lock\n")
    assert "dropped" not in err and "ceiling" not in err, err
    answer = json.loads(sonde("locks", "whole", "-d", "0.2", "--json")[0])
    check.equal((answer["dropped"], answer["notes"]), (0, ["locks: 7 samples are of others", "locks: and more"]))


with open(path("log"), "w", encoding="utf-8") as LOG:
    SERVICE = subprocess.Popen(["/usr/bin/python3", "-B", "tests/rest/fake_service.py", "--grpc", ADDRESS, "--targets",
                                "redis,stubborn,whole", "--began", path("sampling")], stdout=LOG, stderr=LOG)
try:
    check.until(lambda: os.path.exists(path("grpc")), what="the service")
    check.main(globals())
finally:
    check.stop(SERVICE)
    shutil.rmtree(FOLDER, ignore_errors=True)
