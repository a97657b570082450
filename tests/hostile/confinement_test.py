# SPDX-License-Identifier: Apache-2.0
"""sonded and the gateway give up what they never need, and work without it."""

import os

from tests.cli import check
from tests.e2e import stack


def status(pid, task):
    with open(f"/proc/{pid}/task/{task}/status", encoding="ascii", errors="replace") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def test_every_thread_is_confined_and_a_capture_works():
    with stack.Server(os.path.abspath("clients/demo/demo")) as server:
        names = [frame for frames, _ in server.stacks(seconds=1) for frame in frames]
        assert any("match_rules" in name for name in names), sorted(set(names))
        helpers = server.helpers()
        check.equal(sorted(helpers), ["sonde-gateway", "sonded"])
        for name, pid in helpers.items():
            for task in os.listdir(f"/proc/{pid}/task"):
                fields = status(pid, task)
                check.equal((fields["NoNewPrivs"], fields["Seccomp"]), ("1", "2"), f"{name}: {fields['Name']}")
        assert not any("unconfined" in line for line in server.err), server.err


stack.install()
check.main(globals())
