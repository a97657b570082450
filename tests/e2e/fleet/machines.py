# SPDX-License-Identifier: Apache-2.0
"""Machines of a fleet, on one: several sonded, sonde-collect, sonde-history over SQLite, and a program whose CPU time is known."""

import os
import re
import shutil
import signal
import subprocess

from tests.cli import check
from tests.e2e import stack

stack.install()
BIN = os.path.join(stack.PREFIX, "bin")
HISTORY = "unix:" + os.path.join(stack.WORK, "history.sock")
HOSTS = os.path.join(stack.WORK, "hosts.txt")
SPOOL = os.path.join(stack.WORK, "spool")
NAME = f"demo-{os.getpid()}"
DEMO = os.path.join(stack.WORK, NAME)
shutil.copy("clients/demo/demo", DEMO)


class Program:
    """A program of Sonde; its errors go to a file."""

    def __init__(self, name, *flags, ready="grpc: ", **variables):
        self.log = os.path.join(stack.WORK, f"{name}.log")
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([os.path.join(BIN, name), *flags], env={**stack.environment(), **variables},
                                            stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        line = self.process.stdout.readline()
        assert ready in line, self.logged()
        self.ready = line.strip()

    def logged(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=40)
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()


def start_sonded(machine, *flags):
    folder = os.path.join(stack.WORK, machine)
    os.makedirs(folder, exist_ok=True)
    return Program("sonded", "--socket", f"{folder}/guest.sock", "--grpc", f"unix:{folder}/grpc.sock", "--data-dir", f"{folder}/data",
                   "--collect-max-hz", "199", *flags)


def start_collect(*flags, hosts=("--hosts", HOSTS), ready="running", **variables):
    return Program("sonde-collect", *hosts, "--history", HISTORY, "--spool", SPOOL, "--frequency", "199", "--window-s", "5",
                   "--guests", *flags, ready=ready, **variables)


def start_history():
    return Program("sonde-history", "--store", "sqlite:" + os.path.join(stack.WORK, "store"), "--grpc", HISTORY)


def start_demo(machine, seconds):
    env = {**stack.environment(), "LD_PRELOAD": os.path.join(stack.PREFIX, "lib/libsonde.so"),
           "SONDE_SOCKET": os.path.join(stack.WORK, machine, "guest.sock")}
    return subprocess.Popen([DEMO, "-t", "1", "-s", str(seconds), "--tick"], env=env, stdout=subprocess.PIPE, text=True)


def clock_ns(demo):
    out, _ = demo.communicate(timeout=60)
    return int(re.search(r"process_cpu_ns (\d+)", out).group(1))


def write_hosts(*machines):
    with open(HOSTS + ".new", "w", encoding="utf-8") as hosts:
        hosts.write("# the fleet\n")
        for machine in machines:
            hosts.write(f"unix:{stack.WORK}/{machine}/grpc.sock name={machine} machine={machine}\n")
    os.rename(HOSTS + ".new", HOSTS)


def stored_ns(machine, label="machine"):
    """What History has of a machine, in nanoseconds."""
    done = subprocess.run([stack.SONDE, "history", NAME, "--merge-threads", "--format", "collapsed", "--from", "-1h", "--service",
                           HISTORY, "--selector", f"{label} = '{machine}'"], env=stack.environment(), capture_output=True, text=True,
                          timeout=30, check=False)
    return sum(int(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()) if done.returncode == 0 else 0


def until_stored(machine, expected_ns, label="machine"):
    check.until(lambda: stored_ns(machine, label) >= 0.85 * expected_ns, seconds=60, what=f"the windows of {machine}")


def refused(*flags, program="sonde-collect"):
    done = subprocess.run([os.path.join(BIN, program), *flags], env=stack.environment(), capture_output=True, text=True,
                          timeout=30, check=False)
    assert done.returncode != 0, done.stdout
    return done.stderr
