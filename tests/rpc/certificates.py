# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made by openssl, and programs whose log can be waited for."""

import os
import shutil
import signal
import subprocess
import threading

import grpc

from tests.cli import check

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("SONDE_")}


class Certificates:
    """A folder with NAME.pem and NAME.key for each name that was issued."""

    def __init__(self):
        self.folder = check.short_folder()

    def path(self, name):
        return os.path.join(self.folder, name)

    def issue(self, name, signer=None, alternative="IP:127.0.0.1"):
        """Signed by `signer`, or a CA that signs itself."""
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                   "-subj", f"/CN={name}", "-keyout", self.path(name + ".key"), "-out", self.path(name + ".pem"),
                   "-addext", f"subjectAltName={alternative}"]
        if signer:
            command += ["-CA", self.path(signer + ".pem"), "-CAkey", self.path(signer + ".key"),
                        "-addext", "basicConstraints=critical,CA:FALSE"]
        subprocess.run(command, check=True, capture_output=True)
        os.chmod(self.path(name + ".key"), 0o600)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def replace(self, name, by):
        """As a renewal does it: a new file takes the name."""
        shutil.copy(self.path(by), self.path("new"))
        os.rename(self.path("new"), self.path(name))

    def renew(self, name, by):
        self.replace(name + ".key", by + ".key")
        self.replace(name + ".pem", by + ".pem")

    def credentials(self, ca, client=None):
        identity = (self.read(client + ".key"), self.read(client + ".pem")) if client else ()
        return grpc.ssl_channel_credentials(self.read(ca + ".pem"), *identity)

    def remove(self):
        shutil.rmtree(self.folder)


class Program:
    """A program that prints its addresses on stdout; runs until the end of the with block. log has its lines on stderr."""

    def __init__(self, *command, addresses=1):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
                                        errors="replace")
        self.log = []
        self.reader = threading.Thread(target=lambda: [self.log.append(line) for line in self.process.stderr], daemon=True)
        self.reader.start()
        lines = [self.process.stdout.readline() for _ in range(addresses)]
        assert all(": " in line for line in lines), (lines, self.log)
        self.addresses = [line.split(": ", 1)[1].strip() for line in lines]

    def lines(self, part):
        return [line for line in list(self.log) if part in line]

    def until(self, part, count=1):
        return check.until(lambda: len(self.lines(part)) >= count and self.lines(part), what=f"{part!r} in the log {self.log}")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(30)
        self.reader.join(10)
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end()
        self.process.stdout.close()
        self.process.stderr.close()


def refusal(*command):
    """The status and stderr of a program that must not start."""
    job = subprocess.run(command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT, check=False)
    return job.returncode, job.stderr


def write_secret(path, text):
    with open(path + ".new", "w", opener=lambda name, flags: os.open(name, flags, 0o600), encoding="ascii") as file:
        file.write(text)
    os.rename(path + ".new", path)
