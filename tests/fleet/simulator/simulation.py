# SPDX-License-Identifier: Apache-2.0
"""A process of the simulator (simulator.c), and the comparison of its truth with what was stored."""

import json
import os
import subprocess

from tests.cli import check

SIMULATOR = os.path.abspath("tests/fleet/simulator/simulator")
SUMS = ("windows", "samples", "value")


class Simulator:
    """Commands are methods: simulator.kill(hosts=3), simulator.slow(hosts="0-9", value=50). See commands.h."""

    COMMANDS = ("kill", "step", "slow", "stall", "down", "disconnect", "repeat", "garbage", "keep", "lose", "double")

    def __init__(self, hosts, seed=1, **flags):
        self.folder = check.short_folder()
        self.list = f"{self.folder}/hosts.txt"
        words = [f"--{name.replace('_', '-')}={value}" for name, value in {"hosts": hosts, "seed": seed, **flags}.items()]
        self.process = subprocess.Popen([SIMULATOR, "--list", self.list, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.address = self._answer("grpc: ")
        with open(self.list, encoding="ascii") as file:
            self.addresses = [line.split()[0] for line in file]
        for name in self.COMMANDS:
            setattr(self, name, lambda hosts, value=0, name=name: self.command(f"{name} {hosts} {value}"))

    def _answer(self, start):
        line = self.process.stdout.readline()
        assert line.startswith(start), f"the simulator answers {line!r}"
        return line[len(start):].strip()

    def command(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._answer("ok")

    def advance(self, seconds):
        self.command(f"advance {seconds}")

    def status(self):
        return json.loads(self.command("status"))

    def truth(self):
        self.command(f"truth {self.folder}/truth.json")
        with open(f"{self.folder}/truth.json", encoding="ascii") as file:
            return json.load(file)

    def stop(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(60)
        self.process.stdout.close()
        assert self.process.returncode == 0, f"the simulator ended with {self.process.returncode}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def expected(truth, is_stored):
    """The sums by (service, event), with those doubtful windows that is_stored(doubt) finds in the store."""
    sums = {(row["service"], row["event"]): dict(row["sums"]) for row in truth["services"]}
    for doubt in truth["doubts"]:
        if is_stored(doubt):
            row = sums.setdefault((doubt["service"], doubt["event"]), dict.fromkeys(SUMS, 0))
            for name in SUMS:
                row[name] += doubt["sums"][name]
    return sums


def differences(wanted, stored):
    """A line for each sum that is not as it must be."""
    lines = []
    for key in sorted(set(wanted) | set(stored)):
        for name in SUMS:
            must, found = wanted.get(key, {}).get(name, 0), stored.get(key, {}).get(name, 0)
            if must != found:
                lines.append(f"{' '.join(key)}: {name} is {found}, not {must} ({found - must:+})")
    return lines
