# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests for history that are large, deep or random, for hostile.py."""

import random

QUERY = b'{"app_service":"large","profile_language_type":"eBPF","profile_event_type":"on-cpu","time_start":1,"time_end":2}'
LARGE = (b"POST /v1/profile/ProfileTracing HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(QUERY)) + QUERY


def cases(exchange, connect, ask):
    """The functions that hostile.py plays. exchange sends a request and returns what arrives until the connection ends."""

    def post(path, body, kind):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}"
        answer = exchange(head.encode() + b"\r\n\r\n" + body, 20)
        assert answer.startswith(b"HTTP/1.1 "), answer[:100]
        return int(answer[9:12])

    def bodies_of_history():
        dice = random.Random(11)
        deep = b'{"app_service":' + b"[" * 400_000
        for json in (b'{"a":[' + b"[]," * 340_000 + b"[]]}", b'{"a":[' + b"0," * 500_000 + b"0]}", deep,
                     b"{" + b",".join(b'"%x":0' % number for number in range(90_000)) + b"}", b'{"tag_filter":"' + b"`" * 1_000_000 + b'"}',
                     b'{"matchers":[' + b'"",' * 250_000 + b'""]}', b'{"left":' * 100_000, b'"' + b"\\u0041" * 170_000 + b'"'):
            assert len(json) <= 1 << 20
            for path in ("/v1/profile/ProfileTracing", "/querier.v1.QuerierService/Diff"):
                status = post(path, json, "application/json")
                assert status in (200, 400), (path, json[:40], status)
        for method in ("Diff", "SelectSeries"):
            for _ in range(15):
                status = post(f"/querier.v1.QuerierService/{method}", dice.randbytes(dice.randrange(300)), "application/proto")
                assert status in (200, 400, 501), (method, status)
            # A million empty texts, and messages in messages.
            for body in (b"\x0a\x00" * 500_000, b"\x2a\x00" * 500_000, b"\x0a\x80\x80\x40" * 200_000):
                status = post(f"/querier.v1.QuerierService/{method}", body, "application/proto")
                assert status in (200, 400, 501), (method, status)
        assert post("/v1/profile/ProfileTracing", b" " * 1_100_000, "application/json") == 413
        assert post("/querier.v1.QuerierService/Diff", b" " * 1_100_000, "application/json") == 413

    def slow_readers_of_history():
        """Large trees that nobody reads."""
        clients = [connect() for _ in range(30)]
        for client in clients:
            client.sendall(LARGE)
        for client in clients:
            assert client.recv(300).startswith(b"HTTP/1.1 200")
        ask()
        for client in clients:
            client.close()

    return [bodies_of_history, slow_readers_of_history]
