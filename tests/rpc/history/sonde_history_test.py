# SPDX-License-Identifier: Apache-2.0
"""sonde-history over SQLite, called from Python: what Write acknowledges survives kill -9 and is counted once; access rules,
options and the end on SIGTERM."""

import os
import signal
import socket
import subprocess

import grpc

from tests.cli import check
from tests.rpc.history.deliveries import BEGIN, ENVIRONMENT, SONDE_HISTORY, History, Service, delivery, total


def test_windows_are_stored_and_queried():
    with History() as history:
        service = history.service
        answers = list(service.Write((delivery(number) for number in range(8)), timeout=30))
        check.equal([(answer.delivery, answer.stored, answer.rejected, len(answer.unknown_stacks)) for answer in answers],
                    [(number, 1, 0, 0) for number in range(8)], "the answers")
        events = list(service.QueryProfile(rendering={"format": "COLLAPSED"}, timeout=30))
        text = b"".join(event.chunk for event in events[1:]).decode()
        check.equal(sorted(text.splitlines()), [f"main;f{number} 2000000" for number in range(4)], "the profile")
        check.equal(events[0].result.completeness.windows_received, 8)
        (tree,) = service.QueryTree(merge_threads=True, timeout=30)
        check.equal(tree.total[0], 8_000_000, "the tree's total")
        selection = {"selector": "pod = 'a'", "from_unix_ns": BEGIN * 10**9, "until_unix_ns": (BEGIN + 80) * 10**9}
        (series,) = service.QuerySeries(selection=selection, step_s=40, timeout=30).series
        check.equal(sum(series.value), 8_000_000, "the sum of the series")
        check.equal([listed.name for listed in service.ListServices(timeout=30).services], ["redis"], "the services")
        info = service.GetHistoryInfo(timeout=30)
        check.equal((info.engine, info.windows), ("sqlite", 8), "the info")
        check.equal(list(service.ListLabelValues(name="pod", timeout=30).values), ["a"], "the values of pod")


def test_acknowledged_windows_survive_kill_and_repetitions_count_once():
    history = History()
    history.start()
    acknowledged = 0
    for round_number in range(3):
        answers = history.service.Write((delivery(number) for number in range(acknowledged, 1_000_000)), timeout=60)
        for answer in answers:
            acknowledged = answer.delivery + 1
            if acknowledged >= 15 * (round_number + 1):
                break
        history.stop(signal.SIGKILL)
        history.start()
        assert total(history.service) >= acknowledged * 1_000_000, (total(history.service), acknowledged)
    answers = list(history.service.Write((delivery(number) for number in range(acknowledged)), timeout=60))
    check.equal(sum(answer.duplicates for answer in answers), acknowledged, "the duplicates")
    check.equal(sum(answer.stored for answer in answers), 0, "what was stored again")
    stored = history.service.GetHistoryInfo(timeout=30).windows
    assert stored >= acknowledged, (stored, acknowledged)  # the last messages may be stored without an answer
    check.equal(total(history.service), stored * 1_000_000, "the sum")
    check.equal(history.stop(signal.SIGTERM), 0, "the status")


def _status(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return None


def test_profiler_is_not_served_and_history_is_listed():
    with History() as history:
        check.equal(_status(lambda: history.service.GetInfo(timeout=10)), grpc.StatusCode.UNIMPLEMENTED)
        health = history.service.channel.unary_unary("/grpc.health.v1.Health/Check")
        check.equal(health(b"\x0a\x10sonde.v1.History", timeout=10), b"\x08\x01", "the health of History")
        check.equal(_status(lambda: health(b"\x0a\x11sonde.v1.Profiler", timeout=10)), grpc.StatusCode.NOT_FOUND)


def leases(service, holder, duration_s, group="g"):
    return [(lease.holder, lease.left_s) for lease in service.RenewLease(group=group, holder=holder, duration_s=duration_s, timeout=10).leases]


def test_leases_are_renewed_given_up_and_bounded():
    with History() as history:
        service = Service(f"unix:{history.folder}/grpc")
        check.equal(leases(service, "b", 300), [("b", 300)], "the first")
        check.equal([holder for holder, _ in leases(service, "a", 5)], ["a", "b"], "two")
        check.equal(leases(service, "a", 5, group="other"), [("a", 5)], "another group")
        check.equal([holder for holder, _ in leases(service, "a", 0)], ["b"], "one was given up")
        for group, holder, duration_s, text in (("", "a", 5, "group"), ("g", "", 5, "holder"), ("g", "a b", 5, "holder"),
                                                ("g", "a" * 65, 5, "holder"), ("g", "a", 4, "from 5 to 300"),
                                                ("g", "a", 301, "from 5 to 300")):
            try:
                leases(service, holder, duration_s, group=group)
                raise AssertionError(f"{(group, holder, duration_s)} was accepted")
            except grpc.RpcError as error:
                check.equal(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
                check.contains(error.details(), text)
        for number in range(63):
            leases(service, f"h{number}", 300)
        check.equal(_status(lambda: leases(service, "more", 300)), grpc.StatusCode.RESOURCE_EXHAUSTED)
        service.close()


def test_a_token_needs_the_scope_of_the_method():
    folder = check.short_folder()
    with open(f"{folder}/tokens", "w", opener=lambda path, flags: os.open(path, flags, 0o600), encoding="ascii") as tokens:
        tokens.write("reading-token-0123456789 read\nwriting-token-0123456789 control\n")
    with History("--token-file", f"{folder}/tokens") as history:
        reader = Service(f"unix:{history.folder}/grpc", token="reading-token-0123456789")
        check.equal(_status(lambda: list(reader.Write([delivery(1)], timeout=10))), grpc.StatusCode.PERMISSION_DENIED)
        check.equal(total(reader), 0)
        check.equal(_status(lambda: leases(reader, "a", 5)), grpc.StatusCode.PERMISSION_DENIED)
        stranger = grpc.insecure_channel(f"unix:{history.folder}/grpc").unary_unary("/sonde.v1.History/GetHistoryInfo")
        check.equal(_status(lambda: stranger(b"", timeout=10, metadata=(("authorization", "Bearer wrong"),))),
                    grpc.StatusCode.UNAUTHENTICATED)
        reader.close()


def _refusal(*flags):
    job = subprocess.run([SONDE_HISTORY, *flags], capture_output=True, text=True, timeout=60, env=ENVIRONMENT, check=False)
    return job.returncode, job.stderr


def test_wrong_options_are_refused():
    for flags, status, words in (((), 2, "--store is missing"),
                                 (("--store", "mysql://user:secret@host"), 2, 'no kind of store named "mysql"'),
                                 (("--store", "sqlite:x", "--keep", "7"), 2, "12h, 7d or 4w"),
                                 (("--store", "sqlite:x", "extra"), 2, "unexpected argument")):
        refused, text = _refusal(*flags)
        check.equal(refused, status, f"the status of {flags}")
        check.contains(text, words)
        assert "secret" not in text
    folder = check.short_folder()
    refused, text = _refusal("--store", f"sqlite:{folder}/store", "--grpc", "0.0.0.0:0")
    check.contains(text, "other machines can reach 0.0.0.0:0")


def test_a_server_that_is_not_up_yet_is_waited_for_and_named():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # does not listen
        port = closed.getsockname()[1]
        with History(store=f"clickhouse:http://name:secret@127.0.0.1:{port}/sonde") as history:
            info = history.service.GetHistoryInfo(timeout=30)
            check.equal(info.engine, "clickhouse")
            check.contains(info.trouble, f"127.0.0.1:{port}")
            try:
                total(history.service)
                raise AssertionError("there is no store")
            except grpc.RpcError as error:
                check.equal(error.code(), grpc.StatusCode.UNAVAILABLE)
                check.contains(error.details(), f"ClickHouse at 127.0.0.1:{port}")
        with open(f"{history.folder}/log", encoding="utf-8") as log:
            text = log.read()
        check.contains(text, "the history cannot be opened, trying again: ")
        assert "secret" not in text + info.trouble


def test_a_store_belongs_to_one_process():
    with History() as history:
        status, text = _refusal("--store", f"sqlite:{history.folder}/store", "--grpc", f"unix:{history.folder}/second")
        assert status != 0 and text.startswith("sonde-history: "), (status, text)


check.main(globals())
