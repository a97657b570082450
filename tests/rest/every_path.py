#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a common rule on every path of openapi.yaml: every_path.py PORT RULE. methods: HEAD has no body and starts nothing;
unsupported methods are 404, or 405 with Allow. host: an unknown Host is 421. token: 401 without a token, except for the page's
files. Every answer must have nosniff, no-store (the page's files: no-cache) and no CORS header; errors of Go's paths must have
X-Go-Pprof."""

import http.client
import re
import sys

PORT, RULE = int(sys.argv[1]), sys.argv[2]
PUBLIC = ("/ui/", "/speedscope/")  # the page's files, and speedscope's, which the tests do not have
TOKEN = {"Authorization": "Bearer right-token"}


def ask(method, path, headers):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def openapi():
    """{path: methods}"""
    text = ask("GET", "/openapi.yaml", TOKEN)[2].decode()
    paths = {}
    for line in text.split("components:")[0].split("\n"):
        path, method = re.fullmatch(r"  (/\S*):", line), re.fullmatch(r"    (get|post|put):", line)
        if path:
            current = paths.setdefault(path.group(1).replace("{id}", "1.svg").replace("{name}", "host").replace("{file}", "main.js"), set())
        elif method:
            current.add(method.group(1).upper())
    return paths


def check(what, good, answer):
    if not good:
        print(f"{what}: {answer[0]} {answer[1]} {answer[2][:200]}")
        check.wrong += 1


check.wrong = check.asked = 0


def common(what, path, answer):
    status, headers, body = answer
    check.asked += 1
    check(what, headers.get("x-content-type-options") == "nosniff", answer)
    public = path.startswith(PUBLIC) and status == 200
    check(what, headers.get("cache-control") == ("no-cache" if public else "no-store"), answer)
    check(what, "access-control-allow-origin" not in headers, answer)
    is_go = path.startswith(("/debug/pprof/", "/pprof/"))
    check(what, status < 400 or not is_go or headers.get("x-go-pprof") == "1", answer)
    check(what, status < 500 or status in (500, 501), answer)
    return status, headers, body


def methods(path, known):
    answer = common(f"HEAD {path}", path, ask("HEAD", path, {}))
    check(f"HEAD {path}", answer[2] == b"", answer)
    check(f"HEAD {path}", (answer[0] in (404, 405)) == ("GET" not in known) or answer[0] in (400, 404, 500), answer)
    for method in {"OPTIONS", "TRACE", "DELETE", "PATCH", "POST", "PUT", "BREW"} - known:
        answer = common(f"{method} {path}", path, ask(method, path, {}))
        check(f"{method} {path}", answer[0] == 404 or (answer[0] == 405 and "allow" in answer[1]), answer)


def host(path, known):
    for method in sorted(known | {"HEAD"}):
        answer = common(f"{method} {path}", path, ask(method, path, {"Host": "evil.example"}))
        check(f"{method} {path}", answer[0] == 421 and b"evil" not in answer[2], answer)


def token(path, known):
    for method in sorted(known | {"HEAD"}):
        answer = common(f"{method} {path}", path, ask(method, path, {}))
        refused = answer[0] == 401 and answer[1].get("www-authenticate") == "Bearer"
        check(f"{method} {path}", answer[0] in (200, 404) if path.startswith(PUBLIC) else refused, answer)


for one, its in openapi().items():
    {"methods": methods, "host": host, "token": token}[RULE](one, its)
print(f"{check.asked} answers, {check.wrong} wrong")
sys.exit(1 if check.wrong or check.asked < 40 else 0)
