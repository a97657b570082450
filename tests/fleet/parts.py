# SPDX-License-Identifier: Apache-2.0
"""The parts of a fleet on one machine: simulated hosts, sonde-collect, two sonde-history, ClickHouse."""

import os
import re
import signal
import subprocess
import urllib.request

from tests.cli import check
from tests.fleet.simulator.simulation import Simulator, differences, expected
from tests.rpc.history.clickhouse_server import ClickHouse
from tests.rpc.history.deliveries import ENVIRONMENT, History

COLLECT = os.path.abspath("clients/collect/sonde-collect")
BY_SERVICE = ("SELECT service, event, count(), sum(samples), sum(arraySum(s.value)) FROM sonde.samples GROUP BY service, event")


class Collect:
    """sonde-collect, which may be killed and started again over its spool."""

    def __init__(self, hosts, histories, *flags):
        self.folder = check.short_folder()
        self.words = [COLLECT, "--hosts", hosts, "--spool", f"{self.folder}/spool", "--metrics", "127.0.0.1:0", "--breaker", "100",
                      "--no-totals", *flags]
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
    """All parts; each can be killed. The flags are the simulator's."""

    def __init__(self, hosts, collect_flags=(), store=ClickHouse, patience=180, **flags):
        self.hosts, self.collect_flags, self.store, self.patience, self.flags = hosts, collect_flags, store, patience, flags

    def __enter__(self):
        self.simulator = Simulator(self.hosts, seed=11, **self.flags)
        self.clickhouse = self.store()
        self.histories = [History(store=self.clickhouse.store) for _ in range(2)]
        for history in self.histories:
            history.start()
        self.collect = Collect(self.simulator.list, self.histories, *self.collect_flags)
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

    def connected(self, count=None):
        count = self.hosts if count is None else count
        check.until(lambda: self.simulator.status()["connected"] == count, self.patience, f"{count} connected hosts")

    def pass_windows(self, count):
        for _ in range(count):
            self.simulator.advance(10)

    def settle(self):
        """Waits until every window is acknowledged to its host, and the store has the whole spool."""
        check.until(lambda: self.simulator.status()["kept"] == 0, self.patience, "the last acknowledgement")
        check.until(lambda: self.collect.metric("sonde_collect_lag_seconds") == 0, self.patience, "the delivery of the spool")

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
