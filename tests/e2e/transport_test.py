# SPDX-License-Identifier: Apache-2.0
"""TLS and tokens between all parts: sonde-gateway and sonde-collect follow renewed files, as servers and as clients, and refuse a
service whose certificate has another name."""

import http.client
import os
import shutil
import ssl

from tests.cli import check
from tests.rpc.certificates import Certificates, Program, refusal, write_secret

SONDED, GATEWAY, COLLECT = (os.path.abspath(path)
                            for path in ("service/sonded", "gateway/sonde-gateway", "clients/collect/sonde-collect"))
FIRST, SECOND = "first-token-0123456789", "second-token-0123456789"


def sonded(*flags, address="127.0.0.1:0"):
    folder = check.short_folder()
    return Program(SONDED, "--socket", f"{folder}/guest", "--data-dir", f"{folder}/data", "--sampler", "", "--grpc", address,
                   *flags)


def identity(pems, name="server"):
    return "--tls-cert", pems.path(f"{name}.pem"), "--tls-key", pems.path(f"{name}.key")


def gateway(service, *flags):
    return Program(GATEWAY, "--quiet", "--listen", "127.0.0.1:0", "--service", service, *flags)


def ask(connection, path="/v1/targets", token=None):
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def get(url, path="/v1/targets", token=None):
    """The status over a new connection without TLS."""
    connection = http.client.HTTPConnection(url.split("//")[1], timeout=30)
    try:
        return ask(connection, path, token)
    finally:
        connection.close()


def connect(url, ca, client=None):
    context = ssl.create_default_context(cafile=ca)
    if client:
        context.load_cert_chain(client + ".pem", client + ".key")
    connection = http.client.HTTPSConnection(url.split("//")[1], timeout=30, context=context)
    connection.connect()
    return connection


def is_served(url, ca, client=None):
    try:
        connection = connect(url, ca, client)
        status = ask(connection, "/healthz")
        connection.close()
    except (ssl.SSLError, http.client.HTTPException, OSError):
        return False
    return status == 200


def test_the_gateways_certificate_is_renewed_and_open_connections_go_on():
    pems = Certificates()
    for name in ("old", "new"):
        pems.issue(name)
    pems.renew("server", "old")
    old, new = pems.path("old.pem"), pems.path("new.pem")
    with gateway("unix:/nowhere", *identity(pems)) as program:
        (url,) = program.addresses
        kept = connect(url, old)
        check.equal(ask(kept, "/healthz"), 200)
        assert not is_served(url, new)
        pems.replace("server.pem", "new.pem")  # without its key
        check.until(lambda: is_served(url, old) and program.lines("do not match: replace both"), what="a refused half")
        pems.replace("server.key", "new.key")
        check.until(lambda: is_served(url, new), what="the new certificate")
        assert not is_served(url, old)
        check.equal(ask(kept, "/healthz"), 200, "the open connection")
        for words in ("server.pem was read again", "stays as it was"):  # the log may be a moment behind
            check.until(lambda words=words: program.lines(words), what=words)
            check.equal(len(program.lines(words)), 1)
        kept.close()
        check.equal(program.end(), 0)
    pems.remove()


def test_the_gateways_client_ca_is_renewed():
    pems = Certificates()
    for name in ("server", "first-ca", "second-ca"):
        pems.issue(name)
    pems.issue("first", "first-ca")
    pems.issue("second", "second-ca")
    pems.replace("ca", "first-ca.pem")
    write_secret(pems.path("tokens"), FIRST + "\n")
    first, second = pems.path("first"), pems.path("second")
    with gateway("unix:/nowhere", *identity(pems), "--tls-client-ca", pems.path("ca"), "--tls-client-name", "second",
                 "--token-file", pems.path("tokens")) as program:
        (url,) = program.addresses
        server = pems.path("server.pem")
        assert not is_served(url, server, second)
        pems.replace("ca", "second-ca.pem")
        check.until(lambda: is_served(url, server, second), what="the new CA")
        assert not is_served(url, server, first)
    pems.remove()


def test_the_gateways_tokens_are_renewed_and_so_is_the_one_that_it_sends():
    folder = check.short_folder()
    tokens = f"{folder}/tokens"
    write_secret(tokens, f"{FIRST}\n")
    with sonded("--token-file", tokens, "--token-everywhere") as service, \
            gateway(service.addresses[0], "--token-file", tokens) as program:
        (url,) = program.addresses
        check.equal([get(url, token=FIRST), get(url, token=SECOND), get(url)], [200, 401, 200])
        write_secret(tokens, "")
        check.until(lambda: get(url, token=FIRST) == 200 and program.lines("the token file has no tokens"), what="a bad file")
        write_secret(tokens, f"{SECOND}\n")
        check.until(lambda: get(url, token=SECOND) == 200, what="the new token")
        check.until(lambda: get(url) == 200, what="the new token, which the gateway sends")
        check.equal(get(url, token=FIRST), 401)
        assert FIRST not in "".join(program.log + service.log) and SECOND not in "".join(program.log + service.log)


def test_the_gateway_follows_a_new_ca_and_certificate_of_the_service():
    pems = Certificates()
    for name in ("old", "new"):
        pems.issue(name)
        pems.issue(f"{name}-gateway", name)
    pems.renew("gateway", "old-gateway")
    pems.replace("ca", "old.pem")
    flags = ("--service-ca", pems.path("ca"), "--service-cert", pems.path("gateway.pem"), "--service-key",
             pems.path("gateway.key"))
    with sonded(*identity(pems, "old"), "--tls-client-ca", pems.path("old.pem")) as service:
        (address,) = service.addresses
        program = gateway(address, *flags)
        (url,) = program.addresses
        check.equal(get(url), 200)
    with program, sonded(*identity(pems, "new"), "--tls-client-ca", pems.path("new.pem"), address=address):
        check.equal(get(url), 503)
        pems.replace("ca", "new.pem")
        pems.renew("gateway", "new-gateway")
        check.until(lambda: get(url) == 200, what="the new CA and certificate")
        check.until(lambda: program.lines("gateway.pem was read again"), what="the line in the log")
    pems.remove()


def test_a_running_request_of_the_gateway_survives_the_change_of_its_connection():
    pems = Certificates()
    for name in ("old", "new"):
        pems.issue(name)
    pems.replace("ca", "old.pem")
    with sonded(*identity(pems, "old")) as service, gateway(service.addresses[0], "--service-ca", pems.path("ca")) as program:
        (url,) = program.addresses
        stream = http.client.HTTPConnection(url.split("//")[1], timeout=30)
        stream.request("GET", "/v1/targets", headers={"Accept": "application/x-ndjson"})
        answer = stream.getresponse()
        check.equal(answer.status, 200)
        assert answer.readline()
        with open(pems.path("ca"), "ab") as ca:
            ca.write(pems.read("new.pem"))
        check.until(lambda: get(url) == 200 and program.lines("ca was read again"), what="the new CA")
        check.equal(get(url), 200)
        stream.sock.settimeout(1)
        try:
            raise AssertionError(f"the stream was cut: {answer.readline()!r}")
        except TimeoutError:
            pass  # nothing has changed
        stream.close()
    pems.remove()


def test_a_service_with_another_name_is_refused_by_the_gateway():
    pems = Certificates()
    pems.issue("right")
    pems.issue("wrong", alternative="DNS:other.example,IP:127.0.0.2")
    for name, expected in (("right", 200), ("wrong", 503)):
        with sonded(*identity(pems, name)) as service, gateway(service.addresses[0], "--service-ca",
                                                               pems.path(f"{name}.pem")) as program:
            check.equal(get(program.addresses[0]), expected, name)
    pems.remove()


class Collector(Program):
    """sonde-collect with one host; History cannot be reached."""

    def __init__(self, folder, line, *flags):
        self.hosts = os.path.join(folder, "hosts.txt")
        self.list(line)
        super().__init__(COLLECT, "--hosts", self.hosts, "--history", "127.0.0.1:1", "--spool", os.path.join(folder, "spool"),
                         *flags)

    def list(self, line):
        with open(self.hosts + ".new", "w", encoding="ascii") as file:
            file.write(line + "\n")
        os.rename(self.hosts + ".new", self.hosts)


def begins(service):
    return lambda: service.lines("begins a call of")


def test_sonde_collect_refuses_a_host_with_another_name():
    pems = Certificates()
    pems.issue("server", alternative="DNS:web.example")
    with sonded(*identity(pems)) as service:
        flags = ("--hosts-ca", pems.path("server.pem"))
        (address,) = service.addresses
        with Collector(pems.folder, f"{address} name=web tls-name=mail.example", *flags) as program:
            check.until(lambda: program.lines("web"), what="the failed host in the log")
            assert not begins(service)(), service.log
        with Collector(pems.folder, f"{address} name=web tls-name=web.example", *flags):
            check.until(begins(service), seconds=60, what="the call of the right name")
    pems.remove()


def test_sonde_collect_follows_renewed_files():
    pems = Certificates()
    for name in ("old", "new"):
        pems.issue(name)
        pems.issue(f"{name}-collect", name)
    pems.replace("ca", "old.pem")
    pems.renew("collect", "old-collect")
    write_secret(pems.path("token"), f"{FIRST}\n")
    write_secret(pems.path("tokens"), f"{SECOND} read\n")
    with sonded(*identity(pems, "new"), "--tls-client-ca", pems.path("new.pem"), "--token-file", pems.path("tokens"),
                "--token-everywhere") as service:
        with Collector(pems.folder, f"{service.addresses[0]} name=web", "--hosts-ca", pems.path("ca"), "--hosts-cert",
                       pems.path("collect.pem"), "--hosts-key", pems.path("collect.key"), "--hosts-token-file",
                       pems.path("token")) as program:
            check.until(lambda: program.lines("web"), what="the failed host in the log")
            pems.replace("ca", "new.pem")
            pems.renew("collect", "new-collect")
            write_secret(pems.path("token"), f"{SECOND}\n")
            check.until(begins(service), seconds=120, what="the call with the new files")
            assert program.lines("token was read again") and program.lines("collect.pem was read again"), program.log
            assert SECOND not in "".join(program.log)
    pems.remove()


def test_a_token_file_without_a_token_is_refused():
    folder = check.short_folder()
    write_secret(f"{folder}/token", "# nothing\n")
    code, text = refusal(COLLECT, "--hosts", "x", "--history", "127.0.0.1:1", "--spool", f"{folder}/spool", "--hosts-token-file",
                         f"{folder}/token")
    check.equal(code, 2)
    check.contains(text, "the token file has no tokens")
    shutil.rmtree(folder)


if __name__ == "__main__":
    check.main(globals())
