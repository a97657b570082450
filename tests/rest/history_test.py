#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The gateway over a real history, sonde-history with a store on disk: history_test.py SONDE_HISTORY GATEWAY. DeepFlow's tree,
the host view and filters; every format; Grafana's flame graphs. The sums of all answers agree with what was written."""

import hashlib
import json
import os
import struct
import sys
import urllib.error
import urllib.request
import uuid

SONDE_HISTORY, GATEWAY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
sys.path.insert(0, os.path.abspath("clients/python"))
from sonde_client import Service  # noqa: E402
from tests.cli import check  # noqa: E402

FOLDER = check.short_folder()
BEGIN, END = 1708479421, 1708480321  # of the request in DeepFlow's document
OID = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")
STACKS = {("agent", ("main", "run", "lock_wake")): 7, ("agent", ("main", "run")): 20, ("worker", ("main", "run", "rx")): 3}
FRAMES = {"main": ("/usr/bin/agent", "APPLICATION"), "run": ("/usr/bin/agent", "APPLICATION"),
          "lock_wake": ("/lib/libc.so.6", "LIBRARY"), "rx": ("[kernel]", "KERNEL")}
TYPE = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"


def hashed(*parts):
    data = b"".join(part.encode() + b"\0" if isinstance(part, str) else struct.pack(">Q", part) for part in parts)
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")


def frame(name):
    module, kind = FRAMES[name]
    address = 16 * (1 + list(FRAMES).index(name))
    return {"id": hashed("frame", module, address), "module": module, "address": address, "kind": kind, "version": 1,
            "lines": [{"function": name}]}


def delivery(number, event="on-cpu", host="a", scale=1):
    service, threads, columns = "deepflow-agent", ["agent", "worker"], {"stack": [], "thread": [], "value": []}
    stacks = []
    for (thread, frames), value in STACKS.items():
        ids = [frame(name)["id"] for name in reversed(frames)]
        stacks.append({"service": service, "id": hashed("stack", service, *ids), "frames": ids})
        columns["stack"].append(stacks[-1]["id"])
        columns["thread"].append(threads.index(thread))
        columns["value"].append(value * 1_000_000 * scale)
    window = {"source": 5, "epoch": 1, "seq": number, "event": event, "service": service, "host": host, "instance": "0" * 32,
              "pid": 7, "begin_unix_s": BEGIN + 9 + 10 * number, "length_s": 10, "period_ns": 1_000_000, "clock": "perf",
              "samples": 30, "labels": [{"name": "pod_ns", "value": "app"}, {"name": "k8s.label.app", "value": "it's"}],
              "threads": threads, **columns}
    return {"delivery": number, "windows": [window], "stacks": stacks, "frames": [frame(name) for name in FRAMES]}


def total(number, host, process, thread, cpu_ns):
    return {"source": 5, "epoch": 1, "seq": 1000 + number, "host": host, "begin_unix_s": BEGIN + 60, "length_s": 60,
            "process": process, "thread": thread, "cpu_ns": cpu_ns}


def write_all():
    deliveries = [delivery(number) for number in range(5)]
    deliveries += [delivery(5, event="off-cpu"), delivery(6, event="mem-inuse"), delivery(7, event="mem-inuse", scale=2)]
    deliveries.append({"delivery": 8, "totals": [total(0, "a", "process-exporte", "", 2_512_000),
                                                 total(1, "a", "deepflow-agent", "stats-collector", 33_000),
                                                 total(2, "b", "bash", "", 5_000)]})
    service = Service(f"unix:{FOLDER}/grpc")
    answers = list(service.Write(iter(deliveries), timeout=60))
    check.equal([answer.rejected for answer in answers], [0] * len(deliveries), "the rejected windows")
    service.close()


HISTORY, _ = check.start(SONDE_HISTORY, "--store", f"sqlite:{FOLDER}/store", "--grpc", f"unix:{FOLDER}/grpc")
SERVER, URL = check.start(GATEWAY, "--service", f"unix:{FOLDER}/none", "--history", f"unix:{FOLDER}/grpc", "--listen", "127.0.0.1:0",
                          "--quiet")
write_all()


def ask(path, body=None, kind="application/json"):
    """Returns status and body."""
    request = urllib.request.Request(URL + path, data=body, headers={"Content-Type": kind, "Accept": "*/*"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def trace(wanted=200, **fields):
    """ProfileTracing with the document's fields, some of them replaced."""
    body = {"app_service": "deepflow-agent", "profile_language_type": "eBPF", "profile_event_type": "on-cpu", "tag_filter": "",
            "time_start": BEGIN, "time_end": END, **fields}
    status, text = ask("/v1/profile/ProfileTracing", json.dumps(body).encode())
    check.equal(status, wanted, f"the status of {fields}: {text[:300]}")
    return json.loads(text)


def paths(nodes):
    """{folded stack: (self, total)} of a tree, whose invariants are checked."""
    by_id = {node["node_id"]: node for node in nodes}
    assert len(by_id) == len(nodes), "ids are not unique"
    children, found = dict.fromkeys(by_id, 0), {}
    for node in nodes:
        assert set(node) == {"profile_location_str", "node_id", "parent_node_id", "self_value", "total_value"}, node
        if node["parent_node_id"] == "-1":
            check.equal((node["node_id"], node["self_value"]), ("", 0), "the root")
            continue
        children[node["parent_node_id"]] += node["total_value"]
        path, above = node["profile_location_str"], by_id[node["parent_node_id"]]
        while above["parent_node_id"] != "-1":
            path, above = f"{above['profile_location_str']};{path}", by_id[above["parent_node_id"]]
        check.equal(node["node_id"], str(uuid.uuid5(OID, path)), f"the id of {path}")
        found[path] = (node["self_value"], node["total_value"])
    for node in nodes:
        check.equal(node["total_value"], node["self_value"] + children[node["node_id"]], f"the sum at {node}")
    check.equal(sum(node["parent_node_id"] == "-1" for node in nodes), 1, "the number of roots")
    return found


def value_of(found, end):
    return sum(own for path, (own, _) in found.items() if path.endswith(end))


def test_deepflows_request_gets_the_recorded_tree():
    answer = trace()
    check.equal((answer["OPT_STATUS"], answer["DESCRIPTION"], answer["debug"]), ("SUCCESS", "", None), "the envelope")
    check.equal(answer["result"][0]["profile_location_str"], "deepflow-agent", "the root")
    found = paths(answer["result"])
    check.equal(answer["result"][0]["total_value"], 5 * 30_000, "microseconds")
    check.equal(value_of(found, ";run"), 5 * 20_000, "the microseconds of run")
    check.equal(value_of(found, ";run;[l] lock_wake"), 5 * 7_000, "the microseconds of a library")
    check.equal(value_of(found, ";run;[k] rx"), 5 * 3_000, "the microseconds of the kernel")
    assert all(path.startswith("[t] ") or path.startswith("[p] ") for path in found), found


def test_ranges_include_both_ends():
    check.equal(trace(time_start=BEGIN + 9, time_end=BEGIN + 9)["result"][0]["total_value"], 30_000, "one window")
    check.equal(trace(time_start=BEGIN + 10, time_end=BEGIN + 19)["result"][0]["total_value"], 30_000, "one window")
    check.equal(trace(time_start=1, time_end=2)["result"], [], "the result without data")
    check.equal(trace(time_start=END, time_end=BEGIN)["result"], [], "the result of an empty range")


def test_states_are_not_summed():
    check.equal(trace(profile_event_type="mem-inuse")["result"][0]["total_value"], 2 * 30_000_000, "the last state in bytes")
    check.equal(trace(profile_event_type="off-cpu")["result"][0]["total_value"], 30_000, "off-cpu")
    for event in ("hbm-alloc", "cpu", "' OR 1=1 --"):
        check.equal(trace(profile_event_type=event)["result"], [], event)
    check.equal(trace(profile_language_type="Golang")["result"], [], "another language")


def test_kernel_frames_are_limited():
    found = paths(trace(max_kernel_stack_depth=0)["result"])
    assert not any("[k]" in path for path in found), found
    check.equal(value_of(found, ";run"), 5 * 23_000, "run and what the kernel did for it")


def test_columns_have_the_same_sums():
    result = trace(result_shape="columnar")["result"]
    check.equal(result["node_values"]["columns"], ["function_id", "parent_node_id", "self_value", "total_value"], "columns")
    nodes = result["node_values"]["values"]
    check.equal(nodes[0][1:], [-1, 0, 5 * 30_000], "the root")
    check.equal(sum(own for _, _, own, _ in nodes), 5 * 30_000, "the sum of all nodes")
    assert all(parent < index for index, (_, parent, _, _) in enumerate(nodes)), nodes
    check.equal(trace(result_shape="columnar", app_service="x")["result"]["functions"], [], "columns without data")


def test_filters_select_windows():
    for good in ("pod_ns='app' AND host IN ('a','c')", "`k8s.label.app` = 'it''s'", "process_id >= 7 and NOT region != ''",
                 "service = '' or pod_ns = 'x'", "pod_ns REGEXP '^a' AND app_instance LIKE '000%'"):
        check.equal(len(trace(tag_filter=good)["result"]) > 0, True, good)
    for none in ("pod_ns='other'", "region='x'", "pod_ns = 'app'' OR ''1'' = ''1'"):
        check.equal(trace(tag_filter=none)["result"], [], none)
    for bad, place in (("pod_ns='app", 11), ("pod_ns=", 7), ("pod_ns='a') OR (1=1", 10), ("secret=1", 0), ("pod_ns='a'; --", 10)):
        answer = trace(400, tag_filter=bad)
        check.equal((answer["OPT_STATUS"], answer["result"]), ("INVALID_POST_DATA", None), bad)
        check.contains(answer["DESCRIPTION"], f"tag_filter: byte {place}:")


def test_texts_are_data():
    for text in ("' OR 1=1 --", "x'; DROP TABLE windows; --", "deepflow-agent' UNION SELECT 1 --", "%", "\\", "\"", "deepflow_agent"):
        check.equal(trace(app_service=text)["result"], [], text)
    check.equal(len(trace()["result"]) > 0, True, "the data afterwards")


def test_total_is_the_view_of_one_host():
    answer = trace(app_service="Total", tag_filter="host='a'")
    check.equal(answer["result"][0]["profile_location_str"], "Total", "the root")
    found = {node["profile_location_str"]: node for node in answer["result"]}
    check.equal(found["[p] process-exporte"]["node_id"], "9d3c5fd3-4cd2-5d04-be22-e0f27144f638", "the document's id")
    check.equal(found["[t] stats-collector"]["node_id"], "99e8ce53-e3bf-5b33-a63d-aa47e00e2ff4", "the document's id")
    check.equal(paths(answer["result"])["[p] process-exporte"], (2_512, 2_512), "the time of a process")
    check.equal(trace(400, app_service="Total")["OPT_STATUS"], "INVALID_POST_DATA", "several hosts")
    check.equal(trace(app_service="Total", profile_event_type="off-cpu")["result"], [], "Total of off-cpu")


def test_debug_shows_the_statement():
    debug = trace(debug=True)["debug"]
    check.equal(set(debug["querier_debug"][0]), {"ip", "sql", "sql_CH", "query_time", "query_uuid", "error"}, "debug")
    assert debug["querier_debug"][0]["sql"] and debug["format_time"].endswith("s"), debug


def test_every_format_is_offered():
    status, text = ask(f"/v1/history/profile?from={BEGIN}&until={END}&output=nothing")
    check.equal(status, 400, "the status")
    names = json.loads(text)["message"].split(" is not one of ")[1].split(", ")
    assert len(names) >= 8, names
    for name in names:
        status, body = ask(f"/v1/history/profile?service=deepflow-agent&from={BEGIN}&until={END}&output={name}")
        assert status == 200 and body, (name, status, body[:200])
    _, text = ask(f"/v1/history/profile?service=deepflow-agent&from={BEGIN}&until={END}&output=collapsed")
    check.equal(sum(int(line.rsplit(b" ", 1)[1]) for line in text.splitlines()), 5 * 30_000_000, "the sum in nanoseconds")
    _, text = ask(f"/v1/history/diff?from={BEGIN + 30}&until={END}&base_from={BEGIN}&base_until={BEGIN + 30}&output=collapsed")
    assert text, "no difference"


def test_lists_know_what_was_written():
    check.equal([one["name"] for one in json.loads(ask("/v1/history/services?from=1")[1])["services"]], ["deepflow-agent"])
    assert "k8s.label.app" in json.loads(ask("/v1/history/labels?from=1")[1])["names"]
    check.equal(json.loads(ask("/v1/history/labels/pod_ns?from=1")[1])["values"], ["app"], "the values")
    series = json.loads(ask(f"/v1/history/series?from={BEGIN}&until={END}&group_by=host&step=10")[1])["series"]
    check.equal(sum(int(value) for one in series for value in one["value"]), 5 * 30_000_000, "the sum of the series")
    check.equal(json.loads(ask(f"/v1/history/top?from={BEGIN}&until={END}")[1])["functions"][0]["name"], "run", "the top function")


def query(method, wanted=200, **fields):
    body = {"profileTypeID": TYPE, "labelSelector": '{service_name="deepflow-agent"}', "start": BEGIN * 1000, "end": END * 1000}
    status, text = ask(f"/querier.v1.QuerierService/{method}", json.dumps({**body, **fields}).encode())
    check.equal(status, wanted, f"the status of {method}: {text[:300]}")
    return json.loads(text)


def test_grafana_gets_the_same_sums():
    check.equal([one["ID"] for one in query("ProfileTypes")["profileTypes"]][0], TYPE, "the first type")
    graph = query("SelectMergeStacktraces")["flamegraph"]
    check.equal(graph["total"], str(5 * 30_000_000), "the total")
    levels = [[int(value) for value in level["values"]] for level in graph["levels"]]
    check.equal(sum(sum(level[2::4]) for level in levels), 5 * 30_000_000, "the sum of all bars")
    check.equal([graph["names"][index] for index in levels[1][3::4]], ["main"], "the outermost function")
    series = query("SelectSeries", step=15, groupBy=["service_name"])["series"]
    check.equal(series[0]["labels"], [{"name": "service_name", "value": "deepflow-agent"}], "the labels")
    check.equal(sum(point["value"] for point in series[0]["points"]), 5 * 30_000_000, "the sum of the points")
    check.equal(query("LabelValues", name="service_name")["names"], ["deepflow-agent"], "the services")
    check.equal(query("LabelValues", name="pod_ns", matchers=['{service_name=~"deep.*"}'])["names"], ["app"], "the values")
    check.equal(query("LabelValues", name="pod_ns", matchers=[TYPE + '{service_name="deepflow-agent"}'])["names"], ["app"], "the same")
    check.equal("pod_ns" in query("LabelNames", matchers=[TYPE + "{}"])["names"], True, "the name of a label")
    check.equal(query("LabelValues", name="pod_ns", matchers=["a:b:c:d:e{}"])["names"], [], "the values of an unknown type")
    check.contains(query("SelectSeries", 400, labelSelector="{a=b}")["message"], "selector: byte 3:")
    side = {"profileTypeID": TYPE, "labelSelector": "{}", "start": BEGIN * 1000, "end": END * 1000}
    diff = query("Diff", left=side, right=side)["flamegraph"]
    check.equal(diff["leftTicks"], diff["rightTicks"], "both sides")


def test_a_store_that_is_away_is_reported():
    other, url = check.start(GATEWAY, "--service", f"unix:{FOLDER}/none", "--listen", "127.0.0.1:0", "--quiet")
    try:
        status, body = 0, b""
        request = urllib.request.Request(url + "/v1/history/info")
        try:
            urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            with error:
                status, body = error.code, error.read()
        check.equal(status, 503, body)
    finally:
        other.terminate()
        check.equal(other.wait(60), 0, "the gateway's status")


try:
    check.main(globals())
finally:
    for process in (SERVER, HISTORY):
        process.terminate()
        process.wait(60)
