# SPDX-License-Identifier: Apache-2.0
"""The exporter against receivers that decode what they get: contents, retries, bounds, headers, TLS, refusals, restarts."""

import contextlib
import gzip
import json
import os
import shutil
import subprocess
import tempfile

import grpc

from tests.cli import check
from tests.export import collectors
from tests.export.collectors import GrpcCollector, HttpCollector

DRIVER = "tests/export/driver"
FOLDER = tempfile.mkdtemp(prefix="x.")
MS = 1000000
CONTENT = {("shopd", ("work_0", "main")): MS, ("worker", ("work_0", "main")): MS, ("worker", ("work_1", "main")): 2 * MS,
           ("shopd", ("work_2", "main")): 3 * MS}


class Driver:
    """The exporter as a process."""

    def __init__(self, *flags):
        self.errors = tempfile.TemporaryFile("w+", dir=FOLDER)
        self.process = subprocess.Popen([DRIVER, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True)

    def say(self, word="one"):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def state(self, name="otlp"):
        self.say("state")
        return json.loads(self.process.stdout.readline())[name]

    def log(self):
        self.errors.seek(0)
        return self.errors.read()

    def end(self, name="otlp"):
        out, _ = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, self.log()
        return json.loads(out.splitlines()[-1])[name]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.errors.close()


def lost(state):
    return {cause: count for cause, count in state.items()
            if count and cause not in ("sent", "retries", "trouble", "queue_bytes")}


def run(*flags, name="otlp", words=()):
    """The last state and the log of a driver that sends its records and ends."""
    with Driver(*flags) as driver:
        for word in words:
            driver.say(word)
        state = driver.end(name)
        return state, driver.log()


def check_profile(request):
    """A profile of tests/export/records.c as OTLP."""
    collectors.check_dictionary(request)
    (resource, scope, profile), = collectors.profiles(request)
    check.equal({key: resource[key] for key in ("service.name", "process.pid", "process.executable.name", "team", "zone")},
                {"service.name": "shop", "process.pid": 4711, "process.executable.name": "shopd", "team": "blue", "zone": "a/1"})
    check.equal(resource["host.name"], os.uname().nodename)
    check.equal(scope.name, "sonde")
    check.equal(collectors.type_of(request, profile.sample_type), ("cpu", "nanoseconds"))
    check.equal(collectors.type_of(request, profile.period_type), ("cpu", "nanoseconds"))
    check.equal((profile.period, profile.duration_nano), (52631579, 10000 * MS))
    check.equal(profile.time_unix_nano, 1700000000000000000)
    dictionary = request.dictionary
    mapping = dictionary.mapping_table[1]
    check.equal((mapping.memory_start, mapping.memory_limit, mapping.file_offset), (0x400000, 0x40000000, 0x1000))
    check.equal(dictionary.string_table[mapping.filename_strindex], "/usr/bin/shopd")
    check.equal(collectors.attributes(request, mapping.attribute_indices), {"process.executable.build_id.gnu": "c0ffee"})
    location = dictionary.location_table[1]
    check.equal((location.address, location.mapping_index, location.lines[0].line), (0x400010, 1, 12))
    check.equal(collectors.attributes(request, location.attribute_indices), {"profile.frame.type": "native"})
    check.equal({collectors.attributes(request, sample.attribute_indices)["thread.id"] for sample in profile.samples},
                {4711, 4712})
    check.equal(len(dictionary.stack_table), 4)  # two threads share a stack


def test_otlp_over_http_has_what_was_recorded():
    with HttpCollector() as collector:
        state, log = run("--otlp", collector.url, "--records", "2")
        check.equal((state["sent"], lost(state), log), (2, {}, ""))
        first, second = collector.requests
        check.equal(first.path, "/v1development/profiles")
        check.equal(first.headers["content-type"], "application/x-protobuf")
        check_profile(first.message)
        check.equal(collectors.sums([first], "cpu"), CONTENT)
        check.equal(collectors.sums([second], "cpu"), CONTENT)
        ids = {next(collectors.profiles(one.message))[2].profile_id for one in collector.requests}
        check.equal(len(ids), 2)


def test_otlp_over_grpc_has_what_was_recorded():
    with GrpcCollector() as collector:
        state, log = run("--otlp", collector.url, "--records", "1", "--otlp-header", "X-Tenant: seven")
        check.equal((state["sent"], lost(state), log), (1, {}, ""))
        check_profile(collector.requests[0].message)
        check.equal(collectors.sums(collector.requests, "cpu"), CONTENT)
        check.equal(collector.requests[0].headers["x-tenant"], "seven")


def test_a_path_in_the_url_is_used_as_it_is():
    with HttpCollector() as collector:
        run("--otlp", collector.url + "/custom/path?x=1", "--records", "1")
        check.equal(collector.requests[0].path, "/custom/path?x=1")


def test_a_heap_is_what_is_in_use_and_what_was_allocated_since_the_last_snapshot():
    with HttpCollector() as collector:
        state, _ = run("--otlp", collector.url, words=["heap"])
        check.equal((state["sent"], lost(state)), (3, {}))
        for received in collector.requests:
            collectors.check_dictionary(received.message)
        in_use = {("shopd", ("grow", "main")): 2000, ("shopd", ("hold", "main")): 140}  # of two snapshots
        check.equal(collectors.sums(collector.requests, "inuse_space"), in_use)
        check.equal(collectors.sums(collector.requests, "alloc_space"), {("shopd", ("grow", "main")): 1000})
        durations = [profile.duration_nano for _, _, profile in collectors.profiles(collector.requests[-1].message)]
        check.equal(durations, [60000 * MS])
        kinds = {collectors.type_of(received.message, profile.sample_type)[1] for received in collector.requests
                 for _, _, profile in collectors.profiles(received.message)}
        check.equal(kinds, {"bytes"})  # receivers multiply counts by the period


def test_what_may_succeed_later_is_repeated_over_http():
    script = [(status, {}, b"") for status in (503, 502, 504, 429, 408)]
    with HttpCollector(script=script) as collector:
        state, log = run("--otlp", collector.url, "--records", "1", "--retry-ms", "2")
        check.equal((state["sent"], state["retries"], lost(state)), (1, 5, {}))
        check.equal(collectors.sums(collector.requests, "cpu"), CONTENT)
        check.contains(log, "profiles wait in memory: HTTP status 503\n")
        check.contains(log, "profiles are sent again\n")


def test_what_may_succeed_later_is_repeated_over_grpc():
    code = grpc.StatusCode
    codes = (code.UNAVAILABLE, code.RESOURCE_EXHAUSTED, code.ABORTED, code.DEADLINE_EXCEEDED, code.DATA_LOSS, code.CANCELLED)
    with GrpcCollector(script=[(one, "later", ()) for one in codes]) as collector:
        state, log = run("--otlp", collector.url, "--records", "1", "--retry-ms", "2")
        check.equal((state["sent"], state["retries"], lost(state)), (1, 6, {}))
        check.contains(log, "profiles wait in memory: gRPC status 14: later\n")


def retry_info(seconds, nanos):
    """A google.rpc.Status with a RetryInfo."""
    duration = b"\x08" + bytes([seconds]) + (b"\x10" + bytes([nanos & 0x7f | 0x80, nanos >> 7 & 0x7f | 0x80, nanos >> 14 & 0x7f | 0x80,
                                                             nanos >> 21]) if nanos else b"")
    info = b"\x0a" + bytes([len(duration)]) + duration
    url = b"type.googleapis.com/google.rpc.RetryInfo"
    any_ = b"\x0a" + bytes([len(url)]) + url + b"\x12" + bytes([len(info)]) + info
    return b"\x08\x0e\x1a" + bytes([len(any_)]) + any_


def test_the_receiver_says_how_long_to_wait():
    with HttpCollector(script=[(503, {"retry-after": "1"}, b"")]) as http, \
         GrpcCollector(script=[(grpc.StatusCode.UNAVAILABLE, "", (("grpc-status-details-bin", retry_info(0, 100000000)),))]) as rpc:
        state, log = run("--otlp", rpc.url, "--records", "1", "--retry-ms", "100000")
        check.equal((state["sent"], state["retries"]), (1, 1), log)
        with Driver("--otlp", http.url, "--records", "1", "--retry-ms", "1") as driver:
            check.until(lambda: http.seen == 1)
            first = collectors.time.monotonic()
            check.until(lambda: http.requests, what="a second request")
            assert http.requests[0].time - first > 0.9, "the pause is the receiver's, not 1 ms"
            check.equal(driver.end()["retries"], 1)


def test_what_would_be_refused_again_is_dropped_and_counted():
    status = b"\x08\x03\x12\x09bad\x01\xffdata"
    script = [(400, {}, status), (401, {"content-type": "text/plain"}, b"no   token\n"), (404, {}, b""), (500, {}, b"")]
    with HttpCollector(script=script) as collector:
        state, log = run("--otlp", collector.url, "--records", "5")
        check.equal((state["sent"], state["retries"], lost(state)), (1, 0, {"refused": 4}))
        check.equal(log.count("profiles are lost"), 1)  # each cause is logged once
        check.contains(log, f"otlp to {collector.url}: profiles are lost: the receiver refuses them "
                            "(HTTP status 400: bad data)\n")
    with GrpcCollector(script=[(grpc.StatusCode.UNAUTHENTICATED, "who are you", ())]) as collector:
        state, log = run("--otlp", collector.url, "--records", "2")
        check.equal((state["sent"], lost(state)), (1, {"refused": 1}))
        check.contains(log, "(gRPC status 16: who are you)")


def test_what_the_receiver_rejects_of_a_request_is_counted():
    response = collectors.ExportResponse()
    response.partial_success.rejected_profiles = 1
    response.partial_success.error_message = "no such service"
    with HttpCollector(script=[(200, {}, response.SerializeToString())]) as collector:
        state, log = run("--otlp", collector.url, "--records", "2")
        check.equal((state["sent"], lost(state)), (2, {"rejected": 1}))
        check.contains(log, "the receiver rejects some (no such service)")
    with GrpcCollector(response=response) as collector:
        state, _ = run("--otlp", collector.url, "--records", "2")
        check.equal((state["sent"], lost(state)), (2, {"rejected": 2}))


def test_answers_that_are_no_messages_do_no_harm():
    answers = [(200, {}, b"\xff" * 200), (200, {}, b"\x0a\xff\xff\xff\xff\x0f"), (200, {}, b"x" * 300000), (400, {}, b"\x12" * 90000)]
    with HttpCollector(script=answers) as collector:
        state, _ = run("--otlp", collector.url, "--records", "5")
        check.equal((state["sent"], lost(state)), (4, {"refused": 1}))


def test_the_queue_is_bounded_and_what_does_not_fit_is_counted():
    port = check.free_port()
    with Driver("--otlp", f"http://127.0.0.1:{port}", "--queue-mib", "1", "--rows", "2000", "--records", "20",
                "--retry-ms", "20") as driver:
        state = check.until(lambda: (now := driver.state())["trouble"] and now, what="trouble")
        assert 0 < state["queue_bytes"] <= 1 << 20, state
        assert 10 < state["queue_full"] < 20, state
        check.equal(state["sent"], 0)
        with HttpCollector(port=port) as collector:
            waiting = 20 - state["queue_full"]
            state = check.until(lambda: (now := driver.state())["sent"] >= waiting and now, what=f"{waiting} profiles")
            check.equal(state["trouble"], "")
            driver.say()  # there is room again
            check.until(lambda: driver.state()["sent"] > waiting, what="the last profile")
            state = driver.end()
            check.equal((state["sent"], len(collector.requests)), (waiting + 1, waiting + 1))
            check.equal(lost(state), {"queue_full": 20 - waiting})
        log = driver.log()
        check.equal(log.count("the queue is full"), 1)
        check.contains(log, f"profiles wait in memory: 127.0.0.1:{port} accepts no connection; check the address")


def restart(kind):
    """The receiver goes away and returns: nothing is lost."""
    with kind() as first:
        port = first.port
        driver = Driver("--otlp", first.url, "--records", "1", "--retry-ms", "20")
        check.until(lambda: driver.state()["sent"] == 1, what="a request that was answered")
    with driver:
        driver.say()
        check.until(lambda: driver.state()["trouble"], what="trouble")
        with kind(port=port) as second:
            check.until(lambda: driver.state()["sent"] == 2, what="a request after the restart")
            check.equal(driver.state()["trouble"], "")
            check.equal(collectors.sums(second.requests, "cpu"), CONTENT)
            check.equal(lost(driver.end()), {})


def test_a_restart_of_an_http_receiver_loses_nothing():
    restart(HttpCollector)


def test_a_restart_of_a_grpc_receiver_loses_nothing():
    restart(GrpcCollector)


def hang(_):
    collectors.time.sleep(60)
    return 200, {}, b""


def test_a_receiver_that_does_not_answer_does_not_stop_the_other():
    with HttpCollector(script=[hang]) as slow, HttpCollector(request=collectors.PushRequest) as fast:
        with Driver("--otlp", slow.url, "--pyroscope", fast.url, "--records", "3") as driver:
            check.until(lambda: len(fast.requests) == 3, what="the fast receiver's profiles")
            check.equal(driver.state("pyroscope")["queue_bytes"], 0)
            check.equal(driver.state()["sent"], 0)
            assert driver.state()["queue_bytes"] > 0


def test_a_request_that_is_never_answered_is_given_up():
    with HttpCollector(script=[hang] * 5) as collector:
        with Driver("--otlp", collector.url, "--deadline-ms", "40", "--retry-ms", "1", "--records", "1") as driver:
            check.until(lambda: driver.state()["timeout"] == 1, what="a request that is given up")
            check.contains(driver.log(), "the receiver does not answer in time (127.0.0.1:")


def test_the_end_does_not_wait_for_a_receiver_that_is_away():
    with Driver("--otlp", f"grpc://127.0.0.1:{check.free_port()}", "--records", "4") as driver:
        begin = collectors.time.monotonic()
        state = driver.end()
        assert collectors.time.monotonic() - begin < 15
        check.equal((state["sent"], lost(state)), (0, {"shutdown": 4}))


def test_large_profiles_are_split():
    expected = (sum(range(1, 301)) + 1) * MS
    for kind in (HttpCollector, GrpcCollector):
        with kind() as collector, \
             Driver("--otlp", collector.url, "--records", "1", "--rows", "300", "--name-bytes", "16000") as driver:
            check.until(lambda: sum(collectors.sums(list(collector.requests), "cpu").values()) == expected, seconds=60,
                        what="all samples")
            assert 1 < len(collector.requests) < 5
            assert max(received.size for received in collector.requests) <= 4 << 20
            check.equal((lost(driver.end()), driver.log()), ({}, ""))
            collectors.check_dictionary(collector.requests[0].message)


def test_a_receiver_may_accept_less():
    with GrpcCollector(options=(("grpc.max_receive_message_length", 20000),)) as collector:
        state, log = run("--otlp", collector.url, "--records", "1", "--rows", "300")
        check.equal((lost(state), log), ({}, ""))
        check.equal(sum(collectors.sums(collector.requests, "cpu").values()), (sum(range(1, 301)) + 1) * MS)

    def limited(received):
        return (413, {}, b"") if received.size > 20000 else (200, {}, b"")
    with HttpCollector(script=[limited] * 100) as collector:
        state, log = run("--otlp", collector.url, "--records", "1", "--rows", "300")
        check.equal((lost(state), log), ({}, ""))
        check.equal(sum(collectors.sums(collector.requests, "cpu").values()), (sum(range(1, 301)) + 1) * MS)
    with HttpCollector(script=[(413, {}, b"")] * 100) as collector:
        state, log = run("--otlp", collector.url, "--records", "1", "--rows", "1")
        check.equal((state["sent"], lost(state)), (0, {"too_large": 2}))
        check.contains(log, "the receiver does not accept requests of that size")


def write(name, text, mode=0o600):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="ascii", opener=lambda p, f: os.open(p, f, mode)) as out:
        out.write(text)
    os.chmod(path, mode)
    return path


def test_headers_come_from_flags_and_files_and_are_not_logged():
    path = write("headers", "# a comment\n\nAuthorization: Bearer secret-7\r\nX-Two: 2\n")
    with HttpCollector(script=[(403, {}, b"")]) as collector:
        url = collector.url.replace("http://", "http://user:secret-8@")
        state, log = run("--otlp", url, "--records", "1", "--otlp-header-file", path, "--otlp-header", "X-One: a: b ")
        check.equal(lost(state), {"refused": 1})
        assert "secret" not in log, log
    with HttpCollector() as collector:
        run("--otlp", collector.url, "--records", "1", "--otlp-header-file", path, "--otlp-header", "X-One: a: b ")
        headers = {name.lower(): value for name, value in collector.requests[0].headers.items()}
        check.equal((headers["authorization"], headers["x-one"], headers["x-two"]), ("Bearer secret-7", "a: b", "2"))
        check.contains(headers["user-agent"], "sonded/")


def refused(*flags):
    done = subprocess.run([DRIVER, *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False)
    check.equal(done.returncode, 2, flags)
    return done.stderr


def test_settings_that_cannot_work_are_refused():
    check.contains(refused("--otlp", "ftp://x"), "--otlp: the URL has an unknown scheme; write http[s]://HOST[:PORT][/PATH] or grpc")
    check.contains(refused("--otlp", "http://"), "no valid host")
    check.contains(refused("--otlp", "http://x:99x"), "no valid host or port")
    check.contains(refused("--otlp", "http://x y"), "characters that must be encoded")
    check.contains(refused("--otlp", "grpc://u:p@x:1"), "a gRPC URL has neither a user nor a path")
    check.contains(refused("--pyroscope", "grpc://x:1"), "unknown scheme; write http[s]://HOST[:PORT][/PATH]\n")
    check.contains(refused("--otlp", "http://x", "--otlp-header", "no colon"), "--otlp-header: write \"Name: value\"")
    check.contains(refused("--otlp", "http://x", "--otlp-header", "Content-Type: a"), "does not set itself")
    check.contains(refused("--otlp", "grpc://x", "--otlp-header", "a-bin: b"), "gRPC allows neither")
    check.contains(refused("--pyroscope", "http://x", "--otlp-header", "a: b"),
                   "there are settings for otlp, but no receiver: add --otlp URL")
    path = write("open", "a: secret\n", 0o644)
    text = refused("--otlp", "http://x", "--otlp-header-file", path)
    check.contains(text, "other users can read the header file")
    assert "secret" not in text
    check.contains(refused("--otlp", "https://x", "--otlp-ca", "/nonexistent"), "/nonexistent cannot be read")
    check.contains(refused("--otlp", "grpcs://x", "--otlp-ca", "/nonexistent"), "cannot open the CA /nonexistent")
    check.contains(refused("--otlp", "https://x", "--otlp-cert", path), "a client certificate needs its key")


def test_tls_over_http_and_grpc():
    tls, other = collectors.Certificate(FOLDER), collectors.Certificate(FOLDER, "other")
    for kind in (HttpCollector, GrpcCollector):
        with kind(tls=tls) as collector:
            state, log = run("--otlp", collector.url, "--otlp-ca", tls.cert, "--records", "1")
            check.equal((state["sent"], log), (1, ""))
            check.equal(collectors.sums(collector.requests, "cpu"), CONTENT)
            with Driver("--otlp", collector.url, "--otlp-ca", other.cert, "--records", "1", "--retry-ms", "20") as driver:
                check.until(lambda: driver.state()["trouble"], what="a refused certificate")
                check.equal(driver.state()["sent"], 0)
    client = collectors.Certificate(FOLDER, "client", asks_client=True)
    with HttpCollector(tls=client) as collector:
        state, log = run("--otlp", collector.url, "--otlp-ca", client.cert, "--otlp-cert", client.cert, "--otlp-key", client.key,
                         "--records", "1")
        check.equal((state["sent"], log), (1, ""))


def test_a_renewed_ca_is_used_by_the_next_connection():
    tls, other = (collectors.Certificate(FOLDER, f"renewed-{name}") for name in ("server", "other"))
    ca = os.path.join(FOLDER, "renewed.pem")
    for kind in (HttpCollector, GrpcCollector):
        shutil.copy(other.cert, ca)
        with kind(tls=tls) as collector, Driver("--otlp", collector.url, "--otlp-ca", ca, "--records", "1", "--retry-ms",
                                                "20") as driver:
            check.until(lambda: driver.state()["trouble"], what="a refused certificate")
            shutil.copy(tls.cert, ca)
            check.until(lambda: driver.state()["sent"] == 1, what="the record sent with the new CA")


def labels(series):
    return {label.name: label.value for label in series.labels}


def pprof(raw, sample_type):
    path = os.path.join(FOLDER, "pushed.pb.gz")
    with open(path, "wb") as out:
        out.write(raw)
    done = subprocess.run(["go", "tool", "pprof", "-raw", f"-sample_index={sample_type}", path], capture_output=True, text=True,
                          check=True, timeout=60, env={**os.environ, "HOME": FOLDER})
    return done.stdout


def test_pyroscope_gets_labels_and_a_pprof_file():
    with HttpCollector(request=collectors.PushRequest) as collector:
        state, log = run("--pyroscope", collector.url + "/base/", "--records", "1", "--pyroscope-header", "X-Scope-OrgID: seven",
                         name="pyroscope", words=["heap"])
        check.equal((state["sent"], lost(state), log), (4, {}, ""))
        check.equal({received.path for received in collector.requests}, {"/base/push.v1.PusherService/Push"})
        first = collector.requests[0]
        headers = {name.lower(): value for name, value in first.headers.items()}
        check.equal((headers["content-type"], headers["x-scope-orgid"]), ("application/proto", "seven"))
        (series,), names = first.message.series, [label.name for label in first.message.series[0].labels]
        check.equal(names, sorted(names))
        check.equal(labels(series), {"__name__": "process_cpu", "service_name": "shop", "host": os.uname().nodename, "team": "blue",
                                     "zone": "a/1", "executable": "shopd", "unit": "shop.service", "cgroup": "/system.slice/shop.service"})
        check.equal([labels(received.message.series[0])["__name__"] for received in collector.requests[1:]], ["memory"] * 3)
        ids = {received.message.series[0].samples[0].ID for received in collector.requests}
        check.equal(len(ids), 4)
        assert all(len(one) == 36 for one in ids), ids
        raw = series.samples[0].raw_profile
        assert gzip.decompress(raw)
        if not shutil.which("go"):
            raise check.Skip("no go tool pprof")
        text = pprof(raw, "cpu")
        check.contains(text, "PeriodType: cpu nanoseconds\nPeriod: 52631579")
        check.contains(text, "Duration: 10s")
        check.contains(text, "samples/count cpu/nanoseconds")
        for row in ("2    2000000: 1 2", "1    2000000: 3 2", "1    3000000: 4 2"):
            check.contains(text, row)
        assert "thread:" not in text and "tid:" not in text, text  # each thread would be a series
        text = pprof(collector.requests[-1].message.series[0].samples[0].raw_profile, "alloc_space")
        check.contains(text, "alloc_objects/count alloc_space/bytes[dflt]")
        check.contains(text, "100       1000:")


def test_pyroscope_gets_at_most_16000_samples_at_once():
    with HttpCollector(request=collectors.PushRequest, script=[(503, {}, b"")]) as collector:
        state, _ = run("--pyroscope", collector.url, "--records", "1", "--rows", "20000", "--retry-ms", "5", name="pyroscope")
        check.equal((state["sent"], state["retries"], lost(state)), (2, 1, {}))


with contextlib.ExitStack() as stack:
    stack.callback(shutil.rmtree, FOLDER, ignore_errors=True)
    check.main(globals(), at_once=4)
