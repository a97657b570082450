#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Plays conversations: text files with what a client sends and what it must receive, played with the real curl. They are also
the REST manual. The lines of a file:

    # TK-P5 a comment                                      names the rows of rows.txt that the file tests
    % targets redis,idle                                   attached targets (default: redis, or demo with the real sonded)
    % service --no-history                                 further arguments of the fake service
    % history                                              a second fake service, at unix:{tmp}/history
    % command sleep 100                                    command of the targets (default: the demo)
    % target-env NAME=VALUE                                environment of the targets
    % gateway --target redis                               further arguments of the gateway
    % listen 0.0.0.0:0                                     instead of 127.0.0.1:0; requests go to the first TCP listener
    % env NAME=VALUE                                       environment of the gateway
    % settings [memory]                                    a line of the settings file of gateway and real sonded
    % before openssl req ...                               a shell command to run first
    % sonded --token-file {tmp}/tokens                     further arguments of the real sonded
    > -d 0x10 /debug/pprof/symbol                          a request: curl's arguments; the first word with a / is the path
    $ go tool pprof -top {base}/debug/pprof/profile        a shell command that must exit with 0
    $1 curl --fail {base}/nothing                          ... that must exit with 1; $! must exit with anything but 0
    stop service / start service                           kill the service, start it again
    < 200                                                  expect this status
    < content-type: text/plain; charset=utf-8              expect a header with this value
    < content-type ~ text/.*                               expect a header that matches
    < !content-encoding                                    expect no such header
    = num_symbols: 1\\n                                     expect exactly this body (Python escapes)
    ~ ^seconds: "abc" is not                               expect a body that matches (multi-line)
    !~ secret                                              expect a body that does not match
    bytes 1f 8b                                            expect a body that begins with these bytes
    bytes-not 1f 8b                                        expect a body that does not
    seconds 0.9..5                                         expect this duration

Checks apply to the last request or command; the body of a command is its stdout. {base}, {port}, {proto}, {here}, {tmp} and
{gateway_pid} are replaced. With --sonded, --guest and --demo service and targets are real; otherwise fake_service.py runs."""

import argparse
import concurrent.futures
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
START_S, STEP_S = 90, 150
AT_ONCE = 3  # most of a conversation is waiting for captures to end
AT_ONCE_BUSY = 2  # with real targets, which burn CPU time


class Failed(Exception):
    pass


class Process:
    def __init__(self, command, log, env=None):
        self.log = log
        with open(log, "ab") as out:
            self.child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=env)

    def wait_for(self, pattern):
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            with open(self.log, encoding="utf-8", errors="replace") as text:
                match = re.findall(pattern, text.read(), re.M)
            if match:
                return match
            if self.child.poll() is not None:
                break
            time.sleep(0.02)
        raise Failed(f"{self.child.args[0]} did not start: " + self.tail())

    def tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as text:
            return text.read()[-3000:]

    def stop(self, how=signal.SIGTERM):
        """Returns the exit status. A process that must be killed is a failure."""
        if self.child.poll() is None:
            self.child.send_signal(how)
        try:
            return self.child.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise Failed(f"{self.child.args[0]} did not stop") from None


class Stage:
    """The service, the targets and the gateway of a conversation."""

    def __init__(self, tools, directives):
        self.tools, self.directives = tools, directives
        self.tmp = tempfile.mkdtemp(prefix="x.")
        self.service = self.gateway = self.history = None
        self.targets = []
        try:
            for line in directives.get("before", []):
                subprocess.run(line.format(tmp=self.tmp), shell=True, check=True, capture_output=True)
            self.env = dict(os.environ)
            if "settings" in directives:
                self.env["SONDE_CONFIG"] = f"{self.tmp}/sonde.conf"
                with open(self.env["SONDE_CONFIG"], "w", encoding="utf-8") as file:
                    file.write("\n".join(directives["settings"]) + "\n")
            self.start_service()
            if "history" in directives:
                self.history = self.start_fake("history", [])
            self.start_targets()
            self.start_gateway()
        except BaseException:
            self.close()
            raise

    def start_service(self):
        address = f"unix:{self.tmp}/grpc"
        if self.tools.sonded:
            command = [self.tools.sonded, "--socket", f"{self.tmp}/guest", "--grpc", address, "--data-dir",
                       f"{self.tmp}/data"]
            for more in self.directives.get("sonded", []):
                command += shlex.split(more.format(tmp=self.tmp))
        else:
            self.service = self.start_fake("grpc", shlex.split(" ".join(self.directives.get("service", []))))
            return
        log = f"{self.tmp}/service.{time.monotonic_ns()}.log"
        self.service = Process(command, log, self.env)
        self.service.wait_for(r"^grpc: (.*)$")

    def start_fake(self, name, more):
        service = Process(["/usr/bin/python3", "-B", f"{HERE}/fake_service.py", "--proto", self.tools.proto, "--grpc",
                           f"unix:{self.tmp}/{name}", "--targets", self.directives.get("targets", ["redis"])[-1], *more],
                          f"{self.tmp}/{name}.{time.monotonic_ns()}.log")
        service.wait_for(r"^grpc: (.*)$")
        return service

    def start_targets(self):
        if not self.tools.sonded:
            return
        for number, name in enumerate(self.directives.get("targets", ["demo"])[-1].split(",")):
            env = dict(os.environ, LD_PRELOAD=self.tools.guest, SONDE_SOCKET=f"{self.tmp}/guest", SONDE_NAME=name)
            env.update(pair.split("=", 1) for pair in self.directives.get("target-env", []))
            command = shlex.split(self.directives.get("command", [self.tools.demo + " --threads 1"])[-1].format(tmp=self.tmp))
            self.targets.append(Process(command, f"{self.tmp}/target.{number}.log", env))

    def wait_for_targets(self):
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            listed = "".join(subprocess.run(["curl", "-s", "-k", "-g", f"{base}/v1/targets"], capture_output=True, text=True,
                                            check=False).stdout for base in self.bases)
            if listed.count('"uuid"') >= len(self.targets):
                return
            time.sleep(0.05)
        raise Failed("the target did not attach: " + listed + self.service.tail())

    def start_gateway(self):
        listen = self.directives.get("listen", ["127.0.0.1:0"])
        command = [self.tools.gateway, "--service", f"unix:{self.tmp}/grpc"]
        for one in listen:
            command += ["--listen", one.format(tmp=self.tmp)]
        for more in self.directives.get("gateway", []):
            command += shlex.split(more.format(tmp=self.tmp))
        env = dict(self.env, **dict(pair.split("=", 1) for pair in self.directives.get("env", [])))
        self.gateway = Process(command, f"{self.tmp}/gateway.log", env)
        printed = self.gateway.wait_for(r"^http: (http.*)$")
        self.bases = [base.replace("0.0.0.0", "127.0.0.1") for base in printed]
        self.base = self.bases[0]
        self.wait_for_targets()

    def close(self):
        status = None
        for target in self.targets:
            target.stop(signal.SIGKILL)
        if self.gateway:
            status = self.gateway.stop()
        if self.service:
            self.service.stop(signal.SIGTERM if self.tools.sonded else signal.SIGKILL)
        if self.history:
            self.history.stop(signal.SIGKILL)
        if status:
            print(self.gateway.tail())
        shutil.rmtree(self.tmp, ignore_errors=True)
        if status:
            raise Failed(f"the gateway ended with {status}")


class Answer:
    def __init__(self, body, seconds, status=None, headers=None, note=""):
        self.body, self.seconds, self.status, self.headers, self.note = body, seconds, status, headers or {}, note

    def text(self):
        return self.body.decode("utf-8", errors="replace")

    def __str__(self):
        return f"status {self.status}, {len(self.body)} bytes, {self.headers}\n{self.text()[:800]}{self.note[-1500:]}"


def read_headers(path):
    """Returns the last header block of curl's dump."""
    with open(path, encoding="latin-1") as text:
        blocks = [block for block in text.read().replace("\r", "").split("\n\n") if block.strip()]
    if not blocks:
        return None, {}
    lines = blocks[-1].split("\n")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return int(lines[0].split()[1]), headers


def request(stage, arguments):
    words = shlex.split(arguments)
    url = stage.base + words.pop(next(i for i, word in enumerate(words) if word.startswith("/")))
    words = [word.replace("{tmp}", stage.tmp) for word in words]
    dump, body = f"{stage.tmp}/headers", f"{stage.tmp}/body"
    for old in (dump, body):
        if os.path.exists(old):
            os.unlink(old)
    started = time.monotonic()
    run = subprocess.run(["curl", "-s", "-g", "-D", dump, "-o", body, *words, "--path-as-is", url], capture_output=True,
                         text=True, timeout=STEP_S, check=False)
    seconds = time.monotonic() - started
    status, headers = read_headers(dump) if os.path.exists(dump) else (None, {})
    content = b""
    if os.path.exists(body):
        with open(body, "rb") as file:
            content = file.read()
    if "-I" in words and os.path.exists(dump):  # curl prints the headers as the body
        content = content[os.path.getsize(dump):]
    return Answer(content, seconds, status, headers, f"\ncurl ended with {run.returncode} {run.stderr}")


def shell(stage, line, wanted):
    line = line.format(base=stage.base, port=stage.base.rsplit(":", 1)[1], proto=stage.tools.proto, tmp=stage.tmp, here=HERE,
                       gateway_pid=stage.gateway.child.pid)
    env = dict(os.environ, PPROF_TMPDIR=stage.tmp, HOME=stage.tmp, JEPROF_TMPDIR=stage.tmp)
    started = time.monotonic()
    run = subprocess.run(["bash", "-c", line], capture_output=True, timeout=STEP_S, check=False, env=env)
    answer = Answer(run.stdout, time.monotonic() - started, note="\n" + run.stderr.decode(errors="replace"))
    if run.returncode != wanted if wanted is not None else run.returncode == 0:
        raise Failed(f"ended with {run.returncode}: {answer}")
    return answer


def unescape(text):
    return text.encode().decode("unicode_escape").encode("latin-1")


def check_header(answer, rule):
    if rule.isdigit():
        return answer.status == int(rule)
    if rule.startswith("!"):
        return rule[1:].strip() not in answer.headers
    match = re.fullmatch(r"([\w-]+)(: | ~ )(.*)", rule)
    value = answer.headers.get(match.group(1))
    if match.group(2) == ": ":
        return value == match.group(3)
    return value is not None and re.fullmatch(match.group(3), value) is not None


def check(answer, kind, rule):
    if kind == "<":
        return check_header(answer, rule)
    if kind == "=":
        return answer.body == unescape(rule)
    if kind in ("~", "!~"):
        return bool(re.search(rule, answer.text(), re.M)) == (kind == "~")
    if kind in ("bytes", "bytes-not"):
        return answer.body.startswith(bytes.fromhex(rule)) == (kind == "bytes")
    low, high = rule.split("..")
    return float(low) <= answer.seconds <= float(high)


def step(stage, kind, rule, answer):
    """Plays one line. Returns the answer that the following lines check."""
    if kind == ">":
        return request(stage, rule)
    if kind.startswith("$"):
        return shell(stage, rule, None if kind == "$!" else int(kind[1:] or 0))
    if kind == "stop":
        stage.service.stop(signal.SIGKILL)
        return None
    if kind == "start":
        if os.path.exists(f"{stage.tmp}/grpc"):
            os.unlink(f"{stage.tmp}/grpc")
        stage.start_service()
        return None
    if answer is None or not check(answer, kind, rule):
        raise Failed(f"expected: {kind} {rule}\ngot: {answer}")
    return answer


def read(path):
    directives, lines = {}, []
    with open(path, encoding="utf-8") as text:
        for number, line in enumerate(text.read().split("\n"), 1):
            if not line.strip() or line.startswith("#"):
                continue
            kind, _, rule = line.partition(" ")
            if kind == "%":
                name, _, value = rule.partition(" ")
                directives.setdefault(name, []).append(value)
            else:
                lines.append((number, kind, rule))
    return directives, lines


def play(path, tools):
    directives, lines = read(path)
    stage = Stage(tools, directives)
    answer, number = None, 0
    try:
        for number, kind, rule in lines:
            answer = step(stage, kind, rule, answer)
    except (Failed, OSError, subprocess.SubprocessError) as failure:
        raise Failed(f"{path}:{number}: {failure}\n--- gateway\n{stage.gateway.tail()}"
                     f"\n--- service (status {stage.service.child.poll()})\n{stage.service.tail()}") from failure
    finally:
        stage.close()
    if not lines:
        raise Failed(f"{path}: nothing to play")


def try_to_play(path, tools):
    """Whether it went as written."""
    started = time.monotonic()
    try:
        play(path, tools)
    except Failed as failure:
        print(f"FAIL {os.path.basename(path)}: {failure}", flush=True)
        return False
    print(f"ok   {os.path.basename(path)} ({time.monotonic() - started:.1f} s)", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gateway", required=True)
    parser.add_argument("--proto", default="proto/sonde/v1/profiler.proto")
    parser.add_argument("--sonded")
    parser.add_argument("--guest")
    parser.add_argument("--demo")
    parser.add_argument("files", nargs="+")
    tools = parser.parse_args()
    for name in ("gateway", "proto", "sonded", "guest", "demo"):
        if getattr(tools, name):
            setattr(tools, name, os.path.abspath(getattr(tools, name)))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE_BUSY if tools.sonded else AT_ONCE) as pool:
        passed = sum(pool.map(lambda path: try_to_play(path, tools), tools.files))
    print(f"{passed} passed, {len(tools.files) - passed} failed")
    return 1 if passed < len(tools.files) else 0


sys.exit(main())
