# SPDX-License-Identifier: Apache-2.0
"""The sonde.v1.History of fake_service.py. The name of the service that is asked for decides what happens:

    error-REASON      the call ends with that reason
    cut               a result breaks off in the middle
    large             a result of 6 MB in chunks
    idle              nothing matches
    silent            two hosts recorded nothing for a while, and some processes were drawn
    recorded          has off-CPU time; that of no other service is recorded
    any other name    everything works

Nothing can be stored while a target called "trouble" is attached. Unknown events match nothing. Every result repeats the request, so that tests can check what arrived. A selector that contains
"syntax" is malformed; the host view needs a selector that names a host."""

import json
import uuid

import grpc
from google.protobuf import json_format

import fake_bodies

OID = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")
EVENTS = ("", "on-cpu", "off-cpu", "mem-alloc", "mem-inuse")
STACKS = {"[t] main;main;compute": 40, "[t] main;main": 10, "[t] worker;start_thread;[l] poll": 5}
TOTALS = {"[p] process-exporte": 25, "[p] deepflow-agent;[t] stats-collector": 33}
SELECTOR = "selector: byte 8: expected a value in quotes or a number"
SINCE = 1_700_000_000 * 10**9
# What the service says of itself if a target has that name.
STATES = {"trouble": {"trouble": "no space left on the device", "dropped": 7, "lost_windows": 3},
          "every": {"is_recording": True, "recording_targets": 45, "recording_guests": 2, "recording_since_unix_ns": SINCE, "off_cpu_left_out": 3},
          "own": {"is_recording": True, "recording_targets": 7, "recording_guests": 1, "recording_since_unix_ns": SINCE,
                  "refusal": "those of other users: perf is refused"},
          "refused": {"is_recording": True, "recording_targets": 1, "recording_guests": 1, "refusal": "perf is refused"},
          "guests": {"is_recording": True, "recording_targets": 3, "recording_guests": 3}}
STATEMENT = "SELECT stack, sum(value) FROM samples WHERE service = ?1 GROUP BY stack"


def nodes(root, stacks):
    """DeepFlow's tree of folded stacks."""
    values = {}
    for stack, value in stacks.items():
        frames = stack.split(";")
        for depth in range(1, len(frames) + 1):
            node = values.setdefault(";".join(frames[:depth]), [0, 0])
            node[1] += value
        values[stack][0] += value
    yield {"profile_location_str": root, "node_id": "", "parent_node_id": "-1", "self_value": 0,
           "total_value": sum(stacks.values())}
    for path, (own, total) in values.items():
        parent, _, name = path.rpartition(";")
        yield {"profile_location_str": name, "node_id": str(uuid.uuid5(OID, path)),
               "parent_node_id": str(uuid.uuid5(OID, parent)) if parent else "", "self_value": own, "total_value": total}


class History:
    def __init__(self, messages, profiler, service):
        self.m, self.p, self.service = messages, profiler, service

    def check(self, selection, context, field="selection"):
        if selection.service.startswith("error-"):
            self.service.fail(context, selection.service[len("error-"):])
        if "syntax" in selection.selector:
            self.refuse(context, f"{field}.{SELECTOR}")
        if selection.host_totals and "host" not in selection.selector:
            self.refuse(context, "the store has several hosts: name one in the selector")

    def refuse(self, context, sentence):
        context.set_trailing_metadata((("sonde-reason", "INVALID_ARGUMENT"),))
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, sentence)

    def body(self, request, selection):
        name = self.p.Format.Name(request.rendering.format)
        what = self.echo(request)
        stacks = {} if selection.service == "idle" or selection.event not in EVENTS else dict(STACKS)
        if selection.service == "large":
            return b"[" + b" " * (6 << 20) + b"]"
        if name == "DEEPFLOW_TREE":
            root = "Total" if selection.host_totals else selection.service
            stacks = dict(TOTALS) if selection.host_totals else stacks
            if selection.service == "echo":
                stacks = {"[t] " + what.replace(";", ":"): 1}
            return json.dumps(list(nodes(root, stacks)) if stacks else []).encode()
        if name == "DEEPFLOW_COLUMNAR":
            return json.dumps({"functions": ["root"] if stacks else [], "what": what}).encode()
        if name == "PPROF":
            raw = fake_bodies.draw(self.service.m, self.service.targets[0], request.rendering, what)
            return raw
        if name in ("SVG_FLAMEGRAPH", "SVG_CALLGRAPH"):
            return b'<?xml version="1.0" standalone="no"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>\n'
        return f"format={name} {what}\n".encode()

    def completeness(self, request):
        explain, service = getattr(request, "explain", False), request.selection.service
        idle = service == "idle"
        found = self.p.Completeness(windows_expected=0 if idle else 12, windows_received=0 if idle else 11, samples=55, dropped=2, rows=3,
                                    trimmed_nodes=4, statement=STATEMENT if explain else "", duration_ns=1_500_000)
        if service == "silent":
            begin = 1_700_000_000 * 10**9
            found.first_unix_ns, found.last_unix_ns, found.window_s, found.recording_began_unix_ns = begin, begin + 110 * 10**9, 10, begin
            found.drawn_processes, found.drawn_for, found.drawn_deviation = 3, 12, 0.25
            found.counted_ns, found.sampled_ns = 10 * 10**9, 61 * 10**8
            for host, start, end in (("web-2", 100, 160), ("we\nb", 200, 300)):
                found.silences.add(host=host, from_unix_ns=begin + start * 10**9, until_unix_ns=begin + end * 10**9)
        return found

    def send(self, request, selection):
        body = self.body(request, selection)
        yield self.p.CaptureEvent(result=self.p.ResultStart(size_bytes=len(body), samples=55, dropped=2,
                                                            completeness=self.completeness(request)))
        if selection.service == "cut":
            yield self.p.CaptureEvent(chunk=body[:len(body) // 2])
            raise RuntimeError("broken off on purpose")
        for at in range(0, len(body), 128 << 10):
            yield self.p.CaptureEvent(chunk=body[at:at + (128 << 10)])

    def QueryProfile(self, request, context):
        self.check(request.selection, context)
        if request.as_contentions and request.selection.service != "recorded":
            context.set_trailing_metadata((("sonde-reason", "NOT_FOUND"),))
            context.abort(grpc.StatusCode.NOT_FOUND, "no off-CPU time was recorded in this range")
        yield from self.send(request, request.selection)

    def QueryDiff(self, request, context):
        self.check(request.base_selection, context, "base_selection")
        self.check(request.selection, context)
        yield from self.send(request, request.selection)

    def QueryTree(self, request, context):
        """total(10) > main(9, self 2) > compute(7); poll(1). The base has half of everything, rounded down. In two messages."""
        self.check(request.selection, context)
        self.check(request.base_selection, context, "base_selection")
        if request.selection.service == "idle" or request.selection.event == "none":
            yield self.m.Tree(unit="nanoseconds")
            return
        if "lie" in request.selection.selector:
            yield self.m.Tree(functions=["a"], function=[0, 0], parent=[0, 5], self=[0, 1], total=[1, 1])
            return
        if "echo" in request.selection.selector:
            yield self.m.Tree(functions=[self.echo(request)], function=[0], parent=[0], self=[0], total=[1])
            return
        own, total = [0, 2, 7, 1], [10, 9, 7, 1]
        base = ([n // 2 for n in own], [n // 2 for n in total]) if request.HasField("base_selection") else ([], [])
        yield self.m.Tree(functions=["redis", "main", "compute"], function=[0, 1, 2], parent=[0, 0, 1], self=own[:3],
                          total=total[:3], base_self=base[0][:3], base_total=base[1][:3], unit="nanoseconds")
        yield self.m.Tree(functions=["poll"], function=[3], parent=[0], self=own[3:], total=total[3:],
                          base_self=base[0][3:], base_total=base[1][3:])

    def QuerySeries(self, request, context):
        self.check(request.selection, context)
        answer = self.m.QuerySeriesResponse(unit="nanoseconds", step_s=request.step_s or 36,
                                            completeness=self.completeness(request))
        values = ("redis", "b") if list(request.group_by) == ["service"] else ("a", "b")
        for value in values:
            series = answer.series.add(time_unix_s=[1700000000, 1700000010], value=[7, 9])
            if request.function:
                series.value[:] = [len(request.function), 0]
            for name in request.group_by:
                series.labels.add(name=name, value=value)
            if not request.group_by:
                break
        return answer

    def QueryTop(self, request, context):
        self.check(request.selection, context)
        return self.m.QueryTopResponse(functions=[self.m.TopFunction(**{"name": self.echo(request), "self": 5, "total": 9})], total=9,
                                       unit="nanoseconds")

    def QueryFunction(self, request, context):
        self.check(request.selection, context)
        return self.m.QueryFunctionResponse(services=[self.m.FunctionUse(service=self.echo(request), self=5, total=9,
                                                                         service_total=20)], unit="nanoseconds", omitted=3)

    def echo(self, request):
        """The request on one line, without the quotes of JSON; those of its texts are single ones."""
        text = json_format.MessageToJson(request, indent=0, preserving_proto_field_name=True, ensure_ascii=False)
        return text.replace("\n", "").replace('\\"', "'").replace('"', "")

    def check_selector(self, request, context):
        if "syntax" in request.selector:
            self.refuse(context, SELECTOR)

    def ListServices(self, request, context):
        self.check_selector(request, context)
        answer = self.m.ListServicesResponse()
        answer.services.add(name="redis", events=["on-cpu", "off-cpu"], hosts=2, processes=3, on_cpu_ns=10**9)
        answer.services.add(name=self.echo(request), events=["mem-alloc", "mem-inuse"])
        return answer

    def ListLabels(self, request, context):
        self.check_selector(request, context)
        return self.m.ListLabelsResponse(names=["event", "host", "pod", "service"])

    def ListLabelValues(self, request, context):
        self.check_selector(request, context)
        return self.m.ListLabelValuesResponse(values=["a", self.echo(request)])

    def ListChanges(self, request, context):
        if request.service.startswith("error-"):
            self.service.fail(context, request.service[len("error-"):])
        answer = self.m.ListChangesResponse(is_cut=True)
        change = answer.changes.add(service="redis", event="on-cpu", from_unix_ns=1700000000 * 10**9, until_unix_ns=1700000300 * 10**9)
        change.functions.add(function="sort", kind="CHANGE_KIND_MORE", before=0.25, after=0.3125, factor=1.375, low=0.03125, high=0.09375, callers=["handle", "main"])
        change.functions.add(function="new\x1b[2J", kind="CHANGE_KIND_MOVED", moved_from="old", before=0.125, after=0.125)
        change.labels.add(name="version", before="", after="1.5")
        answer.changes.add(service=self.echo(request), host="b").functions.add(function="fresh", kind="CHANGE_KIND_MORE", after=0.125)
        return answer

    def GetHistoryInfo(self, request, context):
        webhook = self.m.WebhookInfo(receiver="https://hooks", sent=4, retries=1, lost=[self.m.WebhookLoss(cause="refused", changes=2)])
        watch = self.m.WatchInfo(services=3, functions=250, changes=6, until_unix_ns=1700000300 * 10**9, skipped_slots=5, webhook=webhook)
        return self.m.HistoryInfo(engine="sqlite", place="/var/lib/sonde/history", windows=12, samples=55, keep_s=604800, watch=watch,
                                  **{name: value for target in self.service.targets for name, value in STATES.get(target.name, {}).items()})


METHODS = {  # name: (request, streams)
    "QueryProfile": ("QueryProfileRequest", True), "QueryDiff": ("QueryDiffRequest", True),
    "QuerySeries": ("QuerySeriesRequest", False), "QueryTop": ("QueryTopRequest", False), "QueryTree": ("QueryTreeRequest", True),
    "QueryFunction": ("QueryFunctionRequest", False), "ListChanges": ("ListChangesRequest", False),
    "ListServices": ("ListServicesRequest", False), "ListLabels": ("ListLabelsRequest", False),
    "ListLabelValues": ("ListLabelValuesRequest", False), "GetHistoryInfo": ("GetHistoryInfoRequest", False),
}


def handlers(messages, profiler, service):
    """The handlers of sonde.v1.History for a grpc server."""
    history, found = History(messages, profiler, service), {}
    for name, (request, streams) in METHODS.items():
        make = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
        found[name] = make(getattr(history, name), getattr(messages, request).FromString,
                           lambda message: message.SerializeToString())
    return grpc.method_handlers_generic_handler("sonde.v1.History", found)
