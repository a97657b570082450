# SPDX-License-Identifier: Apache-2.0
"""A sonded that registers with sonde-collect: nothing is lost while either is away, only the right token may register, and `sonde
fleet` says what is going on."""

import json
import os
import socket

from tests.cli import check
from tests.e2e import stack
from tests.e2e.fleet.machines import (HISTORY, HOSTS, SPOOL, clock_ns, refused, start_collect, start_demo, start_history, start_sonded,
                                stored_ns, until_stored, write_hosts)

CONTROLLER = "unix:" + os.path.join(stack.WORK, "controller.sock")
HOST = os.uname().nodename  # what windows call this machine
TOKENS = {"register": "register-register-register", "read": "read-read-read-read", "control": "control-control-control"}


def secret(name, text):
    path = os.path.join(stack.WORK, name)
    with open(path, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(text + "\n")
    return path


ALL_TOKENS = secret("tokens", "\n".join(f"{token} {scope}" for scope, token in TOKENS.items()))
REGISTER_TOKEN = secret("register-token", TOKENS["register"])


def start_controller(*flags, hosts=()):
    """The controller, and the address that it listens on besides CONTROLLER."""
    collect = start_collect("--token-file", ALL_TOKENS, *(flags or ("--grpc", "127.0.0.1:0")), "--grpc", CONTROLLER, hosts=hosts,
                            ready="grpc: ")
    return collect, collect.ready.removeprefix("grpc: ")


def start_host(machine, address, *flags, token=REGISTER_TOKEN):
    return start_sonded(machine, "--register", address, "--register-name", machine, "--register-token-file", token, *flags)


def fleet(*words, controller=CONTROLLER, status=0):
    return stack.sonde("fleet", *words, "--controller", controller, status=status)


def hosts():
    return {host["name"]: host for host in json.loads(fleet("hosts", "--json")[0])["hosts"]}


def is_connected(name):
    host = hosts().get(name)
    return host and host["state"] == "FLEET_HOST_CONNECTED" and not host["trouble"]


def test_what_a_registered_host_records_is_stored_once_although_the_controller_is_killed():
    collect, address = start_controller()
    with start_history(), collect, start_host("behind-nat", address) as sonded:
        check.until(lambda: is_connected("behind-nat"), what="the registration")
        check.contains(sonded.logged(), f"registered with {address} as behind-nat")
        demo = start_demo("behind-nat", 14)
        check.until(lambda: stored_ns(HOST, "host") > 0, seconds=40, what="the first window")
        collect.kill()
        expected_ns = clock_ns(demo)
        collect, _ = start_controller("--grpc", address)
        with collect:
            until_stored(HOST, expected_ns, "host")
            check.near(stored_ns(HOST, "host"), expected_ns, 0.15 * expected_ns, "CPU time")
            check.equal(collect.end(), 0, "status of the controller")
        check.equal(sonded.end(), 0, "status of sonded")


def test_only_the_token_and_the_name_that_fit_may_register():
    write_hosts("listed")
    collect, address = start_controller(hosts=("--hosts", HOSTS))
    with start_history(), collect:
        for scope in ("read", "control"):
            with start_host("a", address, token=secret(f"{scope}-token", TOKENS[scope])) as sonded:
                check.until(lambda: "lacks the scope register" in sonded.logged(), what=f"the refusal of the scope {scope}")
        with start_host("b", address, token=secret("wrong-token", "wrong-wrong-wrong-wrong")) as sonded:
            check.until(lambda: "needs an access token" in sonded.logged(), what="the refusal of a wrong token")
        with start_host("c", address, "--register-name", "two words") as sonded:
            check.until(lambda: "a host's name has 1 to 255 letters" in sonded.logged(), what="the refusal of a name")
        check.until(lambda: "listed" in hosts(), what="the list")
        with start_host("d", address, "--register-name", "listed") as sonded:
            check.until(lambda: "host listed is listed in file" in sonded.logged(), what="the refusal of a listed name")
        with start_host("e", address, "--register-name", "same"):
            check.until(lambda: is_connected("same"), what="the first of a name")
            with start_host("f", address, "--register-name", "same") as second:
                check.until(lambda: "another host is connected as same" in second.logged(), what="the refusal of the second")
            assert is_connected("same"), "the second host of a name disturbed the first"
        check.equal(sorted(hosts()), ["listed", "same"], "hosts")
        check.contains(fleet("hosts", "--token", TOKENS["register"], controller=address, status=4)[1], "lacks the scope read")
        check.equal(collect.end(), 0, "status")


def test_an_operator_sees_why_and_pauses_the_fleet():
    write_hosts("gone")
    collect, address = start_controller(hosts=("--hosts", HOSTS, "--breaker", "100"))
    with start_history(), collect, start_host("g", address) as sonded:
        check.until(lambda: is_connected("g"), what="the registration")
        check.until(lambda: hosts()["gone"]["failures"] > 0, what="a try")
        out, _ = fleet("status")
        check.contains(out, "1 of 2 are connected")
        lines = fleet("hosts", "--trouble")[0].splitlines()
        assert len(lines) == 2 and " gone (" in lines[1], lines
        check.contains(fleet("why", "gone")[0], "is not connected")
        check.contains(fleet("why", "gone")[0], "The reason: ")
        check.contains(fleet("why", "g")[0], "which registered itself) has been connected")
        check.contains(fleet("why", "g")[0], "No process there is recorded")
        check.contains(fleet("why", "g")[0], f"It calls itself {socket.gethostname()}, and so do its windows")
        check.contains(fleet("why", "none", status=1)[1], 'no host is called "none"')
        check.contains(fleet("pause", "an incident", "--token", TOKENS["read"], controller=address, status=4)[1], "scope control")
        check.contains(fleet("pause", "x" * 256, status=2)[1], "255")
        check.contains(fleet("pause", "an incident", "--token", TOKENS["control"], controller=address)[0], "an incident")
        check.until(lambda: "totals, paused" in sonded.logged(), what="the pause on the host")
        check.contains(collect.logged(), "audit: SetPaused(true) by ipv4:127.0.0.1:")
        check.contains(fleet("why", "g")[0], "All recording is paused")
        fleet("resume")
        assert not os.path.exists(os.path.join(SPOOL, "paused")), "the switch is still there"
        check.equal(sonded.end(), 0, "status of sonded")
        check.until(lambda: "FLEET_HOST_WAITING" in hosts()["g"]["state"], what="the end of the call")
        check.contains(fleet("why", "g")[0], "It will call again by itself")
        check.equal(collect.end(), 0, "status")
        check.contains(fleet("status", status=3)[1], "cannot reach sonde-collect")


def test_mistakes_are_refused_with_what_to_do():
    flags = ["--history", HISTORY, "--spool", SPOOL + "2", "--grpc"]
    check.contains(refused(*flags, "127.0.0.1:0"), "give --token-file")
    check.contains(refused(*flags, "nowhere"), "neither unix:PATH nor HOST:PORT")
    check.contains(refused(*flags, "unix:" + "x" * 200), "the path of a unix socket has 1 to")
    check.contains(refused(*flags, "unix:" + ALL_TOKENS), "is not a socket")
    check.contains(refused(*flags, CONTROLLER, "--token-file", secret("empty", "# none")), "the token file has no tokens")
    check.contains(refused(*flags, CONTROLLER, "--tls-cert", ALL_TOKENS), "TLS needs both a certificate and its key")
    check.contains(refused("--history", HISTORY, "--spool", SPOOL + "2"), "--hosts is missing")
    folder = ["--socket", f"{stack.WORK}/m.sock", "--grpc", f"unix:{stack.WORK}/m-grpc.sock", "--data-dir", f"{stack.WORK}/m"]
    for words, text in ((("--register", "nowhere"), "neither HOST:PORT nor unix:PATH"),
                        (("--register", "x:1", "--no-collect"), "does not go with --no-collect"),
                        (("--register", "x:1", "--register-cert", ALL_TOKENS), "need --register-ca"),
                        (("--register", "x:1", "--register-token-file", "/none"), "/none"),
                        (("--register", "x:1") * 5, "--register can be given 4 times")):
        check.contains(refused(*folder, *words, program="sonded"), text)


check.main(globals())
