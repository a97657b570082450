#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus of http_fuzz and request_fuzz: seeds.py DIRECTORY, from the top of the tree. What a seed is made of, see the
two programs."""

import os
import re
import struct
import sys

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def headers(path, method=b"\x82", more=b""):
    name = path.encode()
    return method + b"\x86\x04" + bytes([len(name)]) + name + b"\x01\x01x" + more


def http2(*frames):
    return PREFACE + frame(4, 0, 0) + b"".join(frames)


def seed(script, wire):
    return bytes([len(script)]) + script + wire


def get(path, more=""):
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode()


HTTP = {
    "profile": seed(b"\x20", get("/t/redis/debug/pprof/profile?seconds=1", "Accept-Encoding: gzip\r\n")),
    "pipelined": seed(b"\x20", get("/v1/info") + get("/metrics") + get("/v1/targets") + get("/nothing")),
    "symbol": seed(b"\x08", b"POST /symbol HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n0x4000\r\n0\r\n\r\n"),
    "post": seed(b"\x08", b"POST /debug/prof/mem/gdump HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n"
                          b"Content-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\n\r\nactivate=true"),
    "upgrade": seed(b"\x20", get("/healthz", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n")
                    + http2(frame(1, 5, 3, headers("/v1/info")))),
    "http2": seed(b"\x20", http2(frame(1, 5, 1, headers("/debug/pprof/profile?seconds=1")), frame(1, 5, 3, headers("/metrics")),
                                 frame(8, 0, 0, struct.pack(">I", 100000)), frame(6, 0, 0, bytes(8)))),
    "http2_reset": seed(b"\x00", http2(*(frame(1, 5, n, headers("/v1/cpu/live")) + frame(3, 0, n, struct.pack(">I", 8))
                                         for n in range(1, 21, 2)))),
    "http2_post": seed(b"\x20", http2(frame(1, 4, 1, headers("/debug/pprof/symbol", b"\x83")), frame(0, 0, 1, b"0x10+"),
                                      frame(0, 1, 1, b"0x20"))),
    "http2_split": seed(b"\x20", http2(frame(1, 1, 1, headers("/")), frame(9, 4, 1, b"\x00\x01a\x01b"),
                                       frame(2, 0, 1, bytes(5)), frame(7, 0, 0, bytes(8)))),
    "hostile_service": seed(b"\x20\x00\x05\x01\x05\x02\x05\x03\x07\x02\x06\x04\x0a\x02hi", get("/v1/cpu/live?windows=3")),
}

# path of the route, method, script, prefix, query, accept, accept-encoding, content-type, user-agent, another header, body
REQUESTS = {
    "profile": ("/debug/pprof/profile", 0, "", "/t/redis", "seconds=1&frequency=99&output=svg", "text/html;q=0.9,image/svg+xml", "gzip;q=1.0, *;q=0",
                "", "Mozilla/5.0", "", ""),
    "pprof": ("/debug/pprof/profile", 0, "", "", "seconds=1", "", "gzip", "application/protobuf; charset=utf-8", "Go-http-client/1.1", "", ""),
    "symbol": ("/debug/pprof/symbol", 1, "", "/t/1234", "", "", "", "application/octet-stream", "", "", "0x55d0c0a01234+0x10+0x"),
    "heap": ("/debug/pprof/heap", 0, "", "", "name=000001.heap&output=flamegraph&jeprof", "", "", "", "", "", ""),
    "activate": ("/debug/pprof/heap_activate", 0, "", "/t/a%20b", "interval=60", "", "", "", "", "same-origin", ""),
    "gdump": ("/debug/prof/mem/gdump", 1, "", "", "", "", "", "application/x-www-form-urlencoded", "", "", "activate=true"),
    "julia": ("/profile", 0, "", "", "n=1e8&delay=0.01&duration=1.5&pprof=false", "", "", "", "", "", ""),
    "heap_switch": ("/v1/heap", 2, "", "", "active=true&interval=60&sample_bytes=1&delete_dumps=false", "", "", "", "", "", ""),
    "live": ("/v1/cpu/live", 0, "", "?pid=7&target=x", "window=50&windows=2", "", "", "", "", "", ""),
    "refused": ("/debug/pprof/profile", 0, "\x00\x07\x02\x03", "", "seconds=3601", "", "", "", "", "", ""),
    "tracing": ("/v1/profile/ProfileTracing", 1, "", "", "", "", "", "application/json", "", "",
                '{"app_service":"a","profile_language_type":"eBPF","profile_event_type":"on-cpu","tag_filter":"pod=\'x\'",'
                '"time_start":1,"time_end":2,"debug":true,"result_shape":"columnar"}'),
    "history": ("/v1/history/diff", 0, "", "", "service=a&event=off-cpu&from=-1h&until=now&base_from=2023-11-14T22:13:20Z&selector="
                "%7Ba=%22b%22%7D&growth=true&output=top", "", "", "", "", "", ""),
    "series": ("/v1/history/series", 0, "", "", "group_by=host,pod&step=15&limit=3", "", "", "", "", "", ""),
    "label": ("/v1/history/labels/{name}", 0, "", "", "from=1&until=2", "", "", "", "", "", ""),
    "stacktraces": ("/querier.v1.QuerierService/SelectMergeStacktraces", 1, "", "", "", "", "gzip", "application/json", "", "",
                    '{"profileTypeID":"process_cpu:cpu:nanoseconds:cpu:nanoseconds","labelSelector":"{service_name=\\"a\\"}",'
                    '"start":"1","end":2000,"maxNodes":"5"}'),
    "proto": ("/querier.v1.QuerierService/SelectSeries", 1, "", "", "", "", "", "application/proto", "", "",
              "\n\x09a:b:c:d:e\x12\x02{}\x18\x01 \x80\x10*\x04host"),
    "render": ("/pyroscope/render-diff", 0, "", "", "leftQuery=memory:inuse_space:bytes:space:bytes%7B%7D&leftFrom=1&leftUntil=2&"
               "rightQuery=a:b:c:d:e&maxNodes=3", "", "", "", "", "", ""),
    "dot": ("/pyroscope/render", 0, "", "", "query=a:b:c:d:e&format=dot", "", "", "", "", "", ""),
    "mcp": ("/mcp", 1, "", "", "", "", "", "application/json", "", "",
            '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"why_no_data","arguments":{"target":"a"}}}'),
    "hostile": ("/v1/targets", 0, "\x00\x05\x01", "", "", "", "", "", "", "", ""),
}


def route_numbers():
    """{path: row of the route table}"""
    with open("gateway/routes.c", encoding="utf-8") as source:
        table = source.read().split("struct route table[]")[1]
    return {path: number for number, path in enumerate(re.findall(r'^    \{"([^"]+)"', table, re.M))}


def main():
    numbers = route_numbers()
    for name, content in HTTP.items():
        with open(os.path.join(sys.argv[1], "http_" + name), "wb") as out:
            out.write(content)
    for name, (path, method, *lines) in REQUESTS.items():
        with open(os.path.join(sys.argv[1], "request_" + name), "wb") as out:
            out.write(bytes([numbers[path], method]) + "\n".join(lines).encode("latin-1"))


main()
