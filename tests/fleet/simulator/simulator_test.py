# SPDX-License-Identifier: Apache-2.0
"""Simulated hosts with a collector in Python: whatever is done to them, the sums of what was collected are the simulator's; and
when the simulator lies, they are not."""

import grpc

from tests.cli import check
from tests.fleet.collector import Call, Store
from tests.fleet.simulator.simulation import Simulator, differences, expected

SETTINGS = {"rules": [{"service": "*", "probability": 1}]}
HOSTS = 12


def connect(simulator, store, hosts=None, **more):
    calls = [Call(address, store, SETTINGS, **more) for address in (hosts or simulator.addresses)]
    check.until(lambda: all(call.hello for call in calls), 60, "the hosts' hello")
    return calls


def end(calls):
    for call in calls:
        call.end()


def drained(simulator):
    check.until(lambda: simulator.status()["kept"] == 0, 60, "the last acknowledgement")


def compare(simulator, store):
    return differences(expected(simulator.truth(), store.has), store.sums())


def test_what_is_collected_is_what_was_recorded():
    with Simulator(HOSTS, seed=3) as simulator:
        store = Store()
        calls = connect(simulator, store)
        for _ in range(5):
            simulator.advance(10)
        drained(simulator)
        check.equal(len(store.windows), HOSTS * 3 * 5, "the windows")
        check.equal(compare(simulator, store), [], "the differences")
        check.equal(sorted(call.hello.host for call in calls), [f"host-{number:05}" for number in range(HOSTS)])
        end(calls)


def test_windows_are_kept_until_they_are_acknowledged():
    with Simulator(HOSTS) as simulator:
        store = Store()
        calls = connect(simulator, store, acknowledges=False)
        simulator.advance(30)
        check.until(lambda: len(store.windows) == HOSTS * 9, 60, "the windows")
        simulator.repeat("all")
        check.until(lambda: store.duplicates == HOSTS * 9, 60, "the repetitions")
        simulator.disconnect("all")
        check.until(lambda: all(call.error for call in calls), 60, "the ends of the calls")
        check.equal({call.error for call in calls}, {grpc.StatusCode.UNAVAILABLE}, "the status")
        end(calls)
        simulator.advance(30)
        again = connect(simulator, store)
        drained(simulator)
        check.equal(store.duplicates, HOSTS * 18, "the duplicates")
        check.equal(compare(simulator, store), [], "the differences")
        end(again)


def test_a_later_call_displaces_the_earlier():
    with Simulator(1) as simulator:
        store = Store()
        (first,) = connect(simulator, store)
        (second,) = connect(simulator, store)
        check.until(lambda: first.error, 60, "the end of the first call")
        check.equal(first.error, grpc.StatusCode.ABORTED, "the status")
        simulator.advance(10)
        drained(simulator)
        check.equal(compare(simulator, store), [], "the differences")
        end([first, second])


def test_hosts_that_are_killed_step_their_clocks_or_are_slow_are_accounted_for():
    with Simulator(HOSTS) as simulator:
        store = Store()
        calls = connect(simulator, store)
        simulator.slow("4-5", 30)
        simulator.stall(6, 1)
        simulator.step("2-3", 3600)
        simulator.step(7, -3600)
        for _ in range(4):
            simulator.advance(10)
        simulator.kill("0-1")
        simulator.stall(6, 0)
        simulator.slow("all", 0)
        check.until(lambda: calls[0].error and calls[1].error, 60, "the ends of the calls")
        calls += connect(simulator, store, simulator.addresses[:2])
        check.equal([call.hello.epoch for call in calls[-2:]], [2, 2], "the epochs")
        simulator.advance(20)
        drained(simulator)
        check.equal(compare(simulator, store), [], "the differences")
        end(calls)


def test_a_full_memory_merges_drops_and_says_so():
    with Simulator(2) as simulator:
        store = Store()
        calls = connect(simulator, store)
        simulator.keep("all", 20000)
        simulator.stall("all", 1)
        for _ in range(200):
            simulator.advance(10)
        simulator.stall("all", 0)
        drained(simulator)
        status = simulator.status()
        assert status["merged"] > 0 and status["lost_by_memory"] > 0, status
        check.until(lambda: sum(drop.count for call in calls for drop in call.status.lost) == status["lost_by_memory"], 60,
                    "the report of what was lost")
        check.equal(compare(simulator, store), [], "the differences")
        end(calls)


def test_stacks_are_sent_again_on_request():
    with Simulator(1) as simulator:
        store = Store()
        (call,) = connect(simulator, store)
        simulator.advance(10)
        drained(simulator)
        check.equal(set(store.stacks.values()), {1}, "how often stacks were defined")
        wanted = sorted(store.stacks)[:5]
        call.resend(wanted)
        check.until(lambda: all(store.stacks[stack] == 2 for stack in wanted), 60, "the definitions")
        check.equal(sum(store.stacks.values()), len(store.stacks) + 5, "all definitions")
        end([call])


def test_lies_are_found():
    for lie, change in (("lose", -1), ("double", 1)):
        with Simulator(HOSTS) as simulator:
            store = Store()
            calls = connect(simulator, store)
            simulator.advance(20)
            getattr(simulator, lie)(3)
            simulator.advance(20)
            drained(simulator)
            found = compare(simulator, store)
            check.equal(len(found), 3, f"the differences after {lie}: {found}")
            check.contains(found[0], f"({change:+})")
            end(calls)


check.main(globals())
