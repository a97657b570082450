# SPDX-License-Identifier: Apache-2.0
"""A sonded that records the machine, for the tests of this folder."""

import json
import os
import subprocess

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import users


class Service:
    """A sonded with a history, as a user."""

    def __init__(self, uid, name, rate, *flags):
        self.folder = os.path.join(stack.WORK, name)
        os.makedirs(self.folder, 0o700, exist_ok=True)
        os.chown(self.folder, uid, uid)
        self.log = open(os.path.join(stack.WORK, name + ".log"), "w+", encoding="utf-8")
        self.guest, self.address = f"{self.folder}/guest.sock", f"unix:{self.folder}/grpc.sock"
        self.process = subprocess.Popen(
            [*users.as_user(uid), os.path.join(stack.PREFIX, "bin/sonded"), "--socket", self.guest, "--grpc", self.address, "--data-dir",
             self.folder, "--history", "--history-hz", str(rate), *flags], env=stack.environment(), stdout=subprocess.PIPE,
            stderr=self.log, text=True)
        assert "grpc: " in self.process.stdout.readline(), self.said()

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def sonde(self, *words):
        done = subprocess.run([stack.SONDE, *words, "--service", self.address], env=stack.environment(), capture_output=True, text=True,
                              timeout=60, check=False)
        return done.stdout, done.stderr

    def history(self, *words):
        return self.sonde("history", *words)

    def total(self, path, *words):
        out, _ = self.history(*([os.path.basename(path)] if path else []), "-o", "-", "--format", "collapsed", *words)
        return sum(int(line.rsplit(" ", 1)[1]) for line in out.splitlines())

    def services(self, *words):
        """CPU time by service, in ns."""
        return {one["name"]: int(one["onCpuNs"]) for one in json.loads(self.history("--list", "--json", *words)[0])["services"]}

    def doctor(self):
        return self.sonde("doctor")[0]

    def end(self):
        check.stop(self.process)
        self.process.stdout.close()
        self.log.close()
