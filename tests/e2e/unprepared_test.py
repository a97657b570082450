# SPDX-License-Identifier: Apache-2.0
"""Processes that were started by other means, with no sonded running: record, top, threads and targets, as root and as the
processes' own user, and what they refuse."""

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import users

TREE = os.path.join(stack.WORK, "tree")
NAME = f"busy{os.getpid()}"  # no other process has it


def install():
    users.install()
    shutil.copy(users.BUSY, os.path.join(stack.WORK, NAME))
    subprocess.run(["gcc", "-g", "-O1", "tests/e2e/tree.c", "-o", TREE], check=True)
    for owner, folder in ((0, "of-root"), (users.NOBODY, "of-nobody")):
        for name in ("run", "data", "out"):
            path = os.path.join(stack.WORK, folder, name)
            os.makedirs(path, mode=0o700)
            os.chown(path, owner, owner)
        os.chmod(os.path.join(stack.WORK, folder), 0o755)


def folder(uid, name):
    return os.path.join(stack.WORK, "of-nobody" if uid else "of-root", name)


def start(uid, *words, program="sonde", **more):
    """Starts a verb as a user for whom no sonded is running."""
    env = {**stack.environment(), "XDG_RUNTIME_DIR": folder(uid, "run"), "SONDE_DATA_DIR": folder(uid, "data")}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.Popen([*users.as_user(uid), os.path.join(stack.PREFIX, "bin", program), *words], env=env,
                            cwd=folder(uid, "out"), text=True, stdin=subprocess.DEVNULL, **streams)


def sonde(uid, *words, status=0):
    """Runs a verb, checks its status and that it left nothing behind, and returns (stdout, stderr)."""
    process = start(uid, *words)
    out, err = process.communicate(timeout=90)
    check.equal(process.returncode, status, f"status of {words} as {uid} ({out}{err})")
    runs = os.path.join(folder(uid, "run"), "sonde")
    left = os.listdir(runs) if os.path.exists(runs) else []
    check.equal([name for name in left if name.startswith("run-")], [], "run directories")
    return out, err


def need_perf(uid):
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
        level = int(file.read())
    if uid and level > 2:
        raise check.Skip(f"kernel.perf_event_paranoid is {level}, so only root may use perf")


def busy(uid):
    return users.start(*users.as_user(uid, os.path.join(stack.WORK, NAME)), stdout=subprocess.DEVNULL)


def stacks(text):
    return [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in text.splitlines()]


def burned(text, function):
    """The samples in a function, or in the kernel below it."""
    return sum(count for frames, count in stacks(text) if function in frames)


def address_of_burn(pid):
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
        base = int(maps.readline().split("-")[0], 16)
    listed = subprocess.run(["nm", users.BUSY], capture_output=True, text=True, check=True).stdout
    return base + int(re.search(r"(\w+) T burn", listed).group(1), 16)


def profiles_a_process_of(uid):
    """Each sample of the capture has the right callers, and the formats come from the extension."""
    need_perf(uid)
    process = busy(uid)
    out, err = sonde(uid, "record", str(process.pid), "-d", "0.5", "-F", "499", "-o", "-", "--format", "collapsed")
    # The rings of a user are small, so a machine that is busy may drop some; the answer has to say how many.
    dropped = int(re.search(r"(\d+) dropped", err)[1])
    assert dropped == 0 or uid, err
    assert uid or "clock" not in err, err  # there is no better one
    assert burned(out, "burn") >= 0.9 * stack.total(stacks(out)) > 0, out
    check.contains(sonde(uid, "threads", str(process.pid))[0], "burn")
    check.contains(sonde(uid, "symbol", str(process.pid), hex(address_of_burn(process.pid)))[0], " burn ")
    users.stop(process)


def test_root_profiles_a_process_that_nobody_prepared():
    profiles_a_process_of(0)


def test_a_user_profiles_their_own_process():
    profiles_a_process_of(users.NOBODY)


def test_the_extension_selects_the_format_and_a_name_selects_the_process():
    process = busy(0)
    for extension, begin in ((".svg", b"<?xml"), (".pb.gz", b"\x1f\x8b"), (".txt", b"")):
        sonde(0, "record", NAME, "-d", "0.1", "-F", "499", "-o", "out" + extension)
        with open(os.path.join(folder(0, "out"), "out" + extension), "rb") as file:
            check.equal(file.read(len(begin)), begin)
    users.stop(process)


def test_redis_that_is_already_running():
    if not shutil.which("redis-server"):
        raise check.Skip("redis-server is not installed")
    path = os.path.join(stack.WORK, "redis.sock")
    server = users.start("redis-server", "--port", "0", "--unixsocket", path, "--save", "", stdout=subprocess.DEVNULL)
    check.until(lambda: os.path.exists(path), what="redis")
    load = users.start("redis-benchmark", "-s", path, "-q", "-n", "100000000", "-t", "set", "-P", "16", stdout=subprocess.DEVNULL)
    out = sonde(0, "record", str(server.pid), "-d", "0.7", "-F", "499", "-o", "-", "--format", "collapsed")[0]
    comments = sonde(0, "top", str(server.pid), "-d", "0.3", "-F", "499")[0]
    owned = subprocess.run(["dpkg", "-S", os.path.realpath(shutil.which("redis-server"))], capture_output=True, text=True, check=False)
    if owned.returncode == 0:
        check.contains(comments, f"install {owned.stdout.split(':')[0]}-dbgsym from http://deb.debian.org/debian-debug")
    users.stop(load)
    users.stop(server)
    assert burned(out, "aeMain") > 0.5 * stack.total(stacks(out)), out


def start_sampling(target, output, *options):
    """Starts `sonde record` and waits for samples. Returns the process and a terminal with its messages."""
    terminal, theirs = pty.openpty()
    record = start(0, "record", str(target), *options, "-d", "3000", "-F", "499", "-o", output, stderr=theirs)
    os.close(theirs)
    shown = ""
    while not re.search(r"[1-9]\d* samples", shown): # a progress line
        shown += os.read(terminal, 65536).decode()
    return record, terminal


def test_ctrl_c_keeps_what_was_collected():
    process = busy(0)
    record, terminal = start_sampling(process.pid, "early.collapsed")
    record.send_signal(signal.SIGINT)
    check.equal(record.wait(60), 0, "status")
    os.close(terminal)
    record.communicate()
    with open(os.path.join(folder(0, "out"), "early.collapsed"), encoding="utf-8") as file:
        assert burned(file.read(), "burn") > 0
    users.stop(process)


def test_the_process_that_was_sampled_is_named_and_one_that_is_stopped_is_said_to_be():
    process = busy(0)
    try:
        check.contains(sonde(0, "record", NAME, "-d", "0.2", "-o", "named.svg")[1], f"named.svg: {NAME} (pid {process.pid}), ")
        process.send_signal(signal.SIGSTOP)
        check.until(lambda: "State:\tT" in open(f"/proc/{process.pid}/status", encoding="utf-8").read(), what="the process to stop")
        check.contains(sonde(0, "record", NAME, "-d", "0.2", "-o", "stopped.svg")[1], "note: the process is stopped, by a signal or a debugger")
        process.send_signal(signal.SIGCONT)
        assert "is stopped" not in sonde(0, "record", NAME, "-d", "0.2", "-o", "running.svg")[1]
    finally:
        users.stop(process)


def test_a_command_is_recorded_with_its_children_from_the_first_instruction():
    for uid in (0, users.NOBODY):
        need_perf(uid)
        out, err = sonde(uid, "record", "-F", "999", "-o", "-", "--format", "collapsed", "--", TREE, "150", status=3)
        parent, child = burned(out, "burn_parent"), burned(out, "burn_child")
        check.contains(err, " samples in ")
        assert "exited early" not in err, err
        for count in (parent, child):
            check.near(count, 150, 75, f"samples of 150 ms as {uid} ({out})")
    check.contains(sonde(0, "record", "-o", "-", "--format", "collapsed", "--", "true")[1], " samples in ")


def test_the_machine_and_all_processes_of_a_name_are_one_profile():
    processes = [busy(0), busy(users.NOBODY)]
    out = sonde(0, "top", "--all", "-d", "0.5", "-F", "199")[0]
    assert "burn" in out or NAME in out, out # on a busy machine not all names are there within two seconds
    out = sonde(0, "record", "--all", NAME, "-d", "1", "-F", "499", "-o", "-", "--format", "collapsed")[0]
    for process in processes:
        assert any(frames[0] == f"{NAME} ({process.pid})" for frames, _ in stacks(out)), out
    check.contains(sonde(0, "live", "--all", "-n", "1", "--window", "200")[0], "SELF")
    mine = busy(0)
    rows = [line.split() for line in sonde(0, "record", NAME, "-d", "0.1", "-o", "none.svg", status=2)[1].splitlines()]
    check.equal(rows[0], ["PID", "UP", "CPU", "TIME", "GUEST", "USER", "COMMAND"])
    check.equal(rows[-2], ["type", rows[1][0], "instead", "of", NAME, "for", "the", "first", "one,", "or", "--all", NAME, "for", "all", "together"])
    assert all(NAME in row[7] for row in rows[1:-2]), rows
    check.equal([row[0] for row in rows[1:-2]], [str(processes[0].pid), str(mine.pid)], "the user's own, the busiest first")
    users.stop(mine)
    for process in processes:
        users.stop(process)


def cpu_ms(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return sum(map(int, stat.read().rpartition(")")[2].split()[11:13])) * 1000 / os.sysconf("SC_CLK_TCK")


def test_workers_that_start_and_end_meanwhile_are_in_the_profile_of_all():
    workers = [busy(0)]
    record, terminal = start_sampling(NAME, "all.collapsed", "--all")
    for _ in range(2):
        workers.append(busy(0))
        check.until(lambda: cpu_ms(workers[-1].pid) >= 100, what="CPU time of the new worker")
        users.stop(workers[-2])
    record.send_signal(signal.SIGINT)
    check.equal(record.wait(60), 0, "status")
    os.close(terminal)
    record.communicate()
    users.stop(workers[-1])
    with open(os.path.join(folder(0, "out"), "all.collapsed"), encoding="utf-8") as file:
        found = stacks(file.read())
    check.equal({frames[0] for frames, _ in found}, {f"{NAME} ({worker.pid})" for worker in workers}, "the first level")
    for worker in workers:
        samples = sum(count for frames, count in found if frames[0].endswith(f"({worker.pid})") and "burn" in frames)
        assert samples > 0, found


def test_two_private_services_do_not_meet():
    process = busy(0)
    records = [start(0, "record", str(process.pid), "-d", "0.3", "-o", f"{i}.svg") for i in range(2)]
    for record in records:
        err = record.communicate(timeout=90)[1]
        check.equal(record.returncode, 0, err)
    users.stop(process)


def test_a_socket_that_a_killed_sonded_left_is_not_used_but_a_running_one_is():
    path = os.path.join(folder(users.NOBODY, "run"), "sonde", "grpc.sock")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    for name in (path, os.path.dirname(path)):
        os.chown(name, users.NOBODY, users.NOBODY)
    check.contains(start(users.NOBODY, "doctor").communicate(timeout=90)[0], "no sonded is running")
    sonded = start(users.NOBODY, program="sonded")
    check.until(lambda: "is running at" in start(users.NOBODY, "doctor").communicate(timeout=90)[0], what="sonded")
    assert re.search(r"^note +history +history is off: this service keeps no history", start(users.NOBODY, "doctor").communicate(timeout=90)[0], re.M)
    err = sonde(users.NOBODY, "record", str(os.getpid()), "-o", "x.svg", status=4)[1]
    check.contains(err, "another user")
    check.contains(err, "run this command with sudo")
    check.stop(sonded)
    sonded.communicate()


def test_doctor_says_how_to_start_a_python_that_is_already_running():
    python = users.start("/usr/bin/python3", "-c", "import time; time.sleep(1000)")
    check.contains(start(0, "doctor").communicate(timeout=90)[0], ": Python functions have no names; ")
    users.stop(python)


def test_a_user_without_a_home_needs_no_preparation_either():
    command = [*users.as_nobody("env", "-u", "SONDE_DATA_DIR", "HOME=/nonexistent"), stack.SONDE, "targets", "--all"]
    done = subprocess.run(command, env={**stack.environment(), "XDG_RUNTIME_DIR": folder(users.NOBODY, "run")},
                          capture_output=True, text=True, timeout=90, check=False)
    check.equal((done.returncode, done.stderr), (0, ""), "status and errors")


def test_the_end_of_the_private_sonded_or_of_the_command_leaves_nothing():
    process = busy(0)
    record, terminal = start_sampling(process.pid, "lost.svg")
    os.kill(sonded_of(record), signal.SIGKILL)
    check.equal(record.wait(90), 3, "status")
    ended = "the private sonded of this command has ended"
    check.contains(read_until(terminal, ended), ended)
    os.close(terminal)
    assert not has_output("lost") and not has_output(".sonde-")
    record.communicate()
    record, terminal = start_sampling(process.pid, "lost.svg")
    sonded = sonded_of(record)
    record.kill()
    record.communicate()
    os.close(terminal)
    check.until(lambda: not check.alive(sonded), what="the end of sonded")
    sonde(0, "targets", "--all") # deletes the directory of the one that was killed
    users.stop(process)


def read_until(terminal, part):
    """What was printed on a terminal whose other side has ended; at least up to a part, if it is there."""
    text = ""
    with contextlib.suppress(OSError):  # EIO: nothing is left
        while part not in text:
            text += os.read(terminal, 65536).decode()
    return text


def sonded_of(record):
    return next(pid for pid, name in check.children(record.pid) if name == "sonded")


def has_output(begin):
    return any(name.startswith(begin) for name in os.listdir(folder(0, "out")))


def test_targets_lists_all_processes_with_user_and_reason():
    processes = {0: busy(0), users.NOBODY: busy(users.NOBODY)}
    for uid, process in processes.items():
        listed = {target["pid"]: target for target in json.loads(sonde(uid, "targets", "--all", "--json")[0])["targets"]}
        mine = listed[process.pid]
        check.equal((mine["name"], mine["uid"], mine["unattached"]), (NAME, uid, True))
        if not uid:
            check.equal(mine.get("unavailable", ""), "")
            check.equal(listed[processes[users.NOBODY].pid].get("unavailable", ""), "")
        else:
            check.contains(listed[processes[0].pid]["unavailable"], "another user")
    check.contains(sonde(0, "targets")[0], "no targets attached")
    lines = sonde(0, "targets", "--all")[0].splitlines()
    assert any(line.split()[0] == str(processes[users.NOBODY].pid) and "nobody" in line for line in lines), lines[:9]
    for process in processes.values():
        users.stop(process)


def is_kernel_thread(pid):
    """False in a container, which has no kernel threads."""
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as comm:
            return comm.read() == "kthreadd\n"
    except OSError:
        return False


def test_refusals_are_one_line_that_says_what_to_do():
    process, ended = busy(0), users.start("true")
    ended.wait()
    users.started.remove(ended)
    for uid, words, status, part in (
            (users.NOBODY, ("record", str(process.pid)), 4, "run this command with sudo"),
            (users.NOBODY, ("record", "--all"), 4, "run this command with sudo"),
            (0, ("record", str(ended.pid)), 1, f"no process with pid {ended.pid}"),
            (0, ("live", "99999999"), 1, "no process with pid 99999999"),
            (0, ("top", "no-such-name"), 1, "no process called no-such-name"),
            (0, ("record", "--source", "guest", str(process.pid)), 4, "sonde run"),
            (0, ("record", str(process.pid), "-o", "no/folder.svg"), 1, "cannot write no/folder.svg"),
            (0, ("record",), 2, "which process?")):
        out, err = sonde(uid, *words, status=status)
        check.equal((out, err.count("\n")), ("", 1), f"output of {words} ({err})")
        check.contains(err, part)
    if is_kernel_thread(2):
        check.contains(sonde(0, "record", "2", status=4)[1], "kernel thread")
    users.stop(process)


if os.geteuid() == 0:
    install()
try:
    check.main(globals())
finally:
    for left in list(users.started):
        users.stop(left)
