# SPDX-License-Identifier: Apache-2.0
"""A real sonded with --otlp and --pyroscope: what receivers get has the sums of the process's CPU clock and of the history that is
recorded at the same time. Without --history nothing is stored; what is recorded is sent all the same."""

import collections
import gzip
import http.client
import os
import re
import shutil
import signal
import subprocess
import time

from tests.cli import check
from tests.e2e import stack
from tests.export import collectors

stack.install()
NAME = f"demo-{os.getpid()}"
DEMO = os.path.join(stack.WORK, NAME)
shutil.copy("clients/demo/demo", DEMO)
SOCKET = os.path.join(stack.WORK, "guest.sock")
GRPC = "unix:" + os.path.join(stack.WORK, "grpc.sock")


class Service:
    """A sonded; its log is `errors` after the end."""

    def __init__(self, *flags):
        self.process = subprocess.Popen(
            [os.path.join(stack.PREFIX, "bin/sonded"), "--socket", SOCKET, "--grpc", GRPC, "--data-dir",
             os.path.join(stack.WORK, "data"), "--history-hz", "199", *flags], env=stack.environment(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert "grpc: " in self.process.stdout.readline(), self.process.stderr.read()

    def maps(self):
        with open(f"/proc/{self.process.pid}/maps", encoding="utf-8") as maps:
            return maps.read()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=30)[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def run_demo(seconds):
    """Burns an eighth of a CPU; returns the CPU time that its own clock says."""
    env = {**stack.environment(), "LD_PRELOAD": os.path.join(stack.PREFIX, "lib/libsonde.so"), "SONDE_SOCKET": SOCKET,
           "SONDE_LABELS": "run=first"}
    done = subprocess.run([DEMO, "-t", "1", "-s", str(seconds), "--tick"], env=env, capture_output=True, text=True, check=True,
                          timeout=60)
    return int(re.search(r"process_cpu_ns (\d+)", done.stdout).group(1))


def sending():
    """What `sonde doctor` says, among others of the receivers."""
    return subprocess.run([stack.SONDE, "doctor", "--service", GRPC], env=stack.environment(), capture_output=True, text=True,
                          timeout=60, check=False).stdout


def history(service=GRPC):
    """{stack, root first: ns}, with threads merged; {} as long as there is no window."""
    done = subprocess.run([stack.SONDE, "history", NAME, "--merge-threads", "--format", "collapsed", "--from", "-1h", "--service", service],
                          env=stack.environment(), capture_output=True, text=True, timeout=60, check=False)
    if "nothing that matches was recorded" in done.stderr:
        return {}
    check.equal(done.returncode, 0, done.stderr)
    sums = collections.Counter()
    for line in done.stdout.splitlines():
        sums[tuple(line.rsplit(" ", 1)[0].split(";"))] += int(line.rsplit(" ", 1)[1])
    return sums


def sent(requests):
    """{stack, root first: ns} of what a collector got, with threads merged and inlined calls as frames."""
    total = {}
    for (_, frames), ns in collectors.sums(requests, "cpu").items():
        total[frames[::-1]] = total.get(frames[::-1], 0) + ns
    return total


def same_sums(requests):
    """What was sent and what is in the history, when both are complete: each receives a window by itself."""
    got, stored = sent(requests), history()
    return sum(got.values()) == sum(stored.values()) > 0 and (got, stored)


def metrics():
    """What the gateway says, as text."""
    gateway = subprocess.Popen([os.path.join(stack.PREFIX, "bin/sonde-gateway"), "--listen", "127.0.0.1:0", "--service", GRPC],
                               env=stack.environment(), stdout=subprocess.PIPE, text=True)
    try:
        host = gateway.stdout.readline().split("http://")[1].strip()
        connection = http.client.HTTPConnection(host, timeout=20)
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        check.stop(gateway)
        gateway.stdout.close()


def test_receivers_get_the_sums_of_the_history():
    with collectors.HttpCollector() as otlp, collectors.HttpCollector(request=collectors.PushRequest) as pyroscope, \
         Service("--history", "--otlp", otlp.url, "--pyroscope", pyroscope.url) as service:
        used = run_demo(1)
        check.until(lambda: otlp.requests and pyroscope.requests, what="the window of a process that has ended")
        got, stored = check.until(lambda: same_sums(otlp.requests), what="the sum that was sent, in the history")
        # On a busy machine the first window begins late; history_test compares longer runs.
        assert 0.1 < sum(got.values()) / used < 1.15, f"{sum(got.values())} of {used} ns of CPU time were sent"
        for leaf in ("parse_header", "compress_block", "match_rules"):
            check.equal(sum(ns for frames, ns in got.items() if frames[-1] == leaf),
                        sum(ns for frames, ns in stored.items() if frames[-1] == leaf), leaf)
        for received in otlp.requests:
            collectors.check_dictionary(received.message)
        resource, _, _ = next(collectors.profiles(otlp.requests[0].message))
        check.equal((resource["service.name"], resource["run"], resource["process.executable.name"]), (NAME, "first", NAME))
        series = pyroscope.requests[0].message.series[0]
        assert gzip.decompress(series.samples[0].raw_profile)
        check.equal({label.name: label.value for label in series.labels}["service_name"], NAME)
        text = metrics()
        check.contains(text, f'sonde_export_profiles_total{{destination="otlp"}} {len(otlp.requests)}\n')
        check.contains(text, 'sonde_export_working{destination="pyroscope"} 1\n')
        check.equal(service.end(), "", "what sonded logs")


class History:
    """A sonde-history."""

    def __enter__(self):
        self.process = subprocess.Popen(
            [os.path.join(stack.PREFIX, "bin/sonde-history"), "--store", "sqlite:" + os.path.join(stack.WORK, "fleet"), "--grpc",
             "127.0.0.1:0"], env=stack.environment(), stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split("grpc: ")[1].strip()
        return self

    def __exit__(self, *_):
        check.stop(self.process)
        self.process.stdout.close()


def test_sonde_history_takes_the_last_window_too_and_nothing_is_stored_without_history():
    shutil.rmtree(os.path.join(stack.WORK, "data"), ignore_errors=True)
    with History() as receiver, Service("--otlp", f"grpc://{receiver.address}") as service:
        env = {**stack.environment(), "LD_PRELOAD": os.path.join(stack.PREFIX, "lib/libsonde.so"), "SONDE_SOCKET": SOCKET}
        demo = subprocess.Popen([DEMO, "-t", "1", "-s", "60"], env=env, stdout=subprocess.DEVNULL)
        try:
            check.until(lambda: NAME in stack.sonde("targets", "--service", GRPC)[0], what="the target")
            time.sleep(0.5)  # the demo uses CPU time
            check.contains(sending(), f"otlp to grpc://{receiver.address}: ")
            assert "libcurl" not in service.maps(), "libcurl is loaded, but only gRPC is used"
            before = sum(history(receiver.address).values())  # 0 but on a machine that was slow
            check.equal(service.end(), "", "what sonded logs")
        finally:
            demo.kill()
            demo.wait()
        assert sum(history(receiver.address).values()) > before, "the open window was not sent"
        assert not os.path.exists(os.path.join(stack.WORK, "data/history")), "there is a history"


check.main(globals())
