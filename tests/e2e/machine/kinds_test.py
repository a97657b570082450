# SPDX-License-Identifier: Apache-2.0
"""The CPU time of each kind of process in the history is what the kernel's own accounting has, whether the process was prepared or
not: kinds_test.py [--long] [TEST]... With --long, the processes use 35 s and 3 s instead of 1 s and less, and there are thousands of
short ones."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

from tests.cli import check
from tests.e2e import stack
from tests.e2e.machine.service import Service
from tests.e2e.users import users

LONG = "--long" in sys.argv
sys.argv = [word for word in sys.argv if word != "--long"]
RATE = 199
TOGETHER = 4  # of the eight clocks of a CPU tick at one moment, after a pause of a virtual machine; such samples count as one
ID = str(os.getpid() % 100000)  # in the names of all processes of this test, which are those of no others
USED_S, SHORT_S = (35, 3) if LONG else (0.8, 0.4)
SHORT = 3000 if LONG else 100  # processes
NAMES, BOMB, FLOOD_S = (2000, 20000, 20) if LONG else (1000, 1000, 1.5)
MOST_SERVICES = 1000 + 400  # names that the recorder keeps apart, and the other processes of the machine
MORE_MIB = 24               # for the second flood
GO = """package main
import ("os"; "strconv"; "syscall")
func used() float64 { var u syscall.Rusage; syscall.Getrusage(0, &u); return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9 }
func burn(limit float64, done chan int) { sum := 0; for used() < limit { for i := 0; i < 20000; i++ { sum += i } }; done <- sum }
func main() {
    limit, _ := strconv.ParseFloat(os.Args[2], 64)
    done := make(chan int)
    for i := 0; i < 4; i++ { go burn(limit, done) }
    for i := 0; i < 4; i++ { <-done }
}
"""

users.install()


def build(name, *flags):
    path = os.path.join(stack.WORK, name)
    subprocess.run(["gcc", "-O1", "-pthread", *flags, "tests/e2e/machine/kinds.c", "-o", path], check=True)
    return path


def build_go():
    path = os.path.join(stack.WORK, "burn")
    with open(path + ".go", "w", encoding="ascii") as file:
        file.write(GO)
    subprocess.run(["go", "build", "-o", path, path + ".go"], check=True,
                   env={**stack.environment(), "GOCACHE": os.path.join(stack.WORK, "go"), "GO111MODULE": "off"})
    return path


PLAIN = build("plain")


def named(name, binary=PLAIN):
    """A copy of the program under that name. All of a kind begin with the kind's name and end with this test's number."""
    path = os.path.join(stack.WORK, f"{name}-{ID}")
    shutil.copy(binary, path)
    return path


def cpu_s(pid):
    """What the kernel says a living process used, all threads together."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Group:
    """A control group of its own, whose processes the kernel counts together."""

    def __init__(self):
        roots = [root for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified") if os.path.exists(f"{root}/cgroup.procs")]
        self.path = f"{roots[0]}/kinds-{ID}" if roots else None
        try:
            os.mkdir(self.path)
        except (OSError, TypeError):
            self.path = None

    def enter(self):
        if self.path:
            with open(f"{self.path}/cgroup.procs", "w", encoding="ascii") as file:
                file.write("0")

    def used_s(self):
        """None: the kernel does not count it."""
        if not self.path:
            return None
        with open(f"{self.path}/cpu.stat", encoding="ascii") as file:
            found = re.search(r"^usage_usec (\d+)", file.read(), re.M)
        os.rmdir(self.path)
        return int(found.group(1)) / 1e6 if found else None


GROUP = Group()


def kinds(guest):
    """name: (words before the command, the program, its arguments)."""
    used, short = str(USED_S), str(SHORT_S)
    plain = {
        "lone": ([], PLAIN, ["burn", used]),
        "half": ([], PLAIN, ["burn", short]),
        "thread": ([], PLAIN, ["threads", used, "40"]),
        "fork": ([], PLAIN, ["fork", used, "12"]),
        "spawn": ([], PLAIN, ["spawn", used, str(SHORT), named("spawn2")]),
        "chain": ([], PLAIN, ["chain", used, named("chain2"), named("chain3")]),
        "rename": ([], PLAIN, ["rename", used, f"rename2-{ID}"]),
        "pin": (["taskset", "-c", str(min(os.sched_getaffinity(0)))], PLAIN, ["burn", used]),
        "nice": (["nice", "-n", "19"], PLAIN, ["burn", used]),
        "kill": ([], PLAIN, ["burn", "1000"]),
        "space": (["unshare", "--pid", "--fork", "--mount-proc"], PLAIN, ["burn", used]),
        "static": ([], build("static", "-static"), ["burn", used]),
        "go": ([], build_go(), ["burn", used]),
    }
    preload = ["env", f"LD_PRELOAD={stack.PREFIX}/lib/libsonde.so", f"SONDE_SOCKET={guest}"]
    prepared = {f"g{name}": (preload + plain[name][0], PLAIN, [word.replace("/chain", "/gchain") for word in plain[name][2]])
                for name in ("lone", "thread", "fork", "chain", "kill")}
    for number in (2, 3):
        named(f"gchain{number}")
    return {**plain, **prepared}


def start(name, kind):
    before, program, words = kind
    return subprocess.Popen([*before, named(name, program), *words], env=stack.environment(),
                            preexec_fn=GROUP.enter if name == "space" else None)  # pylint: disable=subprocess-popen-preexec-fn


def end(name, process):
    """Waits, and returns the CPU time of the process and its children in s."""
    if "kill" in name:
        check.until(lambda: cpu_s(process.pid) >= USED_S, seconds=400, what="the CPU time of a process that is killed")
        process.send_signal(signal.SIGKILL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    check.equal(status, signal.SIGKILL if "kill" in name else 0, f"the status of {name}")
    return usage.ru_utime + usage.ru_stime


def recorded(services, name):
    return sum(ns for service, ns in services.items() if re.fullmatch(rf"{name}\d?-{ID}", service)) / 1e9


def tolerance(used_s):
    """Four standard deviations of the number of samples, and two samples at the ends."""
    return (4 * (TOGETHER * used_s * RATE) ** 0.5 + 2) / RATE


def dropped_s(service):
    """What the history says it lacks."""
    return int(re.search(r"([\d,]+) samples dropped", service.history("-o", "-", "--format", "collapsed")[1]).group(1).replace(",", "")) / RATE


def check_times(service, used):
    """{kind: seconds that the kernel counts} beside the history, in which they are within a few seconds."""
    def compare():
        found, lost = service.services(), dropped_s(service)
        rows = [(name, real, recorded(found, name)) for name, real in used.items()]
        rows.append(("all", sum(used.values()), sum(row[2] for row in rows)))
        lines = [f"{name:8} {real:7.3f} s, in the history {seen:7.3f} s, ± {tolerance(real):.3f}, dropped {lost:.3f} s of all processes"
                 for name, real, seen in rows]
        return lines, [line for line, (_, real, seen) in zip(lines, rows) if not -tolerance(real) - lost <= seen - real <= tolerance(real)]

    until = time.monotonic() + 15
    lines, wrong = compare()
    while wrong and time.monotonic() < until:
        time.sleep(0.5)
        lines, wrong = compare()
    print("\n".join(lines), flush=True)
    assert not wrong, "\n".join(wrong)


def begin(name, *flags):
    service = Service(0, name, RATE, *flags)
    check.until(lambda: re.search(r"recorded since .*: [1-9]\d* processes", service.doctor()), seconds=30, what="the first window")
    return service


def check_sums(service):
    """In a range that is over, Total and the services are the same."""
    until = int(time.time())
    words = ("--from", str(until - 3600), "--until", str(until))
    check.until(lambda: int(time.time()) > until, what="the end of the range")
    services = service.services(*words)
    check.equal(service.total(None, *words), sum(services.values()), "the total of all services")


def test_each_kind_of_process_has_the_time_that_the_kernel_counts():
    service = begin("kinds")
    started = {name: start(name, kind) for name, kind in kinds(service.guest).items()}
    used = {name: end(name, started[name]) for name in sorted(started, key=lambda name: "kill" not in name)}
    in_group = GROUP.used_s()
    if in_group is not None:
        check.near(in_group, used["space"], 0.1, "the time of the control group")
    check_times(service, used)
    service.end()  # stores what is open
    service = Service(0, "kinds", RATE)
    check_times(service, used)
    check_sums(service)
    service.end()


def most_memory_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)) / 1024


def flood(letter):
    """Thousands of short processes: as many names as the history keeps apart, half as many again, and children without a name of
    their own. Returns {kind: the CPU time that the kernel counts}."""
    prefix = os.path.join(stack.WORK, f"{ID}{letter}")
    for number in range(NAMES):
        os.link(PLAIN, f"{prefix}{number + 1}")
    kinds_of_it = {f"names{letter}": ["names", str(FLOOD_S), str(NAMES), prefix], f"bomb{letter}": ["fork", str(FLOOD_S), str(BOMB)]}
    started = {name: start(name, ([], PLAIN, words)) for name, words in kinds_of_it.items()}
    return {name: end(name, process) for name, process in started.items()}


def test_a_flood_of_processes_and_names_takes_nothing_from_its_neighbour_and_little_memory():
    service = begin("flood")
    neighbour = start("honest", ([], PLAIN, ["burn", str(FLOOD_S)]))
    memory, used = [most_memory_mib(service.process.pid)], {}
    for letter in "pq":
        used.update(flood(letter))
        service.services()  # ends the open window
        memory.append(most_memory_mib(service.process.pid))
    used["honest"] = end("honest", neighbour)
    check_times(service, {"honest": used.pop("honest")})
    real, services = sum(used.values()), service.services()
    seen = sum(ns for name, ns in services.items() if re.fullmatch(rf"{ID}[pq]\d+|(names|bomb)[pq]-{ID}", name)) / 1e9
    other = services.get("(other)", 0) / 1e9  # names beyond the limit, and what ended before anybody knew its name
    print(f"{real:.3f} s, in the history {seen:.3f} s and {other:.3f} s of others, {len(services)} services; {memory} MiB", flush=True)
    assert -tolerance(real) - dropped_s(service) - other <= seen - real <= tolerance(real), (seen, real)
    assert len(services) <= MOST_SERVICES, len(services)
    if not check.is_sanitized(service.process.pid):
        assert memory[2] - memory[1] < MORE_MIB, memory
    check_sums(service)
    service.end()


check.main(globals())
