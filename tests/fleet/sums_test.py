# SPDX-License-Identifier: Apache-2.0
"""A hundred simulated hosts, sonde-collect, and two sonde-history over one ClickHouse. Every part is killed, cut off, slowed down
or away for a while, and in the end the store has exactly the sums of what the hosts recorded: nothing is missing, nothing is twice."""

import os
import re
import signal
import subprocess
import urllib.request

from tests.cli import check
from tests.fleet.simulation import Simulator, differences, expected
from tests.rpc.clickhouse_server import ClickHouse
from tests.rpc.deliveries import ENVIRONMENT, History

COLLECT = os.path.abspath("clients/collect/sonde-collect")
HOSTS = 100
BY_SERVICE = ("SELECT service, event, count(), sum(samples), sum(arraySum(s.value)) FROM sonde.samples GROUP BY service, event")


class Collect:
    """sonde-collect, which may be killed and started again over its spool."""

    def __init__(self, hosts, histories):
        self.folder = check.short_folder()
        self.words = [COLLECT, "--hosts", hosts, "--spool", f"{self.folder}/spool", "--metrics", "127.0.0.1:0", "--breaker", "100",
                      "--no-totals"]
        for history in histories:
            self.words += ["--history", f"unix:{history.folder}/grpc"]

    def start(self):
        with open(f"{self.folder}/log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(self.words, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("metrics: "), f"sonde-collect says {line!r}"
        self.metrics = line.removeprefix("metrics: ").strip()

    def end(self, number):
        self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return self.process.returncode

    def metric(self, name):
        with urllib.request.urlopen(self.metrics, timeout=30) as answer:
            return float(re.search(rf"^{re.escape(name)} ([0-9.]+)$", answer.read().decode(), re.M).group(1))


class Fleet:
    """All parts; each can be killed."""

    def __enter__(self):
        self.simulator = Simulator(HOSTS, seed=11)
        self.clickhouse = ClickHouse()
        store = f"clickhouse:http://127.0.0.1:{self.clickhouse.port}/sonde"
        self.histories = [History(store=store) for _ in range(2)]
        for history in self.histories:
            history.start()
        self.collect = Collect(self.simulator.list, self.histories)
        self.collect.start()
        return self

    def __exit__(self, *_):
        self.collect.process.kill()
        self.collect.process.communicate()
        for history in self.histories:
            history.process.kill()
            history.process.communicate()
        self.clickhouse.kill()
        self.simulator.stop()

    def connected(self, count=HOSTS):
        check.until(lambda: self.simulator.status()["connected"] == count, 120, f"{count} connected hosts")

    def pass_windows(self, count):
        for _ in range(count):
            self.simulator.advance(10)

    def settle(self):
        """Waits until every window is acknowledged to its host, and the store has the whole spool."""
        check.until(lambda: self.simulator.status()["kept"] == 0, 180, "the last acknowledgement")
        check.until(lambda: self.collect.metric("sonde_collect_lag_seconds") == 0, 180, "the delivery of the spool")

    def stored(self):
        return {(row[0], row[1]): dict(zip(("windows", "samples", "value"), map(int, row[2:])))
                for row in self.clickhouse.query(BY_SERVICE)}

    def has(self, doubt):
        (row,) = self.clickhouse.query("SELECT count() FROM sonde.samples WHERE instance = '{instance}' AND event = '{event}' AND "
                                       "toUInt32(ts) = {begin_unix_s}".format(**doubt))
        return row[0] != "0"

    def compare(self):
        truth = self.simulator.truth()
        check.equal(differences(expected(truth, self.has), self.stored()), [], "the differences")
        twice = self.clickhouse.query("SELECT count() FROM (SELECT source, epoch, seq FROM sonde.samples GROUP BY source, epoch, seq "
                                      "HAVING count() > 1)")
        check.equal(twice, [["0"]], "windows that are there twice")
        check.equal(self.collect.metric('sonde_collect_lost_windows_total{cause="history:refused"}'), 0, "refused windows")


def hurt_hosts(simulator):
    simulator.slow("50-59", 20)
    simulator.stall("40-44", 1)
    simulator.step("60-69", 3600)
    simulator.step("70-74", -3600)
    simulator.disconnect("10-29")
    simulator.repeat("75-89")


def heal_hosts(simulator):
    simulator.slow("all", 0)
    simulator.stall("all", 0)
    simulator.down("all", 0)


def test_the_sums_are_exact_whatever_dies():
    with Fleet() as fleet:
        fleet.connected()
        fleet.pass_windows(3)
        hurt_hosts(fleet.simulator)
        fleet.pass_windows(3)
        fleet.collect.end(signal.SIGKILL)
        fleet.pass_windows(2)
        fleet.collect.start()
        fleet.simulator.kill("0-4")
        fleet.simulator.down("90-94", 1)
        fleet.connected(HOSTS - 5)
        fleet.pass_windows(3)
        fleet.histories[0].stop(signal.SIGKILL)
        fleet.pass_windows(3)
        fleet.clickhouse.kill()
        fleet.pass_windows(30)
        check.until(lambda: fleet.collect.metric("sonde_collect_history_away") == 1, 60, "a store that is away")
        fleet.collect.end(signal.SIGKILL)
        fleet.collect.start()
        heal_hosts(fleet.simulator)
        fleet.clickhouse.start()
        fleet.histories[0].start()
        fleet.connected()
        fleet.pass_windows(3)
        fleet.settle()
        fleet.compare()
        status = fleet.simulator.status()
        assert status["acknowledged"] > HOSTS * 3 * 30 and status["lost_by_memory"] == 0, status
        check.equal(fleet.collect.end(signal.SIGTERM), 0, "the status of sonde-collect")


def test_a_lie_of_a_host_is_found():
    with Fleet() as fleet:
        fleet.connected()
        fleet.simulator.double(3)
        fleet.pass_windows(2)
        fleet.settle()
        found = differences(expected(fleet.simulator.truth(), fleet.has), fleet.stored())
        check.equal(len(found), 3, f"the differences: {found}")


check.main(globals())
