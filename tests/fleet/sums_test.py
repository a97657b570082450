# SPDX-License-Identifier: Apache-2.0
"""A hundred simulated hosts, sonde-collect, and two sonde-history over one ClickHouse. Every part is killed, cut off, slowed down
or away for a while, and in the end the store has exactly the sums of what the hosts recorded: nothing is missing, nothing is twice."""

import signal

from tests.cli import check
from tests.fleet.parts import Fleet
from tests.fleet.simulator.simulation import differences, expected

HOSTS = 100


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
    with Fleet(HOSTS) as fleet:
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
    with Fleet(HOSTS) as fleet:
        fleet.connected()
        fleet.simulator.double(3)
        fleet.pass_windows(2)
        fleet.settle()
        found = differences(expected(fleet.simulator.truth(), fleet.has), fleet.stored())
        check.equal(len(found), 3, f"the differences: {found}")


if __name__ == "__main__":
    check.main(globals())
