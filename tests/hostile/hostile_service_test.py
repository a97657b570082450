# SPDX-License-Identifier: Apache-2.0
"""A process that poses as sonded attacks a server: another user's must get nothing at all, and the same user's must not be able to
kill the server."""

import os
import queue
import secrets
import shutil
import subprocess
import sys
import threading

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import users

PROGRAMS = os.path.join(stack.WORK, "hostile")
OPEN = os.path.join(stack.WORK, "open")  # like /tmp
STRANGER = 1234
# Prints the guest's state whenever it changes.
STATUS = """
import ctypes, time
status, last = ctypes.CDLL(None).sonde_status, b""
status.restype = ctypes.c_char_p
while True:
    now = status()
    if now != last:
        print(now.decode(), flush=True)
    last = now
    time.sleep(0.02)
"""


class Lines:
    """What a process prints, line by line."""

    def __init__(self, *words, **more):
        self.process = users.start(*words, stdout=subprocess.PIPE, **more)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())

    def next(self):
        try:
            return self.lines.get(timeout=90)
        except queue.Empty:
            raise AssertionError("nothing was printed") from None

    def until(self, part):
        line = self.next()
        while part not in line:
            line = self.next()
        return line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        users.stop(self.process)


def service(uid, path, *way):
    """service.py, which listens already."""
    started = Lines(*users.as_user(uid, sys.executable, os.path.join(PROGRAMS, "service.py"), path, *way),
                    env=stack.environment())
    check.equal(started.next(), "listening")
    return started


def server(uid, path, *command, wrap=()):
    """The guest is loaded only into the command, not into the programs that change the user."""
    guest = ("env", "LD_PRELOAD=" + os.path.join(stack.PREFIX, "lib/libsonde.so"), "SONDE_SOCKET=" + path)
    return Lines(*users.as_user(uid, *wrap, *guest, *(command or (users.BUSY,))), env=stack.environment())


def fresh(name):
    """A path in a directory that everybody can write."""
    shutil.rmtree(OPEN, ignore_errors=True)
    os.mkdir(OPEN)
    os.chmod(OPEN, 0o1777)
    return os.path.join(OPEN, name)


def test_a_stranger_that_binds_the_abstract_socket_first_gets_nothing():
    path = "@sonde-hostile-" + secrets.token_hex(8)
    with service(users.NOBODY, path, "listen") as stranger, server(0, path):
        check.equal(stranger.next(), "received 0 bytes")


def test_a_stranger_that_binds_a_socket_in_an_open_directory_gets_nothing_and_the_real_service_is_found_later():
    path = fresh("guest.sock")
    with server(0, path) as victim:
        with service(users.NOBODY, path, "listen") as stranger:
            check.equal(stranger.next(), "received 0 bytes")
        os.unlink(path)
        with service(0, path, "listen") as real:
            assert int(real.next().split()[1]) > 0
        assert victim.process.poll() is None


def test_a_stranger_cannot_serve_a_server_of_another_unprivileged_user():
    path = fresh("guest.sock")
    with service(STRANGER, path, "listen") as stranger, server(users.NOBODY, path):
        check.equal(stranger.next(), "received 0 bytes")


def test_users_without_a_number_in_a_user_namespace_are_not_taken_for_the_own_user():
    path = fresh("guest.sock")
    wrap = ("unshare", "--user", "--")
    if subprocess.run(users.as_nobody(*wrap, "true"), capture_output=True, check=False).returncode != 0:
        raise check.Skip("user namespaces are not permitted here")
    with service(STRANGER, path, "listen") as stranger, server(users.NOBODY, path, wrap=wrap):
        check.equal(stranger.next(), "received 0 bytes")


def test_root_and_the_own_user_may_serve():
    for uid in (0, users.NOBODY):
        path = fresh("guest.sock")
        with service(uid, path, "listen") as real, server(users.NOBODY, path):
            assert int(real.next().split()[1]) > 0


def test_the_program_can_read_who_was_refused():
    path = fresh("guest.sock")
    with service(STRANGER, path, "listen"), server(users.NOBODY, path, sys.executable, "-c", STATUS) as victim:
        check.equal(victim.until("refused"), f"refused: its listener (uid {STRANGER}) is neither root nor this user: {path}")


def test_an_ordinary_file_as_unwind_table_does_not_kill_the_server():
    path, file, table = fresh("guest.sock"), os.path.join(OPEN, "table"), os.path.join(stack.WORK, "busy.table")
    subprocess.run(["tests/fuzz/unwind/make_table", users.BUSY, table], check=True)
    os.chmod(table, 0o644)
    with service(users.NOBODY, path, "table", file, table) as hostile, server(users.NOBODY, path) as victim:
        check.equal(hostile.next(), "truncated")
        said = hostile.next()
        assert victim.process.poll() is None, f"the server ended with {victim.process.returncode}"
        check.equal(said, "survived")


users.install()
if os.geteuid() == 0:
    shutil.copytree("tests/hostile", PROGRAMS, ignore=lambda _, names: [name for name in names if not name.endswith(".py")])
check.main(globals())
