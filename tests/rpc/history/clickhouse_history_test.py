# SPDX-License-Identifier: Apache-2.0
"""sonde-history over a ClickHouse server that is killed: nothing that was acknowledged is lost, and nothing counts twice."""

import grpc

from tests.cli import check
from tests.rpc.history.clickhouse_server import ClickHouse
from tests.rpc.history.deliveries import History, delivery, total


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
