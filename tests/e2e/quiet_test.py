# SPDX-License-Identifier: Apache-2.0
"""Symbolizing does not disturb the target: its memory, CPU time, page faults and context switches stay the same while 100,000
of its addresses are resolved."""

import os
import re
import time

from tests.cli import check
from tests.e2e import stack

COUNT = 100000
stack.install()


def state(pid):
    """The process's memory, and each thread's CPU ticks, page faults and context switches: they change as soon as it runs."""
    seen = {}
    for tid in sorted(os.listdir(f"/proc/{pid}/task")):
        with open(f"/proc/{pid}/task/{tid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        with open(f"/proc/{pid}/task/{tid}/status", encoding="utf-8") as file:
            switches = re.findall(r"ctxt_switches:\s*(\d+)", file.read())
        seen[tid] = {"faults": fields[7], "ticks": (fields[11], fields[12]), "switches": switches}
    with open(f"/proc/{pid}/statm", encoding="utf-8") as file:
        seen["pages"] = file.read().split()
    return seen


def at_rest(pid):
    before = state(pid)
    time.sleep(0.3)
    return state(pid) == before


def addresses(pid):
    """Addresses spread evenly over all code that is mapped from files."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        code = [line.split() for line in maps if " r-xp " in line and "/" in line]
    ranges = [tuple(int(part, 16) for part in words[0].split("-")) for words in code]
    step = sum(end - start for start, end in ranges) // COUNT
    return [at for start, end in ranges for at in range(start, end, max(step, 1))][:COUNT]


def test_resolving_a_hundred_thousand_addresses_leaves_the_target_at_rest():
    with stack.Server("sleep", "1000") as server:
        wanted = addresses(server.pid)
        assert len(wanted) > 0.9 * COUNT, len(wanted)
        body = "+".join(map(hex, wanted)).encode()
        check.until(lambda: at_rest(server.pid), what="a process at rest")
        before = state(server.pid)
        status, _, answer = server.get("/debug/pprof/symbol", method="POST", body=body)
        after = state(server.pid)
        check.equal(status, 200, "status")
        named = [line for line in answer.decode().splitlines() if not line.endswith("??")]
        assert len(named) > len(wanted) // 2, f"{len(named)} of {len(wanted)} have a name"
        check.equal(after, before, "the state of the process")


check.main(globals())
