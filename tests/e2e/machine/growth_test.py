# SPDX-License-Identifier: Apache-2.0
"""Growth of a program that knows how much it grows, and where."""

import os
import pty
import re
import signal
import subprocess

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import users

GROWING = os.path.join(stack.WORK, "growing")
MIB = 1 << 20
BYTES = 24 * MIB
ALL = ("[anonymous memory]", "[file pages]", "[shared memory]", "leak", "keep", "fill_cache", "churn", "read_file", "share",
       "[no page fault seen]")


def install():
    users.install()
    subprocess.run(["gcc", "-g", "-O1", "tests/e2e/machine/growing.c", "-o", GROWING], check=True)


def folder(uid):
    path = os.path.join(stack.WORK, f"growth-{uid}")
    os.makedirs(path, mode=0o700, exist_ok=True)  # tests run beside each other
    os.chown(path, uid, uid)
    return path


def environment(uid):
    return {**stack.environment(), "XDG_RUNTIME_DIR": folder(uid), "SONDE_DATA_DIR": folder(uid)}


def rss_anon(pid):
    """The sum of the pages; RssAnon of status may lag behind by some pages for each CPU."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        return int(re.search(r"Anonymous:\s+(\d+) kB", file.read())[1]) * 1024


class Growing:
    """The program, which waits for go()."""

    def __init__(self, what, uid=0):
        self.process = subprocess.Popen(users.as_user(uid, GROWING, str(BYTES // MIB), what), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        users.started.append(self.process)
        check.equal(self.process.stdout.readline(), "ready\n")
        self.pid = self.process.pid

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        check.equal(self.process.stdout.readline(), "grown\n")

    def stop(self):
        users.stop(self.process)


def capture(growing, *options, uid=0, interrupts=True):
    """Has the program grow during a capture. Returns the bytes below each name, the change of RssAnon and the comments."""
    out = os.path.join(folder(uid), f"{growing.pid}.collapsed")
    before = rss_anon(growing.pid)
    terminal, end = pty.openpty()  # where the client shows that the capture has begun
    client = subprocess.Popen([*users.as_user(uid), stack.SONDE, "growth", str(growing.pid), "-d", "60", "-o", out, *options],
                              env=environment(uid), cwd=folder(uid), stdin=subprocess.DEVNULL, stderr=end, start_new_session=True)
    os.close(end)
    shown = ""
    while " s of 60" not in shown:
        shown += os.read(terminal, 4096).decode()  # fails if the client has ended
    growing.go()
    after = rss_anon(growing.pid) if interrupts else before
    if interrupts:
        client.send_signal(signal.SIGINT)
    check.equal(client.wait(timeout=60), 0, "status of sonde growth")
    os.close(terminal)
    with open(out, encoding="utf-8") as file:
        rows = [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in file if not line.startswith("#")]
    sums = {name: sum(count for frames, count in rows if name in frames) for name in ALL}
    return sums, after - before


def test_what_is_touched_and_stays_is_counted_as_the_kernel_counts_it():
    for options in (("--period", "7"), ("--period", "31"), ()):
        growing = Growing("small")
        sums, change = capture(growing, *options)
        growing.stop()
        check.near(change, BYTES, 0.02 * BYTES, "anonymous memory of the kernel")
        check.near(sums["[anonymous memory]"], change, 0.05 * change, f"sum with {options}")
        if not options:
            continue  # with a frequency, the number of samples is that of a moment
        assert sums["leak"] + sums["keep"] > 0.8 * BYTES, sums  # on a busy machine, some faults have no sample
        check.near(sums["leak"] / (sums["leak"] + sums["keep"]), 2 / 3, 0.15, f"share of leak() with {options}: {sums}")
        assert sums["fill_cache"] + sums["churn"] < 0.05 * BYTES, sums


def test_huge_pages_count_with_their_size():
    with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as file:
        if "[never]" in file.read():
            raise check.Skip("this machine has no transparent huge pages")
    growing = Growing("huge")
    sums, change = capture(growing, "--period", "1")
    growing.stop()
    check.near(sums["[anonymous memory]"], change, 0.05 * BYTES, "sum")
    check.near(sums["leak"], 16 * MIB, 2 * MIB, f"leak(): {sums}")
    check.near(sums["keep"], 8 * MIB, 2 * MIB, f"keep(): {sums}")


def test_anonymous_memory_files_and_shared_memory_are_apart():
    growing = Growing("kinds")
    sums, change = capture(growing, "--period", "31")
    growing.stop()
    check.near(sums["[anonymous memory]"], change, 0.05 * BYTES, "anonymous")
    check.near(sums["[shared memory]"], BYTES, 0.05 * BYTES, "shared")
    check.near(sums["[file pages]"], BYTES, 0.05 * BYTES, "files")
    for name in ("leak", "read_file", "share"):
        assert sums[name] > 0.5 * BYTES, f"{name}: {sums}"


def test_copies_after_a_fork_and_zero_pages_are_no_growth():
    for what in ("fork", "zero"):
        growing = Growing(what)
        sums, change = capture(growing)
        growing.stop()
        if what == "fork":
            check.near(change, 0, 0.02 * BYTES, "RssAnon after a fork")
        # Some kernels give memory that is only read pages of its own. Then it grows, and the sum says so.
        check.near(sums["[anonymous memory]"], change, 0.02 * BYTES, f"{what}: {sums}")


def test_memory_that_had_no_fault_is_a_note():
    growing = Growing("populate")
    sums, change = capture(growing)
    growing.stop()
    check.near(sums["[no page fault seen]"], change, 0.05 * BYTES, f"{sums}")


def test_a_process_that_ends_has_nothing_left():
    growing = Growing("end")
    sums, _ = capture(growing, interrupts=False)
    check.equal(sum(sums.values()), 0, f"{sums}")


def test_users_see_what_makes_their_own_processes_grow():
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
        if int(file.read()) > 2:
            raise check.Skip("kernel.perf_event_paranoid is above 2, so ordinary users have no page faults")
    growing = Growing("small", uid=users.NOBODY)
    sums, change = capture(growing, uid=users.NOBODY)
    growing.stop()
    check.near(sums["[anonymous memory]"], change, 0.05 * change, "sum")
    assert sums["leak"] > sums["keep"] > 0, sums


def sonde(*words, status=0):
    done = subprocess.run([stack.SONDE, *words], env=environment(0), cwd=folder(0), capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60, check=False)
    check.equal(done.returncode, status, f"status of {words} ({done.stdout}{done.stderr})")
    return done.stdout, done.stderr


def test_the_comments_compare_the_sum_with_the_kernels():
    growing = Growing("small")
    out = sonde("growth", str(growing.pid), "-d", "0.2")[0]
    growing.stop()
    check.contains(out, "Type: growth")
    check.contains(out, "# mode: growth: resident memory that was first touched during the capture")
    assert re.search(r"# growth: anonymous memory [\d.]+ MiB; files .*; RssAnon changed by [+-][\d.]+ MiB", out), out


def test_growth_of_several_processes_and_heap_profiles_are_refused_with_what_to_do():
    growing = Growing("small")
    pid = str(growing.pid)
    check.contains(sonde("record", "--all", pid, "--event", "growth", status=2)[1],
                   "growth can only be taken of one process: choose it by its pid or name")
    service = f"unix:{stack.WORK}/growth.sock"
    sonded = subprocess.Popen([os.path.join(stack.PREFIX, "bin/sonded"), "--socket", f"{stack.WORK}/guests.sock", "--grpc", service],
                              env=environment(0), stdout=subprocess.PIPE, text=True)
    users.started.append(sonded)
    check.contains(sonded.stdout.readline(), "grpc: ")
    for words in (("status",), ("on",), ("dump", "-o", "x.pb.gz"), ("allocs", "-o", "x.pb.gz")):
        check.contains(sonde("heap", words[0], pid, *words[1:], "--service", service, status=4)[1],
                       f"; `sonde growth {pid}` shows which code makes it grow")
    users.stop(sonded)
    check.contains(sonde("growth", status=2)[1], "which process? give its pid or name")
    check.contains(sonde("growth", "flame.svg", status=2)[1], "\"flame.svg\" is a file: give a running process")
    growing.stop()


if os.geteuid() == 0:
    install()
try:
    check.main(globals(), at_once=3)
finally:
    for left in list(users.started):
        users.stop(left)
