# SPDX-License-Identifier: Apache-2.0
"""Local users attack servers of others that are profiled by the same sonded, which is root's and serves everybody."""

import os

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import RPC, install, server, sonded, stop, targets

HONEST = os.path.join(stack.WORK, "honest.collapsed")


def record(name):
    """Captures a target by its name for a second and returns its stacks."""
    stack.sonde("record", name, "--service", RPC, "-d", "1", "-F", "499", "-o", HONEST)
    with open(HONEST, encoding="utf-8") as file:
        return file.read()


def test_another_user_cannot_take_a_servers_name():
    service, honest, squatter = sonded("--everybody"), server(uid=0, name="honest"), None
    try:
        check.until(lambda: "honest" in targets(), what="root's server")
        squatter = server(name="honest")
        check.until(lambda: targets().count("honest") == 2, what="the other user's server")
        check.contains(record("honest"), "burn")
        check.contains(stack.sonde("targets", "--service", RPC)[0], str(squatter.pid))
    finally:
        for process in filter(None, (squatter, honest, service)):
            stop(process)


install()
check.main(globals())
