# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: an installed Sonde and a server that runs under it. Only install() depends on Bazel: it runs
the same script as `bazel run //:install`."""

import atexit
import http.client
import json
import os
import re
import shutil
import subprocess
import threading
import time

from tests.cli import check

WORK = check.short_folder()
PREFIX = os.path.join(WORK, "prefix")
SONDE = os.path.join(PREFIX, "bin/sonde")
atexit.register(shutil.rmtree, WORK, ignore_errors=True)


def install():
    subprocess.run(["./install", "--prefix", PREFIX], check=True, stdout=subprocess.DEVNULL)


def environment():
    """The environment without the user's Sonde settings, with guests as the source of samples, and with a runtime folder of our
    own, where `sonde top` looks for running services."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SONDE_")}
    runtime = os.path.join(WORK, "run")
    os.makedirs(runtime, mode=0o700, exist_ok=True)
    env.update(XDG_RUNTIME_DIR=runtime, SONDE_DATA_DIR=os.path.join(WORK, "data"), HOME=WORK, SONDE_SOURCE="guest")
    for name in ("LD_PRELOAD", "BUILD_WORKING_DIRECTORY", "PPROF_TMPDIR"):
        env.pop(name, None)
    env["PATH"] = "/usr/local/bin:/usr/bin:/bin:" + env.get("PATH", "")
    return env


def sonde(*words, status=0, timeout=60):
    """Runs a verb of `sonde`, checks its exit status (None = any) and returns (stdout, stderr)."""
    done = subprocess.run([SONDE, *words], env=environment(), capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, check=False)
    assert status in (None, done.returncode), f"sonde {words} returned {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout, done.stderr


class Server:
    """`sonde run -- COMMAND`, which runs until the end of the with block."""

    def __init__(self, *command, flags=(), ready=None, env=None, cwd=WORK):
        self.process = subprocess.Popen(
            [SONDE, "run", "--http", "127.0.0.1:0", *flags, "--", *command], env={**environment(), **(env or {})},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=cwd)
        self.out, self.err = [], []
        self.threads = [threading.Thread(target=self._read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))]
        for thread in self.threads:
            thread.start()
        try:
            self.page = check.until(self._page, seconds=60, what=f"the gateway's URL for {command[0]}")
            self.host = self.page.removeprefix("http://")
            if ready:
                check.until(lambda: self.process.poll() is not None or any(ready in line for line in self.out),
                            what=f"{ready!r} from {command[0]}")
            self.pid = check.until(self._command, what="the command's process")
            check.until(lambda: self.process.poll() is not None or self.targets(), what="an attached target")
        except BaseException:
            self.stop()
            raise
        assert self.process.poll() is None, "".join(self.out + self.err)

    def _read(self, source, lines):
        for line in source:
            lines.append(line)

    def _page(self):
        assert self.process.poll() is None, "".join(self.out + self.err)
        return next((line.split()[1] for line in self.err if line.startswith("http: ")), None)

    def _command(self):
        helpers = self.helpers().values()
        found = [pid for pid, _ in check.children(self.process.pid) if pid not in helpers]
        return found[0] if found else None

    def helpers(self):
        return {name: pid for pid, name in check.children(self.process.pid) if name in ("sonded", "sonde-gateway")}

    def get(self, path, headers=None, timeout=60, method="GET", body=None):
        """Sends one request and returns (status, headers, body)."""
        connection = http.client.HTTPConnection(self.host, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers={"Accept": "*/*", **(headers or {})})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def targets(self):
        """The attached targets, as listed by the gateway; an empty list while it does not answer."""
        try:
            status, _, body = self.get("/v1/targets")
        except OSError:
            return []
        return json.loads(body).get("targets", []) if status == 200 else []

    def stacks(self, seconds=2, frequency=499, prefix=""):
        """Takes a CPU profile and returns [(frames, count)], where frames are the thread's name and the functions, root first."""
        status, _, body = self.get(f"{prefix}/debug/pprof/profile?seconds={seconds}&frequency={frequency}"
                                   "&output=collapsed&threads=split")
        text = body.decode("utf-8", "replace")
        assert status == 200, f"{status}: {text}; sonde run said: {''.join(self.err[-5:])}"
        return [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in text.splitlines()]

    def stop(self):
        check.stop(self.process)
        for thread in self.threads:
            thread.join(5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def total(stacks):
    return sum(count for _, count in stacks)


def leaf_share(stacks, name):
    """The share of all samples whose leaf is the function."""
    return sum(count for frames, count in stacks if name in frames[-1]) / max(total(stacks), 1)


def chain_share(stacks, *names):
    """Of the samples whose leaf is names[-1], the share whose last frames are exactly `names`, callers first."""
    leaves = [(frames, count) for frames, count in stacks if matches(frames[-1], names[-1])]
    good = sum(count for frames, count in leaves
               if len(frames) >= len(names) and all(map(matches, frames[-len(names):], names)))
    return good / max(sum(count for _, count in leaves), 1)


def matches(frame, name):
    """Whether the frame is the function, in any namespace and with any arguments."""
    return re.search(rf"(^|::){re.escape(name)}(\(|$)", frame) is not None


class Load:
    """A command that runs in the background until the end of the with block."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        time.sleep(0.2)
        return self

    def __exit__(self, *_):
        check.stop(self.process)
