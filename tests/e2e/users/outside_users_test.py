# SPDX-License-Identifier: Apache-2.0
"""Who may sample whose process from outside, with two users: root and nobody. The processes are not prepared, and no sonded runs
except where a test starts one."""

import json
import os
import shutil
import signal
import subprocess

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users.users import BUSY, NOBODY, RPC, as_nobody, as_user, gateway, install, sonded, start, started, stop

CAPABILITIES = "cap_perfmon,cap_bpf,cap_sys_ptrace,cap_syslog,cap_dac_read_search,cap_checkpoint_restore+ep"
SAMPLER = os.path.join(stack.PREFIX, "bin/sonde-sampler")
HOME = os.path.join(stack.WORK, "nobody")
SECRET = os.path.join(stack.WORK, "secret")


def sonde(*words):
    """Runs a verb as nobody, who has a data folder of their own."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": HOME, "XDG_RUNTIME_DIR": HOME, "SONDE_DATA_DIR": os.path.join(HOME, "data")}
    return subprocess.run(as_nobody(stack.SONDE, *words), env=environment, cwd=HOME, capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, check=False)


def rights():
    found = [finding for finding in json.loads(sonde("doctor", "--json").stdout)["findings"] if finding["subject"] == "rights"]
    return " ".join(finding["text"] + " " + finding["mend"] for finding in found)


def busy(uid):
    """A busy process; root's runs a file that only root may read."""
    program = BUSY
    if uid == 0:
        program = os.path.join(SECRET, "busy")
        os.makedirs(SECRET, mode=0o700, exist_ok=True)
        shutil.copy(BUSY, program)
    return start(*as_user(uid, program), stdout=subprocess.DEVNULL)


def grant():
    """What doctor suggests to nobody."""
    subprocess.run(["chown", f"0:{NOBODY}", SAMPLER], check=True)
    os.chmod(SAMPLER, 0o750)
    done = subprocess.run(["/usr/sbin/setcap", CAPABILITIES, SAMPLER], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise check.Skip(f"setcap does not work here: {done.stderr.strip()}")


def test_a_user_may_not_look_at_a_process_of_root_until_the_sampler_has_capabilities():
    process = busy(0)
    profile = os.path.join(HOME, "root.collapsed")
    try:
        done = sonde("record", str(process.pid), "-d", "1", "-o", profile)
        assert done.returncode != 0 and not os.path.exists(profile), done.stderr
        check.contains(done.stderr, "belongs to another user")
        check.contains(done.stderr, "sonde doctor")
        missing = rights()
        check.contains(missing, "memory of other users")
        check.contains(missing, CAPABILITIES)
        grant()
        assert CAPABILITIES not in rights(), rights()
        done = sonde("record", str(process.pid), "-d", "1", "-o", profile)
        check.equal(done.returncode, 0, f"status; {done.stderr}")
        with open(profile, encoding="utf-8") as file:
            check.contains(file.read(), "main;burn")
        assert "clock perf-task" not in done.stderr, done.stderr  # but one clock per CPU
    finally:
        stop(process)


def test_everybody_lets_no_user_look_at_others_from_outside():
    service = sonded("--everybody")
    process, (http, address) = busy(0), gateway("--loopback", "everybody")
    try:
        def get(pid, *words):
            url = f"http://{address}/t/{pid}/debug/pprof/profile?seconds=1&output=collapsed"
            return subprocess.run(as_nobody("curl", "-s", *words, url), capture_output=True, text=True, timeout=120, check=False)

        refused = get(process.pid, "-o", "/dev/null", "-w", "%{http_code}").stdout
        assert refused in ("403", "404"), refused
        own = start(*as_nobody(BUSY, "kernel"), stdout=subprocess.DEVNULL)
        try:
            # At first it is still root's.
            stacks = check.until(lambda: get(own.pid, "-f").stdout, 60, "a profile of the user's own process")
        finally:
            stop(own)
        # Names and addresses in the kernel would show where it is in memory.
        check.contains(stacks, "[in the kernel]")
        assert "read_zero" not in stacks and "vfs_read" not in stacks, stacks
    finally:
        for part in (http, process, service):
            stop(part)


def children(pid):
    done = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def samplers(service):
    """The sampler's program and its worker."""
    found = [pid for pid in children(service.pid) if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "sonde-sampler"]
    return found + [worker for pid in found for worker in children(pid)]


def has_perf_events(service):
    folder = f"/proc/{service.pid}/fd"
    return any(os.path.lexists(f"{folder}/{fd}") and "perf_event" in os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder))


def test_roots_capture_of_a_user_goes_on_when_the_sampler_is_killed_and_a_later_one_starts():
    service, process = sonded(), busy(NOBODY)
    profile = os.path.join(stack.WORK, "killed.collapsed")
    words = (stack.SONDE, "record", str(process.pid), "--service", RPC, "--source", "host", "-d", "1", "-o", profile)
    try:
        killed = samplers(service)
        if not killed:
            raise check.Skip("no capabilities here")
        capture = start(*words, env=stack.environment(), stderr=subprocess.PIPE)
        check.until(lambda: has_perf_events(service), what="a perf event of sonded")
        for pid in reversed(killed):  # the worker, then the program
            os.kill(pid, signal.SIGKILL)
        message = capture.communicate(timeout=120)[1]
        started.remove(capture)
        check.equal(capture.returncode, 0, f"status; {message}")
        with open(profile, encoding="utf-8") as file:
            check.contains(file.read(), "main;burn")
        stack.sonde(*words[1:])
    finally:
        stop(process)
        stop(service)


install()
os.makedirs(HOME, exist_ok=True)
os.chown(HOME, NOBODY, NOBODY)
check.main(globals())
