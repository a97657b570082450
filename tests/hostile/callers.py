# SPDX-License-Identifier: Apache-2.0
"""Root's sonded and gateway, and how other users ask them."""

import subprocess

from tests.cli import check
from tests.e2e.users import users
from tests.e2e.users.users import as_nobody, gateway, server, sonded, stop, targets


class Stage:
    """Root's sonded for everybody with a server of root's ("mine") and one of nobody's ("others"), and root's gateway."""

    def __init__(self, *gateway_flags, sonded_flags=("--everybody",)):
        self.processes = []
        names = ("mine", "others") if "--everybody" in sonded_flags else ("mine",)
        try:
            self.processes.append(sonded(*sonded_flags))
            self.gateway, self.host = gateway(*gateway_flags)
            self.processes.append(self.gateway)
            self.processes += [server(uid=0 if name == "mine" else users.NOBODY, name=name) for name in names]
            check.until(lambda: all(name in targets() for name in names), what="the targets")
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            stop(process)

    def ask(self, path, *flags, who=as_nobody, base=None):
        """Returns the status and the body."""
        command = ("curl", "-s", "-m", "60", "-w", "\n%{http_code}", *flags, (base or f"http://{self.host}") + path)
        done = subprocess.run(who(*command), capture_output=True, text=True, errors="replace", timeout=90, check=False)
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body

    def heap_is_active(self):
        return '"active":true' in self.ask("/t/mine/v1/heap", who=as_root)[1]


def as_root(*words):
    return words


def grpc_as(who, address, method="ListTargets", metadata=()):
    """Returns (status, text) of a call by another process. method: NAME or NAME:REQUEST, in hexadecimal, of the service Profiler,
    or SERVICE/NAME."""
    program = ("import grpc, sys\n"
               "channel = grpc.insecure_channel(sys.argv[1])\n"
               "pairs = [pair.split('=', 1) for pair in sys.argv[3:]]\n"
               "try:\n"
               "    method, _, request = sys.argv[2].partition(':')\n"
               "    call = channel.unary_unary('/sonde.v1.' + (method if '/' in method else 'Profiler/' + method))\n"
               "    print(call(bytes.fromhex(request), metadata=pairs, timeout=20))\n"
               "except grpc.RpcError as error:\n"
               "    print(error.code(), error.details())\n"
               "    sys.exit(1)\n")
    done = subprocess.run(who("/usr/bin/python3", "-c", program, address, method, *metadata), capture_output=True, text=True,
                          timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr
