# SPDX-License-Identifier: Apache-2.0
"""Local users who ask root's sonded to sample processes of other users from outside. The attacker is the user nobody."""

import json
import os
import shutil
import subprocess

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import users
from tests.e2e.users.users import RPC, as_nobody, stop
from tests.hostile.callers import Stage, as_root, grpc_as

CPU_PATHS = ("/debug/pprof/profile?seconds=1", "/pprof/profile?seconds=1", "/profile?duration=1", "/profile_start", "/profile_stop",
             "/task_backtraces", "/debug/pprof/cmdline", "/debug/pprof/symbol", "/v1/cpu/live?windows=1")


class Unprepared:
    """A Stage, and processes without the guest: root's ("rootbusy"), nobody's ("ownbusy"), and one that nobody started with
    root's rights ("suidbusy")."""

    def __init__(self, *sonded_flags):
        self.names = ("rootbusy", "ownbusy", "suidbusy")
        self.processes = {}
        self.stage = Stage("--loopback", "everybody", sonded_flags=sonded_flags)
        try:
            for name in self.names:
                path = os.path.join(stack.WORK, name)
                shutil.copy(users.BUSY, path)
                os.chmod(path, 0o4755 if name == "suidbusy" else 0o755)
                who = as_root if name == "rootbusy" else as_nobody
                self.processes[name] = users.start(*who(path), stdout=subprocess.DEVNULL)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        check.until(lambda: all(name in self.ask("/v1/targets?all=true", who=as_root)[1] for name in self.names), what="all processes")
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            stop(process)
        self.stage.__exit__()

    def ask(self, *words, **more):
        return self.stage.ask(*words, **more)

    def statuses(self, paths):
        """What nobody gets for each path, from one curl."""
        words = [word for path in paths for word in ("-o", "/dev/null", f"http://{self.stage.host}{path}")]
        done = subprocess.run(as_nobody("curl", "-s", "-m", "60", "-w", "%{http_code}\n", *words), capture_output=True, text=True,
                              timeout=90, check=False)
        return done.stdout.split()

    def uuid(self, name):
        listed = json.loads(self.ask("/v1/targets?all=true", who=as_root)[1])["targets"]
        return next(target["uuid"] for target in listed if target["name"] == name)


def check_hidden(case, name):
    pid = case.processes[name].pid
    paths = [f"/t/{pid}{path}" for path in CPU_PATHS]
    paths += [f"{target}/debug/pprof/profile?seconds=1" for target in (f"/t/{name}", f"/t/@all:{pid}", f"/t/@all:{name}")]
    paths += [f"/debug/pprof/profile?seconds=1&pid={pid}&source=host"]
    for path, status in zip(paths, case.statuses(paths), strict=True):
        check.equal(status, "404", path)
    check.equal(case.ask(f"/t/{pid}/debug/pprof/profile?seconds=1", "-H", "sonde-caller-uid: 0")[0], 404)
    selector = b"\x1a\x20" + case.uuid(name).encode()
    request = b"\x0a" + bytes([len(selector)]) + selector
    status, text = grpc_as(as_root, RPC, "CaptureCpu:" + request.hex(), [f"sonde-caller-uid={users.NOBODY}"])
    check.equal(status, 1)
    check.contains(text, "NOT_FOUND")


def sampled(case, target):
    """A profile with the loop of BUSY; None if a busy machine gave it no time."""
    status, body = case.ask(f"{target}/debug/pprof/profile?seconds=1&frequency=499&output=collapsed")
    check.equal(status, 200, target)
    return body if "burn" in body else None


def check_sampling_from_outside(case):
    status, body = case.ask("/v1/targets?all=true")
    check.equal(status, 200)
    check.contains(body, "ownbusy")
    for name in ("rootbusy", "suidbusy"):
        assert name not in body, body
        check_hidden(case, name)
    own = case.processes["ownbusy"].pid
    for target in (f"/t/{own}", "/t/@all", f"/t/@all:{own}"):
        body = check.until(lambda: sampled(case, target), 60, f"a sample of {target}")
        for name in ("rootbusy", "suidbusy"):
            assert name not in body, (target, body)
    check.until(lambda: "rootbusy" in case.ask("/t/@all/debug/pprof/profile?seconds=1&output=collapsed", who=as_root)[1], 60,
                "root's process")


def test_other_users_sample_only_their_own_processes_from_outside():
    with Unprepared("--everybody") as case:
        check_sampling_from_outside(case)
        hidden = [f"/t/{target}/debug/pprof/profile?seconds=1&source=host" for target in ("mine", "@all:mine")]
        check.equal(case.statuses(hidden), ["404", "404"])


def test_guests_that_a_sonded_of_one_user_shows_are_not_sampled_from_outside_by_others():
    with Unprepared() as case:
        assert "rootbusy" not in case.ask("/v1/targets?all=true")[1]
        check_hidden(case, "rootbusy")
        check.equal(case.ask("/t/mine/debug/pprof/profile?seconds=1")[0], 200)
        status, body = case.ask("/t/mine/debug/pprof/profile?seconds=1&source=host")
        check.equal(status, 403)
        check.contains(body, "only your own processes can be sampled from outside")


users.install()
check.main(globals())
