# SPDX-License-Identifier: Apache-2.0
"""How sonde-collect begins with many hosts."""

import signal
import socket
import time

from tests.cli import check
from tests.fleet.parts import Collect
from tests.rpc.history.deliveries import History

HOSTS, MAX_WAITING = 2000, 256


def write_hosts(path, port):
    with open(path, "w", encoding="ascii") as file:
        file.writelines(f"127.1.{number // 250}.{number % 250 + 1}:{port}\n" for number in range(HOSTS))


def test_hosts_that_do_not_answer_are_called_256_at_a_time():
    folder = check.short_folder()
    with socket.socket() as silent:
        silent.bind(("0.0.0.0", 0))
        silent.listen(4096)
        write_hosts(f"{folder}/hosts.txt", silent.getsockname()[1])
        collect = Collect(f"{folder}/hosts.txt", [History()])
        collect.start()
        try:
            counts, end = [0], time.monotonic() + 60
            while max(counts) < MAX_WAITING and time.monotonic() < end or len(counts) < 50:
                counts.append(collect.metric('sonde_collect_hosts{state="connecting"}'))
                time.sleep(0.1)
            check.equal(max(counts), MAX_WAITING, "the calls that wait for an answer at the same time")
        finally:
            check.equal(collect.end(signal.SIGTERM), 0, "the status of sonde-collect")


check.main(globals())
