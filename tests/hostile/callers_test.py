# SPDX-License-Identifier: Apache-2.0
"""Local users who ask for what is not theirs: through root's gateway, through sonded's gRPC sockets, and through those of others.
The attacker is the user nobody."""

import os
import shutil
import signal
import subprocess
import time

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users import users
from tests.e2e.users.users import RPC, as_nobody
from tests.hostile.callers import Stage, as_root, grpc_as

TOKEN = "a-token-of-the-test"
TOKENS = os.path.join(stack.WORK, "tokens")
REFUSED = "serves its own user and root"
PATHS = ("/", "/nothing", "/healthz", "/metrics", "/openapi.yaml", "/v1/targets", "/v1/info", "/v1/captures", "/v1/heap",
         "/t/mine/debug/pprof/cmdline", "/t/mine/debug/pprof/profile?seconds=1", "/t/mine/pprof/profile?seconds=1",
         "/t/mine/debug/pprof/heap", "/t/mine/debug/pprof/heap_activate", "/t/mine/debug/prof/cpu?seconds=1",
         "/t/mine/debug/prof/mem", "/t/mine/profile?duration=1", "/t/mine/task_backtraces", "/t/mine/heap_snapshot",
         "/t/mine/v1/cpu/live", "/t/mine/debug/pprof/allocs?seconds=1", "/v1/profile/ProfileTracing")


def refused(answer):
    check.equal(answer[0], 401, answer[1])
    check.contains(answer[1], REFUSED)


def write_tokens():
    with open(TOKENS, "w", encoding="ascii") as file:
        file.write(TOKEN + "\n")
    os.chmod(TOKENS, 0o600)


def grpc_as_nobody(address, method="ListTargets", metadata=()):
    return grpc_as(as_nobody, address, method, metadata)


def test_other_users_get_nothing_from_roots_gateway():
    with Stage() as stage:
        for path in PATHS:
            refused(stage.ask(path))
        refused(stage.ask("/t/mine/v1/heap?active=true", "-X", "PUT"))
        refused(stage.ask("/t/mine/debug/prof/mem/activate", "-X", "POST"))
        refused(stage.ask("/t/mine/debug/pprof/symbol", "-d", "0x10"))
        refused(stage.ask("/v1/targets", "-H", "Authorization: Bearer made-up-by-the-attacker"))
        refused(stage.ask("/v1/targets", "-H", "sonde-caller-uid: 0"))
        refused(stage.ask("/v1/targets", "--http2-prior-knowledge"))
        assert not stage.heap_is_active()
        check.equal(stage.ask("/v1/targets", who=as_root)[0], 200)


def test_another_user_gets_nothing_over_the_gateways_other_listeners():
    path = os.path.join(stack.WORK, "host", "http.sock")
    with Stage("--listen", "[::1]:0", "--listen", "unix:" + path) as stage:
        os.chmod(path, 0o666)
        base = stage.gateway.stdout.readline().split()[1]
        refused(stage.ask("/v1/targets", "-g", base=base))
        check.equal(stage.ask("/v1/targets", "-g", who=as_root, base=base)[0], 200)
        refused(stage.ask("/v1/targets", "--unix-socket", path))
        check.equal(stage.ask("/v1/targets", "--unix-socket", path, who=as_root)[0], 200)


def test_an_ipv4_client_of_an_ipv6_listener_is_recognized():
    with Stage("--listen", "[::ffff:127.0.0.1]:0") as stage:
        base = "http://127.0.0.1:" + stage.gateway.stdout.readline().rstrip("\n").rpartition(":")[2]
        refused(stage.ask("/v1/targets", base=base))
        check.equal(stage.ask("/v1/targets", who=as_root, base=base)[0], 200)


def test_a_client_that_has_gone_is_not_taken_for_root():
    """The kernel reports user 0 for a socket that its owner has closed."""
    program = ("import socket, sys\n"
               "host, port = sys.argv[1].split(':')\n"
               "client = socket.create_connection((host, int(port)))\n"
               "client.sendall(b'PUT /t/mine/v1/heap?active=true HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n"
               "client.close()\n")
    with Stage() as stage:
        for _ in range(3):
            stage.gateway.send_signal(signal.SIGSTOP)
            subprocess.run(as_nobody("/usr/bin/python3", "-c", program, stage.host), timeout=60, check=True)
            stage.gateway.send_signal(signal.SIGCONT)
            for _ in range(10):
                assert not stage.heap_is_active()
                time.sleep(0.05)


def test_a_token_lets_another_user_in():
    write_tokens()
    with Stage("--token-file", TOKENS) as stage:
        refused(stage.ask("/v1/targets"))
        status, body = stage.ask("/v1/targets", "-H", f"Authorization: Bearer {TOKEN}")
        check.equal(status, 200)
        check.contains(body, "mine")
        check.equal(stage.ask("/t/mine/debug/pprof/cmdline", "-H", f"Authorization: Bearer {TOKEN}")[0], 200)


TRACING = '{"app_service": "mine", "profile_language_type": "eBPF", "profile_event_type": "on-cpu", "time_start": 1, "time_end": 2}'


def check_history_is_refused(stage):
    """It holds profiles of every user's processes."""
    for path in ("services", "profile?service=mine&output=collapsed", "top?service=mine", "labels", "info"):
        check.equal(stage.ask(f"/v1/history/{path}")[0], 403, path)
        check.equal(stage.ask(f"/v1/history/{path}", who=as_root)[0], 200, path)
    status, body = stage.ask("/v1/profile/ProfileTracing", "-d", TRACING)
    assert status == 403 and "SUCCESS" not in body, (status, body)
    check.contains(stage.ask("/v1/profile/ProfileTracing", "-d", TRACING, who=as_root)[1], "SUCCESS")


def test_with_loopback_everybody_users_see_and_control_only_their_own():
    with Stage("--loopback", "everybody", sonded_flags=("--everybody", "--history")) as stage:
        check_history_is_refused(stage)
        status, body = stage.ask("/v1/targets")
        check.equal(status, 200)
        check.contains(body, "others")
        assert "mine" not in body, body
        for path in PATHS:
            if path.startswith("/t/mine/"):
                check.equal(stage.ask(path, *(("-X", "POST") if "/debug/prof/" in path else ()))[0], 404, path)
        check.equal(stage.ask("/t/mine/v1/heap?active=true", "-X", "PUT")[0], 404)
        check.equal(stage.ask("/t/mine/debug/pprof/cmdline", "-H", "sonde-caller-uid: 0")[0], 404)
        check.equal(stage.ask("/v1/captures")[0], 403)
        check.equal(stage.ask("/t/others/v1/captures?seconds=1", "-X", "POST")[0], 403)
        assert not stage.heap_is_active()
        check.equal(stage.ask("/t/others/debug/pprof/cmdline")[0], 200)
        check.equal(stage.ask("/debug/pprof/cmdline")[0], 200)  # there is only one that nobody may see
        check.contains(stage.ask("/v1/targets", who=as_root)[1], "mine")
        status, body = stage.ask("/v1/targets", "-H", "Accept: application/x-ndjson", "-m", "3")
        check.contains(body, "SYNCED")
        check.contains(body, "others")
        assert "mine" not in body, body
        # A session's result is not saved: saved captures are shared, and the oldest are deleted first.
        check.equal(stage.ask("/t/others/profile_start")[0], 200)
        check.equal(stage.ask("/t/others/profile_stop")[0], 200)
        assert '"id"' not in stage.ask("/v1/captures", who=as_root)[1]


def test_with_loopback_everybody_a_sonded_of_one_user_serves_every_user():
    shutil.rmtree(users.SOCKETS, ignore_errors=True)
    with Stage(sonded_flags=()) as stage:
        refused(stage.ask("/debug/pprof/cmdline"))
    with Stage("--loopback", "everybody", sonded_flags=()) as stage:
        check.contains(stage.ask("/v1/targets")[1], "mine")
        check.equal(stage.ask("/debug/pprof/cmdline")[0], 200)
        check.equal(stage.ask("/v1/captures?seconds=1", "-X", "POST")[0], 201)


def test_other_users_need_a_token_for_grpc_on_loopback():
    write_tokens()
    port = check.free_port()
    address = f"127.0.0.1:{port}"
    with Stage(sonded_flags=("--everybody", "--grpc", address)):
        for method in ("ListTargets", "GetCommandLine", "HeapActivate", "GetInfo"):
            status, text = grpc_as_nobody(address, method)
            check.equal(status, 1, text)
            check.contains(text, "UNAUTHENTICATED")
        check.equal(grpc_as_nobody(address, metadata=["sonde-caller-uid=0"])[0], 1)
        check.contains(stack.sonde("targets", "--service", address)[0], "mine")
    for host in ("[::1]", "localhost"):
        address = f"{host}:{port}"
        with Stage(sonded_flags=("--everybody", "--grpc", address)):
            check.equal(grpc_as_nobody(address)[0], 1)
            check.contains(stack.sonde("targets", "--service", address)[0], "mine")
    address = f"127.0.0.1:{port}"
    with Stage(sonded_flags=("--everybody", "--grpc", address, "--token-file", TOKENS)):
        check.equal(grpc_as_nobody(address)[0], 1)
        check.contains(grpc_as_nobody(address, metadata=[f"authorization=Bearer {TOKEN}"])[1], "mine")


def test_a_call_for_another_user_reaches_only_that_users_targets():
    """What the gateway sends for other users. It can only take rights away."""
    shared = ("ListCaptures", "GetCapture", "GetCaptureTimeline", "DiffCaptures", "ListSymbolFiles", "EvictSymbols", "GetCode",
              "ListHeapDumps:1001", "GetHeapDump:4001",  # ended
              "CaptureCpu:3801",  # keep
              "Symbolize:220461626364", "Symbolize:2a00")  # a file, mappings
    with Stage():
        for uid in (str(users.NOBODY), "0", "", "65534x", "99999999999"):
            status, text = grpc_as(as_root, RPC, metadata=[f"sonde-caller-uid={uid}"])
            check.equal(status, 0, text)
            check.equal("others" in text, uid == str(users.NOBODY), text)
            check.equal("mine" in text, uid == "0", text)
        for method in shared:
            status, text = grpc_as(as_root, RPC, method, [f"sonde-caller-uid={users.NOBODY}"])
            check.equal(status, 1, text)
            check.contains(text, "PERMISSION_DENIED")


def sonde_as_nobody(*words, before=()):
    done = subprocess.run((*before, *as_nobody(stack.SONDE, *words)), env=stack.environment(), text=True, capture_output=True,
                          timeout=60, check=False)
    assert done.returncode != 0 and not done.stdout, done.stdout
    return done.stderr


def test_a_verb_without_permission_for_the_socket_says_so():
    with Stage():
        for words in (("targets",), ("threads", "mine"), ("captures",)):
            error = sonde_as_nobody(*words, "--service", RPC)
            check.contains(error, f"permission denied on {RPC.removeprefix('unix:')}: run as root or with sudo")
            assert "cannot reach" not in error, error


def test_without_a_service_of_ones_own_roots_is_named():
    """A verb that starts no sonded of its own, in a mount namespace where root has a socket in a closed directory."""
    script = 'mount -t tmpfs none /run && mkdir -m 700 /run/sonde && touch /run/sonde/grpc.sock && exec "$@"'
    error = sonde_as_nobody("history", before=("unshare", "-m", "bash", "-c", script, "bash"))
    check.contains(error, "permission denied on /run/sonde/grpc.sock: run as root or with sudo")


users.install()
check.main(globals())
