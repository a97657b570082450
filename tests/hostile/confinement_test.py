# SPDX-License-Identifier: Apache-2.0
"""sonded, the gateway and sonde-history give up what they never need, and work without it."""

import os
import subprocess

from tests.cli import check
from tests.e2e import stack


def status(pid, task):
    with open(f"/proc/{pid}/task/{task}/status", encoding="ascii", errors="replace") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def check_confined(name, pid):
    """The main thread reports its addresses before it confines itself and all others."""
    check.until(lambda: status(pid, pid)["Seccomp"] == "2", what=f"the confinement of {name}")
    for task in os.listdir(f"/proc/{pid}/task"):
        fields = status(pid, task)
        check.equal((fields["NoNewPrivs"], fields["Seccomp"]), ("1", "2"), f"{name}: {fields['Name']}")


def test_every_thread_is_confined_and_a_capture_works():
    with stack.Server(os.path.abspath("clients/demo/demo")) as server:
        names = [frame for frames, _ in server.stacks(seconds=1) for frame in frames]
        assert any("match_rules" in name for name in names), sorted(set(names))
        helpers = server.helpers()
        check.equal(sorted(helpers), ["sonde-gateway", "sonded"])
        for name, pid in helpers.items():
            check_confined(name, pid)
        assert not any("unconfined" in line for line in server.err), server.err


def test_every_thread_of_sonde_history_is_confined_and_a_query_works():
    folder = check.short_folder()
    address = f"unix:{folder}/grpc"
    service = subprocess.Popen([f"{stack.PREFIX}/bin/sonde-history", "--store", f"sqlite:{folder}/store", "--grpc", address],
                               env=stack.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        check.equal(service.stdout.readline(), f"grpc: {address}\n")
        check.equal(stack.sonde("history", "--list", "--service", address)[0], "nothing was recorded in this time\n")
        check_confined("sonde-history", service.pid)
    finally:
        check.stop(service)
    check.equal(service.stderr.read(), "")


stack.install()
check.main(globals())
