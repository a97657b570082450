# SPDX-License-Identifier: Apache-2.0
"""`sonde record --keep`, `captures`, `history`, `diff` and `live` with a scripted service."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
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
    return dict(clean, XDG_RUNTIME_DIR=FOLDER, SONDE_SERVICE=ADDRESS, TZ="UTC", TERM="dumb")


def sonde(*words, status=0):
    """Runs a verb, checks its exit status and returns (stdout, stderr)."""
    done = subprocess.run([SONDE, *words], env=environment(), capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL, cwd=FOLDER)
    check.equal(done.returncode, status, f"status of {words} ({done.stdout}{done.stderr})")
    return done.stdout, done.stderr


def test_only_captures_with_keep_are_saved():
    check.contains(sonde("captures")[0], "no saved captures; save one with `sonde record --keep`")
    sonde("record", "redis", "-d", "0.1", "-o", "one.svg")
    check.contains(sonde("captures")[0], "no saved captures")
    err = sonde("record", "redis", "-d", "0.1", "-F", "49", "--keep", "--note", "before \x1b[2J", "-o", "two.svg")[1]
    check.contains(err, "saved as capture 1")
    summary = json.loads(sonde("record", "redis", "-d", "0.2", "-k", "-o", "three.svg", "--json")[0])
    check.equal(summary["captureId"], "2")
    table = sonde("captures")[0].splitlines()
    check.equal(len(table), 3, table)
    assert table[1].split()[:1] == ["2"] and table[2].split()[:1] == ["1"], table
    for part in ("2023-11-14 22:13:20", "cpu", "49", "1000", "redis", "before ?[2J"):
        check.contains(table[2], part)
    check.equal([one["id"] for one in json.loads(sonde("captures", "--json")[0])["captures"]], ["2", "1"])
    check.contains(sonde("captures", "--target", "nobody")[0], "no saved captures")


def test_a_capture_that_cannot_be_saved_is_written_to_the_file_and_reported():
    err = sonde("record", "full", "-d", "0.1", "--keep", "-o", "full.svg")[1]
    check.contains(err, "not saved: no space left on the device")
    assert os.path.getsize(os.path.join(FOLDER, "full.svg")) > 100


def test_a_saved_capture_is_written_in_the_format_of_the_extension():
    for extension, start in ((".svg", b"<?xml"), (".pb.gz", b"\x1f\x8b"), (".prof", bytes(8))):
        check.contains(sonde("captures", "1", "-o", "saved" + extension)[1], "7 samples")
        with open(os.path.join(FOLDER, "saved" + extension), "rb") as file:
            check.equal(file.read(len(start)), start)
    check.contains(sonde("captures", "1", "-o", "-", "--format", "collapsed")[0], "capture=1")
    check.contains(sonde("captures", "1", "-o", "-", "--format", "collapsed", "--split-threads")[0], "threads=split")
    assert "saved as" not in sonde("captures", "1", "-o", "again.svg")[1]
    check.contains(sonde("captures", "1", "-o", "part.svg", "--from", "2", "--until", "3.5")[1], "seconds 2 to 3.5 of capture 1\n")
    check.contains(sonde("captures", "1", "-o", "part.svg", "--from", "2")[1], "seconds 2 to the end of capture 1\n")
    check.contains(sonde("captures", "9", status=1)[1], "capture 9 not found")
    check.contains(sonde("captures", "1", "-o", "-", "--format", "collapsed", "--from", "2", "--until", "3.5")[0],
                   "from=2000 until=3500")


def test_the_timeline_of_a_capture_is_a_table():
    check.equal(sonde("captures", "1", "--timeline", "--bin", "20")[0].splitlines(),
                ["   SECOND    CPU %", "     0.00    100.0  " + 40 * "█", "     0.02      0.0", "     0.04      0.0"])
    check.contains(sonde("captures", "1", "--timeline", "--from", "1.5")[0], "     2.50      0.0")
    check.equal(json.loads(sonde("captures", "1", "--timeline", "--json")[0])["binMs"], 1000)
    check.contains(sonde("captures", "--timeline", status=2)[1], "need a capture number")
    check.contains(sonde("captures", "--until", "1", status=2)[1], "need a capture number")
    check.contains(sonde("captures", "x", "--timeline", status=2)[1], "is not a capture number")
    assert not os.path.exists(os.path.join(FOLDER, "sonde.svg"))


def test_diff_compares_captures_and_files():
    sonde("captures", "1", "-o", "file.pb.gz")
    check.equal(sonde("diff", "1", "2", "-o", "-", "--format", "collapsed")[0], "[no samples] 0\n")
    check.equal(sonde("diff", "file.pb.gz", "2", "-o", "-", "--format", "collapsed")[0], "[no samples] 0\n")
    sonde("diff", "1", "file.pb.gz", "-o", "diff.svg")
    with open(os.path.join(FOLDER, "diff.svg"), encoding="utf-8") as drawn:
        check.contains(drawn.read(), "hot_function")
    check.contains(sonde("diff", "1", "9", status=1)[1], "capture 9 not found")


COMPLETENESS = "incomplete: 11 of 12 windows, 2 samples dropped, 4 nodes merged into \"other\"\n"


def nanoseconds(name, text):
    """The field of a request that the service repeated."""
    return int(text.split(f"{name}: ")[1].split(",")[0].split("}")[0])


def test_history_draws_the_range_that_was_asked_for():
    now = time.time_ns()
    out, err = sonde("history", "redis", "--selector", "host = 'a\"b'", "--event", "off-cpu")
    check.equal(err, COMPLETENESS)
    for part in ("format=TEXT_TOP", "service: redis", "event: off-cpu", "host = 'a'b'"):
        check.contains(out, part)
    check.near(nanoseconds("until_unix_ns", out), now, 60e9, "until")
    check.equal(nanoseconds("until_unix_ns", out) - nanoseconds("from_unix_ns", out), 3600 * 10**9)
    out = sonde("history", "--from", "2023-11-14T22:13:20Z", "--until", "1700000060.5", "-o", "-", "--format", "collapsed")[0]
    check.equal(nanoseconds("from_unix_ns", out), 1700000000 * 10**9)
    check.equal(nanoseconds("until_unix_ns", out), 1700000060500000000)
    assert "service:" not in out, out
    for extension, start in ((".svg", b"<?xml"), (".pb.gz", b"\x1f\x8b")):
        check.equal(sonde("history", "redis", "--from", "-2d", "-o", "past" + extension), ("", COMPLETENESS))
        with open(os.path.join(FOLDER, "past" + extension), "rb") as file:
            check.equal(file.read(len(start)), start)


def local(unix_s):
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_s))


def test_history_names_its_windows_and_silent_hosts():
    _, err = sonde("history", "silent")
    begin = 1700000000
    check.equal(err, f"incomplete: 11 of 12 windows of 10 s, from {local(begin)} until {local(begin + 110)}, "
                     f"2 samples dropped, 4 nodes merged into \"other\"; recording began at {local(begin)}\n"
                     "61 % of the CPU time that the kernel counted is in this answer\n"
                     "estimate: 3 processes were drawn to stand for about 12 (standard deviation of their sum: 25 %)\n"
                     f"host web-2: nothing from {local(begin + 100)} until {local(begin + 160)}\n"
                     f"host we?b: nothing from {local(begin + 200)} until {local(begin + 300)}\n")


def test_history_without_windows_is_an_error_and_no_file():
    _, err = sonde("history", "idle", "--from", "1700000000", "--until", "1700000060", "-o", "idle.svg", status=1)
    check.contains(err, f"nothing that matches was recorded from {local(1700000000)} until {local(1700000060)}")
    check.contains(err, "history is empty")
    assert not os.path.exists(os.path.join(FOLDER, "idle.svg"))


def test_history_of_all_processes_is_the_host_view():
    check.contains(sonde("history", "-p", "--selector", "host = 'a'")[0], "host_totals: true")
    check.contains(sonde("history", "-p", status=2)[1], "several hosts: name one in the selector")


def test_history_without_a_service_shows_which_used_cpu_time_and_when():
    out, err = sonde("history", "--from", "1700000003", "--until", "1700000230")
    range_line, heading, redis, echo = out.splitlines()
    check.equal(range_line, "2023-11-14 22:13:20 to 2023-11-14 22:17:10, 10 s in each column, each row on its own scale; · = nothing recorded")
    check.equal(heading.split(), ["CPU", "SECONDS", "SHARE", "WHEN", "HOSTS", "PROCS", "SERVICE"])
    check.equal(redis.split(), ["1.0", "100.0%", "▆█" + 21 * "·", "2", "3", "redis"])
    check.equal(echo.split()[:3], ["0.0", "0.0%", 23 * "·"])
    check.contains(err, "incomplete: 11 of 12 windows")
    months = sonde("history", "--from", "1690000000", "--until", "1700000240")[0].splitlines()
    bars = months[2].split()[2]
    assert 12 < len(bars) <= 24 and bars.strip("·") in ("", "█"), months  # both points are in the last column
    check.contains(sonde("history", "--selector", "host = 'a'")[0], "selector: ")
    check.equal(json.loads(sonde("history", "--json")[0])["services"][0]["name"], "redis")


def test_history_lists_what_was_recorded():
    out, err = sonde("history", "--list", "--from", "-2h", "--selector", "host = 'a'")
    heading, redis, echo = out.splitlines()
    check.equal(heading.split(), ["FIRST", "LAST", "CPU", "SECONDS", "HOSTS", "PROCS", "SERVICE", "EVENTS"])
    check.equal(redis.split()[-6:], ["1.0", "2", "3", "redis", "on-cpu,", "off-cpu"])
    check.contains(echo, "{from_unix_ns: ")
    check.equal(err, "")
    listed = json.loads(sonde("history", "--list", "--json", "--selector", "host = 'a'")[0])["services"]
    check.equal((listed[0]["name"], listed[0]["onCpuNs"]), ("redis", "1000000000"))
    check.contains(listed[1]["name"], "selector: host = 'a'")
    check.contains(sonde("history", "--list", "--selector", "syntax", status=2)[1], "byte 8: expected a value")


def test_a_query_that_fails_leaves_no_file_and_reports_the_services_reason():
    check.contains(sonde("history", "error-IO", "-o", "lost.svg", status=1)[1], "no space left on the device")
    check.contains(sonde("history", "cut", "-o", "lost.svg", status=1)[1], "sonde history: ")
    check.contains(sonde("history", "--selector", "syntax", "-o", "lost.svg", status=2)[1], "byte 8: expected a value")
    check.contains(sonde("diff", "error-IO", "--base-from", "-2h", "-o", "lost.svg", status=1)[1], "no space left")
    check.equal([name for name in os.listdir(FOLDER) if "lost" in name or name.startswith(".sonde")], [])


def test_a_service_without_history_says_how_to_record_one():
    without = start_service(f"{ADDRESS}.without", "--no-history")
    try:
        for words in (("history",), ("history", "--list"), ("diff", "--base-from", "-2h")):
            check.contains(sonde(*words, "--service", f"{ADDRESS}.without", status=1)[1],
                           "the service records no history; start sonded or `sonde run` with --history")
        check.equal(history_findings("--service", f"{ADDRESS}.without"), {})
    finally:
        check.stop(without)


def history_list(*words):
    done = subprocess.run([SONDE, "doctor", "--json", *words], env=environment(), capture_output=True, text=True, check=False)
    found = [finding for finding in json.loads(done.stdout)["findings"] if finding["subject"] == "history"]
    return [(finding["state"], finding["text"]) for finding in found]


def history_findings(*words):
    return dict(history_list(*words))


def test_doctor_says_what_would_name_a_targets_functions():
    done = subprocess.run([SONDE, "doctor", "--json"], env=environment(), capture_output=True, text=True, check=False)
    found = [finding for finding in json.loads(done.stdout)["findings"] if finding["subject"] == "names"]
    check.equal([(finding["state"], finding["text"]) for finding in found], [
        ("note", "redis <is> stripped?????"), ("note", "node: JavaScript functions have no names (pid 1)")])


def test_doctor_reports_the_state_of_the_history():
    summary = "sqlite at /var/lib/sonde/history has nothing yet: 12 windows in 0.0 MiB"
    check.equal(history_findings(), {"ok": summary})
    broken = start_service(f"{ADDRESS}.trouble", "--targets", "trouble")
    try:
        check.equal(history_findings("--service", f"{ADDRESS}.trouble"), {
            "ok": summary, "fix": "nothing is stored: no space left on the device",
            "note": "7 samples were dropped while recording; 3 windows could not be stored"})
    finally:
        check.stop(broken)


def test_doctor_says_which_processes_have_a_history():
    refused = "processes without the guest are not recorded: "
    cases = {"every": [("ok", "every process is recorded since "), ("ok", ": 45 processes, 2 of them by their guests"),
                       ("note", "3 processes have no off-CPU time: at most 64 without the guest have it")],
             "own": [("note", "processes of sonded's user are recorded since "), ("note", ": 7 processes, 1 of them by their guests"),
                     ("note", f"{refused}those of other users: perf is refused")],
             "refused": [("note", "only processes that have the guest are recorded: 1"), ("note", f"{refused}perf is refused")],
             "guests": [("note", "only processes that have the guest are recorded: 3")]}
    for name, expected in cases.items():
        service = start_service(f"{ADDRESS}.{name}", "--targets", name)
        try:
            found = history_list("--service", f"{ADDRESS}.{name}")
            for state, part in expected:
                assert [text for own, text in found if own == state and part in text], (name, part, found)
            check.equal(len([text for _, text in found if refused in text]), int(name in ("own", "refused")))
        finally:
            check.stop(service)


def test_history_lists_changes():
    out, err = sonde("history", "--changes", "redis", "--from", "1700000000", "--until", "1700000600")
    lines = out.splitlines()
    check.equal(lines[0], "2023-11-14 22:18:20  redis, version (none) -> 1.5")
    check.equal(lines[1], "  sort  +37.5 %  (25.00 % -> 31.25 % of the service, ± 3.12)")
    check.equal(lines[2], "    called by handle < main")
    check.equal(lines[3], "  new?[2J  moved  (12.50 % -> 12.50 % of the service, ± 0.00), before in old")
    check.contains(lines[4], "{service: redis,from_unix_ns: 1700000000000000000,until_unix_ns: 17000006")
    check.contains(lines[4], ", only on host b")
    check.contains(lines[5], "  fresh  new  (0.00 % -> 12.50 %")
    check.equal(lines[6:], ["there are older ones; choose an earlier --until"])
    check.equal(err, "")
    listed = json.loads(sonde("history", "--changes", "--json")[0])["changes"]
    check.equal(listed[0]["functions"][0]["callers"], ["handle", "main"])
    check.contains(sonde("history", "--changes", "--list", status=2)[1], "--changes prints a list")
    check.contains(sonde("history", "--changes", "error-IO", status=1)[1], "no space left")


def test_diff_compares_ranges_of_the_history():
    out, err = sonde("diff", "redis", "--from", "-1h", "--base-from", "-25h", "-g", "--selector", "{host=\"a\"}")
    check.equal(err, COMPLETENESS)
    base, new = out.split("base_selection: ")[1].split("selection: ")
    for part in ("format=TEXT_TOP", "growth_only: true"):
        check.contains(out, part)
    for selection in (base, new):
        check.contains(selection, "service: redis")
        check.contains(selection, "{host=")
        check.equal(nanoseconds("until_unix_ns", selection) - nanoseconds("from_unix_ns", selection), 3600 * 10**9)
    check.equal(nanoseconds("from_unix_ns", new) - nanoseconds("from_unix_ns", base), 24 * 3600 * 10**9)
    out = sonde("diff", "--base-from", "1700000000", "--base-until", "1700000300", "-o", "-", "--format", "collapsed")[0]
    check.equal(nanoseconds("until_unix_ns", out), 1700000300 * 10**9)


def test_live_prints_one_table_per_window_without_a_terminal():
    out = sonde("live", "redis", "-n", "3", "--window", "100")[0]
    check.equal((out.count("SELF"), out.count("redis  cpu ")), (3, 3))
    check.equal(out.count("100.0 % 100.0 %  ####################  redis\n"), 3)
    lines = sonde("live", "redis", "-n", "2", "--json")[0].splitlines()
    check.equal([json.loads(line)["sequence"] for line in lines], ["0", "1"])


def read_until(terminal, wanted):
    text, end = b"", time.monotonic() + 20
    while wanted not in text and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                text += os.read(terminal, 65536)
            except OSError:
                break
    assert wanted in text, (wanted, text[-2000:])
    return text


def test_live_reacts_to_keys_on_a_terminal():
    terminal, theirs = pty.openpty()
    child = subprocess.Popen([SONDE, "live", "--all", "redis", "--window", "100"], env=environment(), stdin=theirs, stdout=theirs,
                             stderr=theirs, cwd=FOLDER)
    os.close(theirs)
    text = read_until(terminal, b"waiting for the first samples of all processes of redis ...")
    check.contains(text, b"\x1b[?1049h")
    read_until(terminal, b"q quit")
    read_until(terminal, b"all processes of redis  cpu ")
    os.write(terminal, b"t")
    read_until(terminal, b"thread\x1b")
    read_until(terminal, b"t back to functions")
    os.write(terminal, b"i")
    read_until(terminal, b"TOTAL")
    os.write(terminal, b"p")
    read_until(terminal, b"process\x1b")
    read_until(terminal, b"p back to functions")
    os.write(terminal, b"/xyz")
    read_until(terminal, b"/xyz_  Enter keep  Esc all rows")
    os.write(terminal, b"\n")
    read_until(terminal, b"no matches")
    read_until(terminal, b"/xyz  Esc all rows")
    os.write(terminal, b"\x1b")
    os.write(terminal, b" ")
    read_until(terminal, b"PAUSED")
    os.write(terminal, b"q")
    read_until(terminal, b"\x1b[?1049l")
    check.equal(child.wait(timeout=20), 0)
    os.close(terminal)


def resize(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def screen_of(text):
    """The lines of the last whole screen in text, without escape sequences."""
    last = text[text.rindex(b"\x1b[H", 0, text.rindex(b"\x1b[J")):text.rindex(b"\x1b[J")]
    return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", last).decode().replace("\r", "").split("\n")


def test_live_has_colours_where_the_terminal_does():
    for given, wanted in (({"TERM": "xterm"}, b"\x1b[31m" + 20 * "█".encode()), ({"TERM": "dumb"}, 20 * b"#"), ({"TERM": "xterm", "NO_COLOR": "1"}, 20 * b"#")):
        terminal, theirs = pty.openpty()
        child = subprocess.Popen([SONDE, "live", "redis", "--window", "100"], env={**environment(), **given}, stdin=theirs, stdout=theirs,
                                 stderr=theirs, cwd=FOLDER)
        os.close(theirs)
        read_until(terminal, wanted)
        os.write(terminal, b"q")
        read_until(terminal, b"\x1b[?1049l")
        check.equal(child.wait(timeout=20), 0)
        os.close(terminal)


def test_live_shows_callers_and_callees_of_the_selected_row():
    terminal, theirs = pty.openpty()
    resize(theirs, 24, 80)
    child = subprocess.Popen([SONDE, "live", "redis", "--window", "100"], env=environment(), stdin=theirs, stdout=theirs,
                             stderr=theirs, cwd=FOLDER, start_new_session=True,
                             preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(theirs)
    text = read_until(terminal, b"space pause\x1b[J")
    check.contains(screen_of(text)[-1], "j/k select  Enter callers")
    read_until(terminal, b"redis\x1b")
    for down in (b"j", b"\x1b[B", b"\x1bOB"):
        os.write(terminal, down)
        read_until(terminal, b"\x1b[7m100.0 % 100.0 %  ####################  redis\x1b[K\x1b[m")
        os.write(terminal, b"\x1b")
        read_until(terminal, b"function\x1b[K\r\r\n100.0 % 100.0 %  ####################  redis\x1b[K\r")
    os.write(terminal, b"j\n")
    text = read_until(terminal, b"Esc back  space pause\x1b[J")
    lines = screen_of(text)
    check.contains(lines[1], "100.0 % of all: redis")
    check.contains("\n".join(lines), "called by\n100.0 % 100.0 %  ####################  [nothing above it]")
    assert len(lines) <= 24 and max(map(len, lines)) <= 80, lines
    resize(terminal, 8, 40)  # with SIGWINCH
    check.until(lambda: max(map(len, screen_of(read_until(terminal, b"\x1b[J")))) <= 40, what="lines of 40 columns")
    os.write(terminal, b"\x1b")
    read_until(terminal, b"total")
    os.write(terminal, b"q")
    read_until(terminal, b"\x1b[?1049l")
    check.equal(child.wait(timeout=20), 0)
    os.close(terminal)


def start_service(address, *flags):
    with open(os.path.join(FOLDER, "log"), "a", encoding="utf-8") as log:
        service = subprocess.Popen(["/usr/bin/python3", "-B", "tests/rest/fake_service.py", "--grpc", address, "--targets",
                                    "redis,full", *flags], stdout=log, stderr=log)
    check.until(lambda: os.path.exists(address.removeprefix("unix:")), what="the service")
    return service


SERVICE = start_service(ADDRESS)
try:
    check.main(globals())
finally:
    check.stop(SERVICE)
    shutil.rmtree(FOLDER, ignore_errors=True)
