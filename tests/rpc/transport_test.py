# SPDX-License-Identifier: Apache-2.0
"""TLS and tokens of real services: certificates, CAs and token files are renewed while the services run, and client certificates
are accepted by name."""

import os
import sys

import grpc

from tests.cli import check
from tests.rpc.certificates import Certificates, Program, refusal, write_secret

sys.path.insert(0, os.path.abspath("clients/python"))
from sonde_client import Service  # noqa: E402

SONDED, SONDE_HISTORY = (os.path.abspath(path) for path in ("service/sonded", "service/sonde-history"))
READER, WRITER, LATER = ("reading-token-0123456789", "writing-token-0123456789", "later-token-0123456789")


def sonded(*flags, addresses=1, grpc_flags=("--grpc", "127.0.0.1:0")):
    folder = check.short_folder()
    return Program(SONDED, "--socket", f"{folder}/guest", "--data-dir", f"{folder}/data", "--sampler", "", *grpc_flags, *flags,
                   addresses=addresses)


def history(*flags):
    return Program(SONDE_HISTORY, "--store", f"sqlite:{check.short_folder()}/store", "--grpc", "127.0.0.1:0", *flags)


def status(address, credentials, token=None, method="/grpc.health.v1.Health/Check", body=b""):
    """What a call over a new connection ends with."""
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    with grpc.secure_channel(address, credentials) if credentials else grpc.insecure_channel(address) as channel:
        try:
            channel.unary_unary(method)(body, timeout=20, metadata=metadata)
        except grpc.RpcError as error:
            return error.code().name, error.details()
    return "OK", ""


def is_served(address, credentials):
    return status(address, credentials)[0] == "OK"


def test_a_renewed_certificate_is_used_by_new_connections_and_cuts_no_stream():
    for start in (sonded, history):
        pems = Certificates()
        for name in ("old", "new"):
            pems.issue(f"{name}-ca")
            pems.issue(name, f"{name}-ca")
        pems.renew("server", "old")
        with start("--tls-cert", pems.path("server.pem"), "--tls-key", pems.path("server.key")) as program:
            (address,) = program.addresses
            old, new = pems.credentials("old-ca"), pems.credentials("new-ca")
            with grpc.secure_channel(address, old) as channel:
                stream = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
                next(stream)
                assert not is_served(address, new)
                pems.replace("server.pem", "new.pem")  # without its key
                check.until(lambda: is_served(address, old) and program.lines("stays as it was"), what="a refused half")
                (line,) = program.lines("stays as it was")
                check.contains(line, "do not match: replace both")
                pems.replace("server.key", "new.key")
                check.until(lambda: is_served(address, new), what="the new certificate")
                assert not is_served(address, old)
                check.equal(len(program.until("server.pem was read again")), 1)
                assert stream.is_active(), "the stream was cut"
                channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=20)  # on the old connection
                stream.cancel()
            check.equal(program.end(), 0)
        pems.remove()


def test_every_address_follows_the_files():
    pems = Certificates()
    for name in ("old", "new"):
        pems.issue(name)
    pems.renew("server", "old")
    two = ("--grpc", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    with sonded("--tls-cert", pems.path("server.pem"), "--tls-key", pems.path("server.key"), addresses=2,
                grpc_flags=two) as program:
        pems.renew("server", "new")
        for address in program.addresses:
            check.until(lambda: is_served(address, pems.credentials("new")), what=f"the new certificate at {address}")
    pems.remove()


def test_a_new_client_ca_admits_its_clients_and_no_others():
    pems = Certificates()
    for name in ("server", "first-ca", "second-ca"):
        pems.issue(name)
    pems.issue("first", "first-ca")
    pems.issue("second", "second-ca")
    pems.replace("ca", "first-ca.pem")
    with sonded("--tls-cert", pems.path("server.pem"), "--tls-key", pems.path("server.key"), "--tls-client-ca",
                pems.path("ca")) as program:
        (address,) = program.addresses
        first, second = pems.credentials("server", "first"), pems.credentials("server", "second")
        assert is_served(address, first) and not is_served(address, second)
        pems.replace("ca", "second-ca.pem")
        check.until(lambda: is_served(address, second), what="the new CA")
        assert not is_served(address, first)
        write_secret(pems.path("ca"), "no certificate\n")
        check.until(lambda: is_served(address, second) and program.lines("is not a CA certificate (PEM)"), what="the bad CA")
    pems.remove()


def test_client_certificates_are_accepted_by_name():
    pems = Certificates()
    pems.issue("ca")
    pems.issue("server", "ca")
    pems.issue("alice", "ca", "DNS:alice.example")
    pems.issue("fleet", "ca", "DNS:one.example,DNS:Controller.example")
    pems.issue("mallory", "ca", "DNS:alice.mallory,DNS:controller,DNS:*.example,URI:spiffe://alice")
    for start in (sonded, history):
        with start("--tls-cert", pems.path("server.pem"), "--tls-key", pems.path("server.key"), "--tls-client-ca",
                   pems.path("ca.pem"), "--tls-client-name", "ALICE", "--tls-client-name", "controller.example") as program:
            (address,) = program.addresses
            for client, expected in (("alice", "OK"), ("fleet", "OK"), ("mallory", "PERMISSION_DENIED")):
                check.equal(status(address, pems.credentials("ca", client))[0], expected, client)
            # Refused before anything else of the call is looked at.
            for method in ("/sonde.v1.Profiler/GetInfo", "/no.such/Method"):
                code, text = status(address, pems.credentials("ca", "mallory"), method=method)
                check.equal(code, "PERMISSION_DENIED", method)
                check.contains(text, "list it with --tls-client-name")
            assert not is_served(address, pems.credentials("ca"))
    folder = check.short_folder()
    with sonded("--tls-cert", pems.path("server.pem"), "--tls-key", pems.path("server.key"), "--tls-client-ca",
                pems.path("ca.pem"), "--tls-client-name", "alice", grpc_flags=("--grpc", f"unix:{folder}/grpc")) as program:
        check.equal(status(program.addresses[0], None), ("OK", ""), "a unix socket")
    pems.remove()


def test_a_certificate_allows_everything_and_a_token_file_limits_it():
    pems = Certificates()
    pems.issue("ca")
    pems.issue("server", "ca")
    pems.issue("alice", "ca")
    flags = ("--tls-cert", pems.path("server.pem"), "--tls-key", pems.path("server.key"), "--tls-client-ca", pems.path("ca.pem"))
    evict = {"method": "/sonde.v1.Profiler/EvictSymbols", "body": b"\x10\x01"}
    alice = pems.credentials("ca", "alice")
    with sonded(*flags, grpc_flags=("--grpc", "0.0.0.0:0")) as program:
        port = program.addresses[0].rsplit(":", 1)[1]
        check.equal(status(f"127.0.0.1:{port}", alice, **evict), ("OK", ""))
    write_secret(pems.path("tokens"), f"{READER} read\n{WRITER} control\n")
    with sonded(*flags, "--token-file", pems.path("tokens"), "--token-everywhere") as program:
        (address,) = program.addresses
        for token, expected in ((None, "UNAUTHENTICATED"), (READER, "PERMISSION_DENIED"), (WRITER, "OK")):
            check.equal(status(address, alice, token, **evict)[0], expected, token)
    pems.remove()


def test_names_need_a_client_ca():
    pems = Certificates()
    pems.issue("server")
    flags = ("--tls-cert", pems.path("server.pem"), "--tls-key", pems.path("server.key"), "--tls-client-name", "alice")
    for command in ((SONDED, "--socket", pems.path("guest"), "--data-dir", pems.path("data"), "--sampler", ""),
                    (SONDE_HISTORY, "--store", f"sqlite:{pems.path('store')}")):
        code, text = refusal(*command, "--grpc", "127.0.0.1:0", *flags)
        check.equal(code, 2)
        check.contains(text, "give --tls-client-ca, too")
    pems.remove()


def test_a_removed_token_stops_working_and_its_running_calls_go_on():
    folder = check.short_folder()
    tokens = f"{folder}/tokens"
    write_secret(tokens, f"{READER} read\n")
    for start in (sonded, history):
        write_secret(tokens, f"{READER} read\n")
        with start("--token-file", tokens, "--token-everywhere") as program:
            (address,) = program.addresses
            service = Service(address, token=READER)
            ask = service.ListTargets if start is sonded else service.ListServices
            ask(timeout=20)
            stream = service.WatchTargets() if start is sonded else None
            assert not stream or next(stream)
            write_secret(tokens, "short\n")
            check.until(lambda: ask(timeout=20) and program.lines("stays as it was"), what="the bad file")
            write_secret(tokens, f"{LATER} read\n")

            def is_refused():
                try:
                    ask(timeout=20)
                except grpc.RpcError as error:
                    return error.code() == grpc.StatusCode.UNAUTHENTICATED
                return False

            check.until(is_refused, what="the end of the token")
            later = Service(address, token=LATER)
            (later.ListTargets if start is sonded else later.ListServices)(timeout=20)
            assert not stream or stream.is_active(), "the stream was cut"
            check.equal(len(program.lines("tokens was read again")), 1)
            assert READER not in "".join(program.log) and LATER not in "".join(program.log)
            later.close()
            service.close()


if __name__ == "__main__":
    check.main(globals())
