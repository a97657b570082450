# SPDX-License-Identifier: Apache-2.0
"""The audit: every call that changes state is one line with who asked, for what and with which result, whether it comes over gRPC
or through the gateway; hostile texts stay in their fields, and refusals cannot flood the log."""

import http.client
import os
import re
import subprocess
import sys
import time

import grpc

from tests.cli import check
from tests.rpc.certificates import Certificates, Program, write_secret
from tests.rpc.history.deliveries import delivery

sys.path.insert(0, os.path.abspath("clients/python"))
from sonde_client import Service  # noqa: E402

FAKE, SONDED, HISTORY, GATEWAY = (os.path.abspath(path) for path in (
    "tests/rpc/clients/fake_server", "service/sonded", "service/sonde-history", "gateway/sonde-gateway"))
READER, WRITER = "reading-token-0123456789", "writing-token-0123456789"
FIELD = re.compile(r' ([a-z]+)=("[^"]*"|[^" ]+)')
LINES, MAX_LINE = 60, 1024


def fake(*flags, address="127.0.0.1:0"):
    return Program(FAKE, "--audit", "--grpc", address, *flags)


def sonded(*flags):
    folder = check.short_folder()
    return Program(SONDED, "--socket", f"{folder}/guest", "--data-dir", f"{folder}/data", "--sampler", "", "--grpc",
                   "127.0.0.1:0", *flags)


def fields(line):
    """The fields of an audit line, whose form is checked."""
    text = line[line.index("audit: ") + len("audit:"):].rstrip("\n")
    assert len(line) <= MAX_LINE and all(" " <= byte <= "~" for byte in text), line
    assert re.fullmatch(r" time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z" + f"(?:{FIELD.pattern})+", text), line
    return {name: value.strip('"') for name, value in FIELD.findall(text)}


def audit(program, method, count=1):
    lines = program.until(f" method={method} ", count)
    check.equal(len(lines), count, f"the lines of {method}: {lines}")
    return fields(lines[-1])


def outcome(call):
    try:
        answer = call()
        if not hasattr(answer, "DESCRIPTOR"):
            list(answer)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


def test_a_method_of_each_family_writes_one_line():
    demo = {"name": "demo", "pid": 4242}
    uid = str(os.geteuid())
    with fake() as program:
        service = Service(program.addresses[0])
        calls = (("HeapActivate", {"target": demo}, "demo pid 4242"), ("SetHeapGdump", {"target": demo, "active": True}, "demo pid 4242, on"),
                 ("HeapReset", {"target": demo}, "demo pid 4242"), ("HeapDeactivate", {"target": demo}, "demo pid 4242"),
                 ("StartCpu", {"target": {"name": "demo"}}, "demo"), ("StopCpu", {"target": {"pid": 4242}}, "pid 4242"),
                 ("StartAllocs", {"target": demo}, "demo pid 4242"), ("StopAllocs", {"target": demo}, "demo pid 4242"),
                 ("EvictSymbols", {"id": "beef"}, "beef"))
        for method, request, target in calls:
            result = outcome(lambda: getattr(service, method)(timeout=20, **request))
            line = audit(program, method)
            check.equal(line["target"], target, method)
            check.equal(line["uid"], uid, method)
            assert line["peer"].startswith("ipv4:127.0.0.1:"), line
            check.equal(line["result"] == "OK", result == "OK", (method, result, line))
        check.equal(audit(program, "HeapActivate")["result"], "OK")
        service.GetInfo(timeout=20)
        service.HeapStatus(target=demo, timeout=20)
        service.close()
        check.equal(program.end(), 0)
        check.equal(len(program.lines("audit: ")), len(calls), "only what changes state is audited")


def test_a_failed_call_has_its_reason():
    with fake() as program:
        service = Service(program.addresses[0])
        check.equal(outcome(lambda: service.StartCpu(target={"name": "nobody"}, timeout=20)), "NOT_FOUND")
        check.equal(audit(program, "StartCpu")["result"], "TARGET_NOT_FOUND")
        service.close()


def test_tokens_and_certificates_are_named_and_never_shown():
    pems = Certificates()
    pems.issue("ca")
    pems.issue("server", "ca")
    pems.issue("ops", "ca", "DNS:ops.example")
    write_secret(pems.path("tokens"), f"# tokens\n{READER} read\n{WRITER} control\n")
    with sonded("--tls-cert", pems.path("server.pem"), "--tls-key", pems.path("server.key"), "--tls-client-ca",
                pems.path("ca.pem"), "--token-file", pems.path("tokens"), "--token-everywhere") as program:
        with grpc.secure_channel(program.addresses[0], pems.credentials("ca", "ops")) as channel:
            evict = channel.unary_unary("/sonde.v1.Profiler/EvictSymbols")
            for count, (token, result, words) in enumerate(((WRITER, "OK", "line 3 (control)"),
                                                            (READER, "PERMISSION_DENIED", "line 2 (read)"),
                                                            ("wrong-" + WRITER, "UNAUTHENTICATED", "unknown"),
                                                            (None, "UNAUTHENTICATED", None))):
                metadata = (("authorization", f"Bearer {token}"),) if token else ()
                outcome(lambda: evict(b"\x10\x01", timeout=20, metadata=metadata))
                line = audit(program, "EvictSymbols", count + 1)
                check.equal((line["result"], line.get("token"), line["certificate"]), (result, words, "ops"))
        program.end()
        assert READER not in "".join(program.log) and WRITER not in "".join(program.log)
    pems.remove()


def test_a_call_that_lasts_is_audited_with_its_first_answer():
    with Program(HISTORY, "--store", f"sqlite:{check.short_folder()}/store", "--grpc", "127.0.0.1:0") as program:
        service = Service(program.addresses[0])

        def deliveries():
            yield delivery(1)
            check.equal(audit(program, "Write")["result"], "OK")  # the call is still running
            yield delivery(2)

        check.equal(len(list(service.Write(deliveries(), timeout=60))), 2)
        service.close()
        check.equal(program.end(), 0)
        check.equal(len(program.lines(" method=Write ")), 1)
    with sonded() as program:
        service = Service(program.addresses[0])
        call = service.Collect(iter([{"start": {"session": "fleet", "controller": "control-1"}}]), timeout=60)
        assert next(call).HasField("hello")
        line = audit(program, "Collect")
        check.equal((line["result"], line["target"]), ("OK", "session fleet of control-1"))
        call.cancel()
        service.close()


def test_an_upload_is_audited_with_its_build_id():
    path = os.path.join(check.short_folder(), "program")
    subprocess.run(["gcc", "-g", "-Wl,--build-id", "-x", "c", "-", "-o", path], input=b"int main(void) { return 0; }", check=True)
    with open(path, "rb") as file:
        content = file.read()
    with sonded() as program:
        service = Service(program.addresses[0])
        uploaded = service.UploadDebugFile(iter([{"size_bytes": len(content), "chunk": content}]), timeout=60)
        check.contains(audit(program, "UploadDebugFile")["note"], f"build_id={uploaded.build_id}")
        service.close()


def get(url, path, method="GET", token=None, form=None):
    connection = http.client.HTTPConnection(url.split("//")[1], timeout=30)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request(method, path, body=form, headers={**headers, "Content-Type": "application/x-www-form-urlencoded"})
    status = connection.getresponse().status
    connection.close()
    return status


def test_the_gateway_names_its_user():
    folder = check.short_folder()
    write_secret(f"{folder}/tokens", f"{READER} read\n{WRITER} control\n")
    uid = os.geteuid()
    with fake() as service, Program(GATEWAY, "--quiet", "--listen", "127.0.0.1:0", "--service", service.addresses[0],
                                    "--token-file", f"{folder}/tokens") as program:
        (url,) = program.addresses
        paths = (("GET", "/t/demo/debug/pprof/heap_activate", "HeapActivate"),
                 ("POST", "/t/demo/debug/prof/mem/gdump", "SetHeapGdump"),
                 ("GET", "/t/demo/profile_start", "StartCpu"), ("GET", "/t/demo/profile_stop", "StopCpu"),
                 ("GET", "/t/demo/allocs_profile_start", "StartAllocs"))
        for verb, path, method in paths:
            get(url, path, verb, form="activate=true" if verb == "POST" else None)
            line = audit(service, method)
            check.equal((line["target"].split(",")[0], line["for"], line["uid"]), ("demo", f"uid {uid}, from 127.0.0.1", str(uid)),
                        method)
        get(url, "/t/demo/debug/pprof/heap_deactivate", token=WRITER)
        check.equal(audit(service, "HeapDeactivate")["for"], f"uid {uid}, token line 2, from 127.0.0.1")
        check.equal(get(url, "/t/demo/debug/pprof/heap_activate", token=READER), 403)  # refused by the gateway


def test_the_gateway_names_the_certificate_of_its_user():
    pems = Certificates()
    pems.issue("ca")
    pems.issue("server", "ca")
    pems.issue("ops", "ca")
    with fake() as service, Program(GATEWAY, "--quiet", "--listen", "127.0.0.1:0", "--service", service.addresses[0], "--tls-cert",
                                    pems.path("server.pem"), "--tls-key", pems.path("server.key"), "--tls-client-ca",
                                    pems.path("ca.pem")) as program:
        context = http.client.ssl.create_default_context(cafile=pems.path("ca.pem"))
        context.load_cert_chain(pems.path("ops.pem"), pems.path("ops.key"))
        connection = http.client.HTTPSConnection(program.addresses[0].split("//")[1], timeout=30, context=context)
        connection.request("GET", "/t/demo/debug/pprof/heap_activate")
        check.equal(connection.getresponse().status, 200)
        connection.close()
        check.contains(audit(service, "HeapActivate")["for"], "certificate ops, from 127.0.0.1")
    pems.remove()


def test_hostile_texts_stay_in_their_fields():
    name = 'x" result=OK\n\x1b[2Jaudit: method=StopCpu \\ ü' + "y" * 4000
    with fake() as program:
        service = Service(program.addresses[0])
        service.metadata = (("sonde-caller", 'root" result=OK \\' + "z" * 4000),)
        outcome(lambda: service.StartCpu(target={"name": name}, timeout=20))
        line = audit(program, "StartCpu")
        assert line["target"].startswith(r"x\x22 result=OK\x0a\x1b[2Jaudit: method=StopCpu \x5c \xc3\xbcy"), line
        assert line["for"].startswith(r"root\x22 result=OK \x5cz"), line
        check.equal(line["result"] == "OK", False)
        service.close()
        program.end()
        check.equal(len(program.lines("audit: ")), 1)


def test_refusals_are_limited_and_counted_and_changes_are_not():
    with fake() as program:
        service = Service(program.addresses[0])
        began = time.monotonic()
        for _ in range(LINES + 25):
            check.equal(outcome(lambda: service.StartCpu(target={"name": "nobody"}, timeout=20)), "NOT_FOUND")
        is_one_minute = time.monotonic() - began < 60
        for _ in range(LINES + 5):
            check.equal(outcome(lambda: service.HeapActivate(target={"name": "demo"}, timeout=20)), "OK")
            service.HeapDeactivate(target={"name": "demo"}, timeout=20)
        service.close()
        program.end()
        check.equal(len(program.lines(" method=HeapActivate ")), LINES + 5)
        left_out = [int(line.split()[1]) for line in program.lines(f"at most {LINES} lines a minute")]
        check.equal(len(program.lines(" method=StartCpu ")) + sum(left_out), LINES + 25, "written and left out")
        assert left_out or not is_one_minute, "nothing was left out"


if __name__ == "__main__":
    check.main(globals())
