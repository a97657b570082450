# SPDX-License-Identifier: Apache-2.0
"""Two sonde-collect share the hosts of a fleet. Hosts move between them when one is killed, returns or stops: each window is stored
once, and each host always has a controller again soon."""

import signal

from tests.cli import check
from tests.fleet.parts import Collect, Fleet

HOSTS = 40
GROUP = ("--group", "test", "--lease-s", "5")
CONNECTED = 'sonde_collect_hosts{state="connected"}'
ELSEWHERE = 'sonde_collect_hosts{state="elsewhere"}'


def until_shared(fleet, *collects):
    """Waits until these have all hosts, each a part."""
    def is_so():
        parts = [collect.metric(CONNECTED) for collect in collects]
        return sum(parts) == HOSTS and min(parts) > 0 and all(collect.metric(ELSEWHERE) == HOSTS - part
                                                              for collect, part in zip(collects, parts))
    check.until(is_so, 120, f"{len(collects)} controllers that share the hosts")
    fleet.connected()


def test_hosts_move_between_controllers_and_no_window_is_lost_or_stored_twice():
    with Fleet(HOSTS, ("--name", "a", *GROUP)) as fleet:
        first, second = fleet.collect, Collect(fleet.simulator.list, fleet.histories, "--name", "b", *GROUP)
        second.start()
        try:
            until_shared(fleet, first, second)
            fleet.pass_windows(3)
            first.end(signal.SIGKILL)
            fleet.pass_windows(3)
            until_shared(fleet, second)
            fleet.pass_windows(3)
            first.start()
            until_shared(fleet, first, second)
            fleet.pass_windows(3)
            check.equal(second.end(signal.SIGTERM), 0, "the end of one of them")
            fleet.pass_windows(3)
            until_shared(fleet, first)
            fleet.pass_windows(1)
            second.start()  # it may have stopped before it had delivered everything
            fleet.settle()
            check.until(lambda: second.metric("sonde_collect_lag_seconds") == 0, 60, "the delivery of the other spool")
            fleet.settle()
            fleet.compare()
        finally:
            if second.process.poll() is None:
                second.end(signal.SIGKILL)


def test_a_lone_controller_without_history_takes_the_hosts_after_some_time():
    with Fleet(3, ("--name", "a", *GROUP)) as fleet:
        fleet.connected()
        fleet.collect.end(signal.SIGKILL)
        for history in fleet.histories:
            history.process.kill()
            history.process.communicate()
        fleet.collect.start()
        check.until(lambda: fleet.simulator.status()["connected"] == 3, 60, "the hosts without History")
        fleet.pass_windows(2)
        for history in fleet.histories:
            history.start()
        fleet.settle()
        fleet.compare()


check.main(globals())
