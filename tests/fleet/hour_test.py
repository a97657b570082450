# SPDX-License-Identifier: Apache-2.0
"""A thousand simulated hosts, two sonde-collect that share them, two sonde-history, and a 2x2 ClickHouse with ZooKeeper. Every part is
killed, the store is away for an hour of the hosts' time, and one spool becomes full. In the end the sums are exact."""

import signal
import time

from tests.cli import check
from tests.fleet.cluster import Cluster
from tests.fleet.parts import Collect, Fleet
from tests.fleet.sums_test import heal_hosts, hurt_hosts

HOSTS = 1000
GROUP = ("--group", "hour", "--lease-s", "5")
HOUR = 360  # windows


class Story:
    """What happens, with the time that it took."""

    def __init__(self, fleet, second):
        self.fleet, self.second, self.began = fleet, second, time.monotonic()

    def say(self, what, windows, delivered=False):
        self.fleet.pass_windows(windows)
        if delivered:
            check.until(lambda: all(each.metric("sonde_collect_lag_seconds") == 0 for each in (self.fleet.collect, self.second)),
                        self.fleet.patience, "the delivery of both spools")
        print(f"{time.monotonic() - self.began:6.0f} s: {what}", flush=True)

    def shared(self):
        collects = (self.fleet.collect, self.second)
        check.until(lambda: sum(each.metric('sonde_collect_hosts{state="connected"}') for each in collects) == HOSTS,
                    self.fleet.patience, "controllers that share the hosts")


def hurt_everything(fleet, second, story):
    story.shared()
    story.say("all is well", 6, delivered=True)
    hurt_hosts(fleet.simulator)
    story.say("hosts are slow, stalled, cut off, repeat themselves, or have wrong clocks", 6)
    fleet.collect.end(signal.SIGKILL)
    story.say("a controller was killed", 6)
    fleet.collect.start()
    fleet.simulator.kill("0-49")
    fleet.simulator.down("900-949", 1)
    story.say("fifty sonded were killed, fifty machines are away", 6, delivered=True)
    fleet.clickhouse.synchronize()
    fleet.clickhouse.kill(1, 2)
    story.say("a replica of each shard was killed", 12, delivered=True)
    fleet.histories[0].stop(signal.SIGKILL)
    story.say("a sonde-history was killed", 6, delivered=True)
    fleet.histories[0].start()
    fleet.clickhouse.start()
    story.say("they are back", 6)
    fleet.clickhouse.kill()
    story.say("the store was away for an hour", HOUR)
    spools = [each.metric("sonde_collect_spool_bytes") for each in (fleet.collect, second)]
    print(f"the spools have {spools[0] / 2**20:.0f} and {spools[1] / 2**20:.0f} MiB")
    assert second.metric("sonde_collect_spool_blocked") == 1, "the smaller spool is not full"
    fleet.collect.end(signal.SIGKILL)
    second.end(signal.SIGKILL)
    fleet.collect.start()
    second.start()
    heal_hosts(fleet.simulator)
    fleet.clickhouse.start()
    story.say("the store is back, both controllers were killed", 6)


def test_the_sums_of_an_hour_are_exact():
    with Fleet(HOSTS, ("--name", "a", *GROUP), store=Cluster, patience=1800) as fleet:
        second = Collect(fleet.simulator.list, fleet.histories, "--name", "b", "--spool-mib", "32", *GROUP)
        second.start()
        story = Story(fleet, second)
        try:
            hurt_everything(fleet, second, story)
            story.shared()
            fleet.settle()
            story.say("everything is delivered", 0, delivered=True)
            fleet.compare()
            for each in (fleet.collect, second):
                check.equal(each.end(signal.SIGTERM), 0, "the status of a controller")
        finally:
            if second.process.poll() is None:
                second.end(signal.SIGKILL)
            fleet.clickhouse.zookeeper.kill()


if __name__ == "__main__":
    check.main(globals())
