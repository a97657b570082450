# SPDX-License-Identifier: Apache-2.0
"""sonde-history over a ClickHouse server that is killed: nothing that was acknowledged is lost, and nothing counts twice."""

import os
import signal
import subprocess
import urllib.request

import grpc

from tests.cli import check
from tests.rpc.deliveries import History, delivery, total

PROGRAM = "/usr/sbin/clickhouse-server"
CONFIGURATION = """<yandex><logger><level>warning</level><log>{0}/log</log><errorlog>{0}/errors</errorlog></logger>
<listen_host>127.0.0.1</listen_host><http_port>{1}</http_port><tcp_port>{2}</tcp_port><path>{0}/data/</path>
<tmp_path>{0}/tmp/</tmp_path><users_config>users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><timezone>UTC</timezone><mark_cache_size>67108864</mark_cache_size></yandex>"""
USERS = """<yandex><profiles><default><max_threads>2</max_threads></default></profiles><users><default><password></password>
<networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
<quotas><default></default></quotas></yandex>"""


class ClickHouse:
    def __init__(self):
        self.folder, self.port = check.short_folder(), check.free_port()
        for name, text in (("config.xml", CONFIGURATION.format(self.folder, self.port, check.free_port())), ("users.xml", USERS)):
            with open(f"{self.folder}/{name}", "w", encoding="ascii") as file:
                file.write(text)
        self.start()

    def start(self):
        self.process = subprocess.Popen([PROGRAM, f"--config-file={self.folder}/config.xml"], cwd=self.folder,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        check.until(self.answers, 60, "an answer of ClickHouse")

    def answers(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=10) as answer:
                return answer.status == 200
        except OSError:
            return False

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def acknowledged(service, first):
    """Writes windows until the call fails; returns the number after the last one that was acknowledged."""
    after = first
    try:
        for answer in service.Write((delivery(number) for number in range(first, 1_000_000)), timeout=60):
            after = answer.delivery + 1
            if after == first + 4:
                yield after
    except grpc.RpcError as error:
        check.equal(error.code(), grpc.StatusCode.UNAVAILABLE, "the status of Write")
    yield after


def test_a_server_that_is_killed_loses_and_doubles_nothing():
    if not os.access(PROGRAM, os.X_OK):
        raise check.Skip("clickhouse-server is not installed")
    server = ClickHouse()
    try:
        with History(store=f"clickhouse:http://127.0.0.1:{server.port}/sonde") as history:
            writing = acknowledged(history.service, 0)
            next(writing)
            server.kill()
            after = next(writing)
            assert after >= 4, after
            try:
                total(history.service)
                raise AssertionError("a query of a server that is gone succeeds")
            except grpc.RpcError as error:
                check.equal(error.code(), grpc.StatusCode.UNAVAILABLE, "the status of QueryTop")
            server.start()
            assert after <= total(history.service) // 1_000_000 <= after + 1
            answers = list(history.service.Write((delivery(number) for number in range(after + 2)), timeout=60))
            check.equal(sum(answer.stored + answer.duplicates for answer in answers), after + 2, "the windows")
            assert sum(answer.duplicates for answer in answers) >= after
            check.equal(total(history.service), (after + 2) * 1_000_000, "the sum")
            (service,) = history.service.ListServices(timeout=60).services
            check.equal((service.name, service.on_cpu_ns), ("redis", (after + 2) * 1_000_000), "the service")
    finally:
        server.kill()


check.main(globals())
