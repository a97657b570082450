# SPDX-License-Identifier: Apache-2.0
"""Prints what a fleet of simulated hosts costs sonde-collect, sonde-history and ClickHouse, and how long it takes to make up for an
hour without the store. Each host has one process with four busy cores at 19 Hz. The simulator runs beside the parts, so the
machine has less to give than one of its own would; CPU times are those of each part's process."""

import argparse
import os
import time

from tests.cli import check
from tests.fleet.parts import Fleet
from tests.fleet.simulation import differences, expected

WINDOW_S = 10
SAMPLES = 19 * 4 * WINDOW_S


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Meter:
    """CPU time of the parts and what arrived, since it was made."""

    def __init__(self, fleet):
        self.fleet, self.before, self.started = fleet, self.read(fleet), time.monotonic()

    @staticmethod
    def read(fleet):
        return {"collect": cpu_s(fleet.collect.process.pid), "history": sum(cpu_s(each.process.pid) for each in fleet.histories),
                "clickhouse": cpu_s(fleet.clickhouse.process.pid), "simulator": cpu_s(fleet.simulator.process.pid),
                "rows": fleet.collect.metric("sonde_collect_rows_total"), "bytes": fleet.simulator.status()["bytes"]}

    def used(self):
        now = self.read(self.fleet)
        return {name: now[name] - self.before[name] for name in now} | {"seconds": time.monotonic() - self.started}


def steady(fleet, seconds):
    """One window of each host per WINDOW_S of real time."""
    meter, end = Meter(fleet), time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        fleet.simulator.advance(WINDOW_S)
        time.sleep(max(0, WINDOW_S - (time.monotonic() - began)))
    used = meter.used()
    share = used["collect"] / used["seconds"]
    print(f"steady state, {used['seconds']:.0f} s: {used['rows'] / used['seconds']:,.0f} stack rows/s")
    for name in ("collect", "history", "clickhouse", "simulator"):
        print(f"  {name:<10} {100 * used[name] / used['seconds']:6.1f} % of a core")
    print(f"  streams per core of sonde-collect: {fleet.hosts / share:,.0f} (goal 10,000)")
    print(f"  memory of sonde-collect: {fleet.collect.metric('process_resident_memory_bytes') / 1e6:,.0f} MB (goal < 1,000)")
    print(f"  per target: {used['bytes'] / used['seconds'] / fleet.hosts:,.0f} B/s before compression (goal 200 on the wire)")


def outage(fleet, minutes):
    fleet.clickhouse.kill()
    for _ in range(minutes * 60 // WINDOW_S):
        fleet.simulator.advance(WINDOW_S)
    check.until(lambda: fleet.simulator.status()["kept"] == 0, 600, "the spool to have everything")
    spool = fleet.collect.metric("sonde_collect_spool_bytes")
    fleet.clickhouse.start()
    meter = Meter(fleet)
    fleet.settle()
    used = meter.used()
    print(f"{minutes} minutes without the store: spool {spool / 1e6:,.0f} MB (goal 150), replay {used['seconds']:.1f} s (goal 10), of which "
          f"a pause before the next try may be up to 30 s")
    for name in ("collect", "history", "clickhouse"):
        print(f"  {name:<10} {used[name]:6.1f} s of CPU time")


def compare(fleet):
    found = differences(expected(fleet.simulator.truth(), fleet.has), fleet.stored())
    print("sums: " + ("exact" if not found else "; ".join(found)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--outage-minutes", type=int, default=60)
    words = parser.parse_args()
    with Fleet(words.hosts, processes=1, samples=SAMPLES) as fleet:
        fleet.connected()
        print(f"{words.hosts} hosts are connected")
        for _ in range(6):
            fleet.simulator.advance(WINDOW_S)
        fleet.settle()
        steady(fleet, words.seconds)
        outage(fleet, words.outage_minutes)
        compare(fleet)


main()
