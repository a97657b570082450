# SPDX-License-Identifier: Apache-2.0
"""Prints what a fleet of simulated hosts costs sonde-collect, sonde-history and ClickHouse, how many hosts one controller can have,
and how an hour without the store is made up for; and then the goals, beside what was measured. The simulator runs beside the parts.
Rates per core are per second of a part's CPU time, so other programs on the machine hardly change them; times do change."""

import argparse
import os
import re
import subprocess
import time

from tests.cli import check
from tests.fleet.parts import Fleet
from tests.fleet.simulator.simulation import differences, expected

WINDOW_S = 10
WARM_UP = 12  # windows; then nearly all stacks of the hosts are known
# Processes of a host, samples of each in 10 s, and the length of a window. always: 19 Hz on four busy cores. duty: 250 samples a
# minute, from a tenth of the processes of a host with 2.2 busy cores.
REGIMES = {"always": (1, 19 * 4 * WINDOW_S, 10), "duty": (5, 8, 60)}


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def sent_bytes(address):
    """What the simulator has sent over its connections, as TCP counts it."""
    port = address.rpartition(":")[2]
    out = subprocess.run(["ss", "-Htin", "state", "established", f"( sport = :{port} )"], check=True, capture_output=True, text=True)
    return sum(map(int, re.findall(r" bytes_sent:(\d+)", out.stdout)))


class Meter:
    """CPU time of the parts and what arrived, since it was made."""

    def __init__(self, fleet):
        self.fleet, self.before, self.started = fleet, self.read(fleet), time.monotonic()

    @staticmethod
    def read(fleet):
        return {"collect": cpu_s(fleet.collect.process.pid), "history": sum(cpu_s(each.process.pid) for each in fleet.histories),
                "clickhouse": cpu_s(fleet.clickhouse.process.pid), "simulator": cpu_s(fleet.simulator.process.pid),
                "rows": fleet.collect.metric("sonde_collect_rows_total"), "wire": sent_bytes(fleet.simulator.address)}

    def used(self):
        now = self.read(self.fleet)
        return {name: now[name] - self.before[name] for name in now} | {"seconds": time.monotonic() - self.started}


class Goals:
    def __init__(self):
        self.lines = []

    def add(self, what, value, goal, at_most, form="{:,.0f}"):
        is_met = value <= goal if at_most else value >= goal
        self.lines.append(f"  {'met   ' if is_met else 'MISSED'} {what}: {form.format(value)} "
                          f"(at {'most' if at_most else 'least'} {form.format(goal)})")

    def print(self):
        print("goals of collection:")
        print("\n".join(self.lines), flush=True)


def fleet_of(hosts, regime):
    processes, samples, window_s = REGIMES[regime]
    return Fleet(hosts, ("--window-s", str(window_s)), patience=1800, processes=processes, samples=samples)


def steady(fleet, windows, goals):
    """One window of each host per WINDOW_S of real time. Returns what sonde-collect used."""
    meter = Meter(fleet)
    for _ in range(windows):
        began = time.monotonic()
        fleet.simulator.advance(WINDOW_S)
        time.sleep(max(0, WINDOW_S - (time.monotonic() - began)))
    fleet.settle()
    used, simulated_s = meter.used(), windows * WINDOW_S
    streams = fleet.hosts * simulated_s / used["collect"]
    memory = fleet.collect.metric("process_resident_memory_bytes")
    wire = used["wire"] / simulated_s / fleet.hosts
    shares = ", ".join(f"{name} {100 * used[name] / simulated_s:.1f} %" for name in ("collect", "history", "clickhouse", "simulator"))
    print(f"{fleet.hosts:6,} streams: {used['rows'] / simulated_s:9,.0f} rows/s; of a core: {shares}; sonde-collect: {memory / 1e6:,.0f} MB, "
          f"{fleet.collect.metric('process_open_fds'):,.0f} descriptors; {wire:.0f} B/s on the wire per host "
          f"({used['seconds']:.0f} s for {simulated_s} s)", flush=True)
    goals.add(f"streams per core of sonde-collect, with {fleet.hosts:,}", streams, 10000, False)
    goals.add(f"memory of sonde-collect with {fleet.hosts:,} streams, MB", memory / 1e6, 1000, True)
    goals.add(f"bytes/s on the wire for each of {fleet.hosts:,} hosts", wire, 200, True)


def scale(counts, windows, goals):
    for hosts in counts:
        with fleet_of(hosts, "always") as fleet:
            began = time.monotonic()
            fleet.connected()
            print(f"{hosts:6,} hosts were connected after {time.monotonic() - began:.0f} s", flush=True)
            for _ in range(WARM_UP):
                fleet.simulator.advance(WINDOW_S)
                check.until(lambda: fleet.simulator.status()["kept"] == 0, fleet.patience, "the windows")
            fleet.settle()
            steady(fleet, windows, goals)
            compare(fleet)


def until_moving(fleet, before):
    """Waits until something is delivered again: a try may be up to 30 s away."""
    check.until(lambda: fleet.collect.metric("sonde_collect_stored_windows_total") > before, 120, "a delivery")


def outage(fleet, regime, minutes, goals):
    stored = fleet.collect.metric("sonde_collect_stored_windows_total")
    rows = fleet.collect.metric("sonde_collect_rows_total")
    fleet.clickhouse.kill()
    for _ in range(minutes * 60 // WINDOW_S):
        fleet.simulator.advance(WINDOW_S)
    check.until(lambda: fleet.simulator.status()["kept"] == 0, fleet.patience, "the spool to have everything")
    rows = fleet.collect.metric("sonde_collect_rows_total") - rows
    spool = fleet.collect.metric("sonde_collect_spool_bytes")
    fleet.clickhouse.start()
    meter = Meter(fleet)
    until_moving(fleet, stored)
    began = time.monotonic()
    fleet.settle()
    seconds, used = time.monotonic() - began, meter.used()
    print(f"{minutes} minutes without the store, {fleet.hosts:,} hosts, {regime}: spool {spool / 1e6:,.0f} MB for {rows:,.0f} rows; made up for in "
          f"{seconds:.1f} s, with " + ", ".join(f"{used[name]:.1f} s of {name}'s CPU time" for name in ("collect", "history", "clickhouse")),
          flush=True)
    goals.add(f"rows per second of sonde-history's CPU time, {regime}, in millions", rows / used["history"] / 1e6, 1, False, "{:.1f}")
    goals.add(f"rows per second of ClickHouse's CPU time, {regime}, in millions", rows / used["clickhouse"] / 1e6, 2, False, "{:.1f}")
    if regime == "duty":
        goals.add(f"spool for {minutes} minutes, {regime}, MB", spool / 1e6, 150 * minutes / 60, True)
        goals.add(f"making up for {minutes} minutes, {regime}, s", seconds, 10 * minutes / 60, True, "{:.1f}")


def compare(fleet):
    found = differences(expected(fleet.simulator.truth(), fleet.has), fleet.stored())
    print("       sums: " + ("exact" if not found else "; ".join(found)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    # 19 Hz, four busy cores, one process per host, and windows of 10 s
    parser.add_argument("--streams", type=int, nargs="*", default=[1000, 2000, 5000, 10000], help="hosts that are always on")
    parser.add_argument("--windows", type=int, default=6, help="of each in the steady state")
    parser.add_argument("--regimes", nargs="*", choices=sorted(REGIMES), default=["duty", "always"], help="of the outages")
    parser.add_argument("--hosts", type=int, default=1000, help="in an outage")
    parser.add_argument("--outage-minutes", type=int, default=60)
    words, goals = parser.parse_args(), Goals()
    scale(words.streams, words.windows, goals)
    for regime in words.regimes:
        with fleet_of(words.hosts, regime) as fleet:
            fleet.connected()
            for _ in range(WARM_UP):
                fleet.simulator.advance(WINDOW_S)
            fleet.settle()
            outage(fleet, regime, words.outage_minutes, goals)
            compare(fleet)
    goals.print()


main()
