# SPDX-License-Identifier: Apache-2.0
"""Collect with a real sonded and a real guest: sums, acknowledgements, sessions that outlive their calls, and every refusal."""

import hashlib
import os
import queue
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading

import grpc

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import users

sys.path.insert(0, os.path.abspath("clients/python"))
from sonde_client import Service  # noqa: E402

users.install()
NAME = f"demo-{os.getpid()}"
DEMO = os.path.join(stack.WORK, NAME)
shutil.copy("clients/demo/demo", DEMO)
SOCKET = os.path.join(stack.WORK, "guest.sock")
GRPC = "unix:" + os.path.join(stack.WORK, "grpc.sock")
SETTINGS = {"rules": [{"service": "demo-*", "probability": 1}], "frequency_hz": 199, "window_s": 5, "guests_only": True}


class Sonded:
    """A sonded that accepts 199 Hz; its log is what end() returns."""

    def __init__(self, *flags, user=(), folder=stack.WORK):
        address = f"unix:{folder}/grpc.sock"
        self.process = subprocess.Popen(
            [*user, os.path.join(stack.PREFIX, "bin/sonded"), "--socket", f"{folder}/guest.sock", "--grpc", address, "--data-dir",
             f"{folder}/data", "--collect-max-hz", "199", *flags], env=stack.environment(), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        assert "grpc: " in self.process.stdout.readline(), self.process.stderr.read()
        self.service = Service(address)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=30)[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.service.close()


class Call:
    """One call of Collect. What the service sends is read by a thread."""

    def __init__(self, service, settings=None, session="", ack=None, first=None):
        self.requests = queue.Queue()
        self.hello = self.settings = self.status = self.error = None
        self.texts, self.processes, self.frames, self.stacks, self.windows = {0: ""}, {}, {}, {}, []
        self.defined = 0  # stacks, with those that were sent again
        start = {"start": {"session": session, "controller": "test", **({"ack": ack} if ack else {})}}
        if settings:
            start["settings"] = settings
        self.send(**(first if first is not None else start))
        self.call = service.Collect(iter(self.requests.get, None))
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def send(self, **fields):
        self.requests.put(fields)

    def _read(self):
        try:
            for answer in self.call:
                self._add(answer)
        except grpc.RpcError as error:
            self.error = error
        finally:
            self.requests.put(None)

    def _add(self, answer):
        if answer.HasField("hello"):
            self.hello = answer.hello
        if answer.HasField("settings"):
            self.settings = answer.settings
        self.texts.update((text.number, text.text) for text in answer.texts)
        self.processes.update((process.number, process) for process in answer.processes)
        self.frames.update((frame.number, frame) for frame in answer.frames)
        self.stacks.update((each.number, each) for each in answer.stacks)
        self.defined += len(answer.stacks)
        self.windows.extend(answer.windows)
        if answer.HasField("status"):
            self.status = answer.status

    def rows(self, window):
        """[(stack, thread's name, ns)]"""
        rows, number = [], 0
        for i, step in enumerate(window.stack):
            number += step
            thread = window.threads[window.thread[i]] if window.thread else window.threads[0]
            rows.append((self.stacks[number], self.texts[thread], window.value[i]))
        return rows

    def functions(self, each):
        return [self.texts[line.function] for number in each.frames for line in self.frames[number].lines]

    def contents(self):
        """Windows by seq, independent of the call's numbers."""
        return {window.seq: (window.begin_unix_s, window.length_s, window.samples, self.processes[window.process].instance,
                             sorted((each.id, thread, value) for each, thread, value in self.rows(window)))
                for window in self.windows}

    def until(self, condition, what):
        return check.until(lambda: self.error or condition(), seconds=40, what=what)

    def end(self):
        self.call.cancel()
        self.thread.join(10)

    def code(self):
        """How the call ended by itself."""
        self.thread.join(20)
        assert self.error, "the call has not ended"
        reason = dict(self.error.trailing_metadata() or ()).get("sonde-reason", "")
        return self.error.code().name, reason, self.error.details()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def start_unprepared(name, seconds):
    """A demo without the guest. Its name is its own, because this machine's other processes are seen, too."""
    path = os.path.join(stack.WORK, f"{name}-{os.getpid()}")
    if not os.path.exists(path):
        shutil.copy("clients/demo/demo", path)
    return subprocess.Popen([path, "-t", "1", "-s", str(seconds), "--tick"], env=stack.environment(), stdout=subprocess.PIPE, text=True)


def start_demo(seconds):
    env = {**stack.environment(), "LD_PRELOAD": os.path.join(stack.PREFIX, "lib/libsonde.so"), "SONDE_SOCKET": SOCKET,
           "SONDE_LABELS": "version=7"}
    return subprocess.Popen([DEMO, "-t", "1", "-s", str(seconds), "--tick"], env=env, stdout=subprocess.PIPE, text=True)


def run_demo(seconds):
    """Returns the CPU time that the process's own clock says."""
    out, _ = start_demo(seconds).communicate(timeout=60)
    return int(re.search(r"process_cpu_ns (\d+)", out).group(1))


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def hash_of(*parts):
    data = b"".join(part.encode() + b"\0" if isinstance(part, str) else struct.pack(">Q", part) for part in parts)
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")


def session(sonded):
    """The status of the first session that GetInfo lists."""
    sessions = sonded.service.GetInfo(timeout=10).collect_sessions
    return sessions[0].status if sessions else None


def is_idle(call, service):
    """Whether everything that was recorded has arrived."""
    info = service.GetInfo(timeout=10)
    return info.targets == 0 and call.windows and call.windows[-1].seq + 1 == info.collect_sessions[0].status.next_seq


def test_windows_sum_to_the_clock_and_are_sent_again_until_they_are_acknowledged():
    with Sonded() as sonded:
        with Call(sonded.service, SETTINGS) as call:
            call.until(lambda: call.settings and not session(sonded).trouble, "the recording")
            clock_ns = run_demo(6)
            # Another recorder begins when the last window of this one is there.
            call.send(settings={**SETTINGS, "heap": True})
            call.until(lambda: call.settings.heap and not session(sonded).trouble, "the last window")
            call.until(lambda: is_idle(call, sonded.service), "all windows")
            sampled_ns = sum(sum(window.value) for window in call.windows)
            check.near(sampled_ns, clock_ns, 0.15 * clock_ns)
            first = call.contents()
            hello = call.hello
            process = call.processes[call.windows[0].process]
            check.equal({label.name: label.value for label in process.labels}["version"], "7")
            assert any(mapping.path == DEMO and mapping.end > mapping.start for mapping in process.mappings), process.mappings
            # Notes such as [before sampling] have no file.
            each, _, _ = next(row for row in call.rows(call.windows[0]) if call.texts[call.frames[row[0].frames[0]].module])
            check.equal(each.id, hash_of("stack", NAME, *(call.frames[frame].id for frame in each.frames)))
            frame = call.frames[each.frames[0]]
            check.equal(frame.id, hash_of("frame", call.texts[frame.build_id] or call.texts[frame.module], frame.address))
            names = [name for window in call.windows for row in call.rows(window) for name in call.functions(row[0])]
            assert "serve" in names, names[:20]
        with Call(sonded.service) as again:
            again.until(lambda: len(again.windows) == len(first), "the windows again")
            check.equal(again.contents(), first)
            check.equal((again.hello.source, again.hello.epoch, again.hello.first_seq), (hello.source, hello.epoch, min(first)))
            defined = again.defined
            again.send(resend_stacks=[each.id, 12345])
            again.until(lambda: again.defined == defined + 1, "a definition again")
            last = max(first)
            again.send(ack={"epoch": hello.epoch + 1, "seq": last})  # of another epoch: changes nothing
            again.send(ack={"epoch": hello.epoch, "seq": last - 1})
            check.until(lambda: session(sonded).acked_seq == last - 1, what="the acknowledgement")
        with Call(sonded.service, ack={"epoch": hello.epoch, "seq": last - 1}) as third:
            third.until(lambda: third.windows, "the last window")
            check.equal(third.contents(), {last: first[last]})
        log = sonded.end()
        check.contains(log, 'audit: collect session default begins a call of "test"')
        check.contains(log, "audit: collect session default: 1 rules, 199 Hz")


def service_ns(call, service):
    return sum(sum(window.value) * (window.weight or 1) for window in call.windows if call.processes[window.process].service == service)


def test_a_process_that_nobody_prepared_is_collected_and_a_guest_is_not_counted_twice():
    lone = f"lone-{os.getpid()}"
    rules = [{"service": name, "probability": 1} for name in (f"first-{os.getpid()}", lone, NAME)]
    first = start_unprepared("first", 100)
    with Sonded() as sonded, Call(sonded.service, {**SETTINGS, "guests_only": False, "rules": rules}) as call:
        check.until(lambda: session(sonded) and session(sonded).targets > 0, seconds=30, what="the first process")
        running = {lone: start_unprepared("lone", 12), NAME: start_demo(12)}
        for name, process in running.items():
            clock_ns = int(re.search(r"process_cpu_ns (\d+)", process.communicate(timeout=60)[0]).group(1))
            tolerance = 4 / (clock_ns / 1e9 * SETTINGS["frequency_hz"]) ** 0.5 + 0.05
            call.until(lambda name=name, clock_ns=clock_ns, tolerance=tolerance: abs(service_ns(call, name) / clock_ns - 1) < tolerance,
                       f"{clock_ns} ns of {name} (± {tolerance:.0%})")
        names = [name for window in call.windows if call.processes[window.process].service == lone
                 for row in call.rows(window) for name in call.functions(row[0])]
        assert "serve" in names, names[:20]
        check.equal(session(sonded).refusal, "")
        call.send(settings={**SETTINGS, "rules": rules})
        call.until(lambda: call.settings.guests_only and session(sonded).targets == 0, "the end of the stream")
    check.stop(first)
    first.stdout.close()


def test_where_the_kernel_refuses_to_sample_the_machine_the_status_says_so():
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
        if int(file.read()) <= 0:
            raise check.Skip("kernel.perf_event_paranoid lets every user sample the whole machine")
    folder = os.path.join(stack.WORK, "nobody")
    os.makedirs(folder, 0o700)
    os.chown(folder, users.NOBODY, users.NOBODY)
    with Sonded(user=users.as_user(users.NOBODY), folder=folder) as sonded, Call(sonded.service, {**SETTINGS, "guests_only": False}) as call:
        call.until(lambda: call.status and call.status.refusal, "the refusal")
        check.contains(call.status.refusal, "sampling the whole machine needs")


def test_a_later_call_of_a_session_displaces_the_earlier_and_other_sessions_stay():
    with Sonded() as sonded, Call(sonded.service, SETTINGS, session="a") as first, Call(sonded.service, session="b") as other:
        first.until(lambda: first.hello, "hello")
        other.until(lambda: other.hello, "hello")
        assert first.hello.source != other.hello.source
        with Call(sonded.service, session="a") as second:
            second.until(lambda: second.settings, "settings")
            check.equal(second.settings.frequency_hz, 199, "the session's settings")
            check.equal(first.code()[:2], ("ABORTED", "SESSION_BUSY"))
            assert not other.error
            with Call(sonded.service, session="c"), Call(sonded.service, session="d"):
                check.until(lambda: len(sonded.service.GetInfo(timeout=10).collect_sessions) == 4, what="four sessions")
                code, reason, text = Call(sonded.service, session="e").code()
                check.equal((code, reason), ("RESOURCE_EXHAUSTED", "TOO_MANY_CAPTURES"))
                check.contains(text, "4 sessions")
            sessions = {each.name: each for each in sonded.service.GetInfo(timeout=10).collect_sessions}
            check.equal(sessions["a"].controller, "test")


def test_bad_requests_are_refused_with_their_bounds():
    start = {"start": {}}
    rows = (
        ({}, "`start`"),
        ({"start": {"session": "a b"}}, "letters, digits"),
        ({"start": {"session": "x" * 65}}, "64"),
        ({"start": {"controller": "x" * 256}}, "255"),
        ({**start, "settings": {"frequency_hz": 1000}}, "1 to 999"),
        ({**start, "settings": {"window_s": 4}}, "5 to 300"),
        ({**start, "settings": {"off_cpu_ms": 1001}}, "1 to 1000"),
        ({**start, "settings": {"draw_s": 59}}, "60 to 3600"),
        ({**start, "settings": {"keep_s": 86401}}, "60 to 86400"),
        ({**start, "settings": {"max_overhead": 0.3}}, "0.0001 to 0.2"),
        ({**start, "settings": {"rules": [{"service": "", "probability": 1}]}}, "1 to 255"),
        ({**start, "settings": {"rules": [{"service": "x", "probability": 1.5}]}}, "0 to 1"),
        ({**start, "settings": {"rules": [{"service": "x", "probability": float("nan")}]}}, "0 to 1"),
        ({**start, "settings": {"rules": [{"service": "x", "frequency_hz": 1000}]}}, "1 to 999"),
        ({**start, "settings": {"rules": [{"service": "x"}] * 1001}}, "at most 1000"),
    )
    with Sonded() as sonded:
        for first, part in rows:
            code, reason, text = Call(sonded.service, first=first).code()
            check.equal((code, reason), ("INVALID_ARGUMENT", "INVALID_ARGUMENT"), f"{first}: {text}")
            check.contains(text, part)
        for later, part in ((start, "only the first"), ({"resend_stacks": [1] * 10001}, "at most 10000"),
                            ({"settings": {"window_s": 301}}, "5 to 300")):
            call = Call(sonded.service)
            call.until(lambda: call.hello, "hello")
            call.send(**later)
            code, _, text = call.code()
            check.equal(code, "INVALID_ARGUMENT")
            check.contains(text, part)
        with Call(sonded.service, {**SETTINGS, "frequency_hz": 999}) as call:
            call.until(lambda: call.settings, "settings")
            check.equal((call.settings.frequency_hz, call.settings.draw_s, call.settings.keep_s), (199, 300, 3600))


def test_a_status_follows_when_the_first_process_is_recorded_and_when_the_last_one_ends():
    with Sonded() as sonded, Call(sonded.service, SETTINGS) as call:
        call.until(lambda: call.status and call.status.targets == 0, "a status without processes")
        demo = start_demo(600)
        try:
            call.until(lambda: call.status.targets == 1, "a status with the process")
        finally:
            check.stop(demo)
        call.until(lambda: call.status.targets == 0, "a status without it")


def test_a_pause_ends_recording_and_no_rule_records_nothing():
    with Sonded() as sonded:
        demo = start_demo(600)
        try:
            with Call(sonded.service, SETTINGS) as call:

                def targets():
                    status = session(sonded)
                    return status.targets if status else -1

                check.until(lambda: targets() == 1, what="a recorded process")
                call.send(settings={**SETTINGS, "is_paused": True})
                check.until(lambda: targets() == 0, what="the pause")
                call.until(lambda: call.windows, "what was recorded before")
                call.send(settings={**SETTINGS, "rules": [{"service": "demo-*", "probability": 1e-18}]})
                check.until(lambda: session(sonded).not_drawn == 1, what="a process that is not drawn")
                call.send(settings=SETTINGS)
                check.until(lambda: targets() == 1, what="the end of the pause")
        finally:
            check.stop(demo)


def test_the_python_client_collects_and_acknowledges():
    with Sonded() as sonded:
        demo = start_demo(600)
        try:
            done = subprocess.run(["/usr/bin/python3", "-B", "clients/python/sonde_client.py", "--service", GRPC, "collect", "-F",
                                   "99", "--window", "5", "--windows", "1", "demo-*"], capture_output=True, text=True, timeout=60,
                                  check=True)
            check.contains(done.stdout, f"{NAME} {demo.pid}  on-cpu")
            assert re.search(r" \d+ ms  (\[before sampling\] \d+  )?[a-z_]+ \d+", done.stdout), done.stdout
        finally:
            check.stop(demo)


def test_a_restart_is_another_epoch_and_an_end_is_said():
    with Sonded() as sonded:
        with Call(sonded.service) as call:
            call.until(lambda: call.hello, "hello")
            hello = call.hello
            sonded.process.kill()
            call.thread.join(20)
    with Sonded() as sonded:
        call = Call(sonded.service)
        call.until(lambda: call.hello, "hello")
        check.equal(call.hello.instance, hello.instance)
        assert call.hello.source != hello.source and call.hello.epoch > hello.epoch
        assert call.hello.boot_id and call.hello.version and call.hello.unix_ns and "on-cpu" in call.hello.capabilities
        sonded.end()
        check.equal(call.code()[0], "UNAVAILABLE")


def test_an_orderly_end_sends_the_open_window():
    with Sonded() as sonded, Call(sonded.service, {**SETTINGS, "window_s": 300}) as call:
        call.until(lambda: call.settings and not session(sonded).trouble, "the recording")
        demo = start_demo(600)
        try:
            call.until(lambda: call.status.targets == 1, "a status with the process")
            check.until(lambda: cpu_s(demo.pid) > 1, what="a second of CPU time")
            sonded.end()
        finally:
            check.stop(demo)
        check.equal(call.code()[0], "UNAVAILABLE")
        sampled_s = sum(sum(window.value) for window in call.windows) / 1e9
        assert sampled_s > 0.7, f"{sampled_s} s"


def test_the_machines_owner_can_refuse_controllers():
    with Sonded("--no-collect") as sonded:
        check.equal(Call(sonded.service).code()[:2], ("FAILED_PRECONDITION", "NOT_AVAILABLE"))
        info = sonded.service.GetInfo(timeout=10)
        check.equal((info.no_collect, info.api_min, info.api_max), (True, 1, 1))


check.main(globals())
