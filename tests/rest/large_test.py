#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A result of many chunks, over every protocol: large_test.py FAKE_SERVER GATEWAY. The gateway passes the bytes on without
copying them, so this checks that they arrive unchanged and are released when a client leaves."""

import concurrent.futures
import hashlib
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.getcwd())
from tests.cli import check  # noqa: E402

FAKE_SERVER, GATEWAY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
FOLDER = check.short_folder()
PATH = "/debug/pprof/profile?seconds=1&output=collapsed"
BYTES = 3000 * 2000  # at least; about 12 chunks


def make_certificate():
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-keyout", f"{FOLDER}/key", "-out", f"{FOLDER}/cert"], check=True, capture_output=True)
    return "--tls-cert", f"{FOLDER}/cert", "--tls-key", f"{FOLDER}/key"


def side_by_side(function, arguments):
    """What the function gives for each of the argument lists."""
    with concurrent.futures.ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(lambda list_: function(*list_), arguments))


def fetch(url, *options):
    """(length, hash) of a body."""
    done = subprocess.run(["curl", "-sf", *options, url + PATH], capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, f"curl {options} gave {done.returncode}"
    return len(done.stdout), hashlib.sha256(done.stdout).hexdigest()


def of_processes():
    return [len(os.listdir(f"/proc/{child.pid}/fd")) for child in (SERVICE, OPEN)]


def leave(*options):
    """Takes a part of it, then goes."""
    with subprocess.Popen(["curl", "-sN", URL + PATH, *options], stdout=subprocess.PIPE) as client:
        client.stdout.read(1 << 20)
        client.kill()


def test_every_protocol_delivers_the_same_bytes():
    plain = fetch(URL)
    assert plain[0] > BYTES, plain
    roads = [(URL, "--http1.0"), (URL, "--compressed"), (URL, "--http2-prior-knowledge"),
             (URL, "--http2-prior-knowledge", "--compressed"), (SECURE_URL, "-k", "--http1.1"), (SECURE_URL, "-k", "--http2"),
             (SECURE_URL, "-k", "--http2", "--compressed")]
    for road, found in zip(roads, side_by_side(fetch, roads)):
        check.equal(found, plain, f"the body by way of {road}")


def test_a_slow_reader_gets_the_same_bytes():
    check.equal(fetch(URL, "--limit-rate", "8M"), fetch(URL), "the body of a slow reader")


def test_clients_that_leave_in_the_middle_leave_nothing_behind():
    plain, before = fetch(URL), of_processes()
    side_by_side(leave, [[], ["--http2-prior-knowledge"], ["--compressed"]] * 4)
    check.until(lambda: of_processes() <= before, what="the end of all that clients left")
    check.equal(fetch(URL), plain, "the body after them")


SERVICE, ADDRESS = check.start(FAKE_SERVER, "--grpc", f"unix:{FOLDER}/rpc", "--stacks", "3000", "--name-len", "2000")
OPEN, URL = check.start(GATEWAY, "--quiet", "--listen", "127.0.0.1:0", "--service", ADDRESS)
SECURE, SECURE_URL = check.start(GATEWAY, "--quiet", "--listen", "127.0.0.1:0", "--service", ADDRESS, *make_certificate())
try:
    check.main(globals())
finally:
    for process in (OPEN, SECURE, SERVICE):
        check.stop(process)
        if process.returncode not in (0, None):
            print(f"{process.args[0]} ended with {process.returncode}", flush=True)
            os._exit(1)  # a sanitizer has something to say
    shutil.rmtree(FOLDER, ignore_errors=True)
