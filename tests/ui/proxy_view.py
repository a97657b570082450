# SPDX-License-Identifier: Apache-2.0
"""The page, streams and addresses behind Debian's nginx and haproxy, which serve the gateway below a path as docs/operations.md says;
and tools that send the token as a password."""

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile

from tests.cli import check
from tests.e2e import stack
from tests.ui import browser, view

NGINX, HAPROXY = "/usr/sbin/nginx", "/usr/sbin/haproxy"
if not (os.path.exists(NGINX) and os.path.exists(HAPROXY)):
    browser.skip("no nginx or haproxy")

DEMO = os.path.abspath("clients/demo/demo")
BELOW = "/tools/sonde"
TOKEN = "a-token-for-tools-of-all-kinds"
stack.install()
SERVER = stack.Server(DEMO, "-t", "1", "--tick", flags=("--name", "demo"), ready="demo: pid")


def start_nginx(port, gateway):
    """nginx with its defaults, in which it collects an answer until its buffers are full."""
    folder = os.path.join(stack.WORK, "nginx")
    os.mkdir(folder)
    places = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    with open(f"{folder}/conf", "w", encoding="utf-8") as file:
        file.write(f"""daemon off; pid {folder}/pid; error_log {folder}/log; worker_processes 1; events {{}}
            {"user root;" if os.geteuid() == 0 else ""}
            http {{ access_log off; {places} server {{ listen 127.0.0.1:{port}; location {BELOW}/ {{
                proxy_pass http://{gateway}/; proxy_set_header Host $http_host; proxy_set_header X-Forwarded-Prefix {BELOW};
            }} }} }}""")
    return subprocess.Popen([NGINX, "-c", f"{folder}/conf", "-e", f"{folder}/log"])


def start_haproxy(port, gateway):
    path = os.path.join(stack.WORK, "haproxy.conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""global
defaults
    mode http
    timeout connect 5s
    timeout client 1h
    timeout server 1h
frontend web
    bind 127.0.0.1:{port}
    use_backend sonde if {{ path_beg {BELOW}/ }}
backend sonde
    http-request set-header X-Forwarded-Prefix {BELOW}
    http-request replace-path {BELOW}(/.*) \\1
    server gateway {gateway}
""")
    return subprocess.Popen([HAPROXY, "-db", "-q", "-f", path])


def answers(host):
    try:
        return ask(host, f"{BELOW}/healthz")[0] == 200
    except OSError:
        return False


def ask(host, path, method="GET", headers=None):
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request(method, path, headers={"Accept": "application/json", **(headers or {})})
    response = connection.getresponse()
    answer = response.status, response.headers, response.read()
    connection.close()
    return answer


def first_lines(host, path, method="GET", count=3):
    """The first lines of a stream, which a proxy that waits for more never sends: this target is idle."""
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request(method, path, headers={"Accept": "application/x-ndjson"})
    response = connection.getresponse()
    lines = [json.loads(response.readline()) for _ in range(count)]
    connection.close()
    return lines


PORTS = [check.free_port() for _ in range(2)]
PROXIES = {name: (f"127.0.0.1:{port}", begin(port, SERVER.host))
           for port, (name, begin) in zip(PORTS, (("nginx", start_nginx), ("haproxy", start_haproxy)))}
for HOST, _ in PROXIES.values():
    check.until(lambda host=HOST: answers(host), what="a proxy that answers")


def test_the_page_works_below_a_path():
    for host, _ in PROXIES.values():
        page = view.View(f"http://{host}{BELOW}")
        try:
            page.go("/")
            page.click("demo", ".target a.name")
            page.until_text("of CPU time", ".legend")
            check.contains(page.driver.current_url, f"http://{host}{BELOW}/t/demo/#live")
            page.driver.refresh()
            page.until_text("of CPU time", ".legend")
            page.click("Captures", "nav a")
            page.until_text("Note", "form")
            page.run("document.querySelector('[name=seconds]').value = 1")
            page.click("Capture")
            page.until_text("cpu of demo", ".title", 60)
            page.click("change", "header a")
            page.until_text("attached", ".start")
            check.equal(page.driver.current_url, f"http://{host}{BELOW}/")
            outside = page.run("return performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname).filter((one) => !one.startsWith(arguments[0]))", BELOW)
            check.equal(outside, [], "requests outside the path")
            check.equal(page.errors(), [], "console errors")
        finally:
            page.close()


def test_addresses_in_answers_begin_with_the_path():
    for host, _ in PROXIES.values():
        status, headers, _ = ask(host, f"{BELOW}/t/demo/v1/captures?seconds=1", "POST")
        check.equal(status, 201)
        assert headers["location"].startswith(f"{BELOW}/v1/captures/"), headers["location"]
        check.equal(ask(host, f"{headers['location']}.pb.gz")[0], 200)
        target = next(one for one in json.loads(ask(host, f"{BELOW}/v1/sd")[2]) if one["labels"]["service_name"] == "demo")
        prefix = target["labels"]["__profile_path_prefix__"]
        check.equal(prefix, f"{BELOW}/t/demo")
        check.equal(ask(host, f"{prefix}/debug/pprof/cmdline")[0], 200)


def test_streams_of_an_idle_target_are_not_held_back():
    with subprocess.Popen(["/bin/sleep", "600"]) as idle:
        try:
            for host, _ in PROXIES.values():
                windows = first_lines(host, f"{BELOW}/t/{idle.pid}/v1/cpu/live")
                check.equal([int(one["sequence"]) for one in windows], [0, 1, 2])
                progress = first_lines(host, f"{BELOW}/t/{idle.pid}/v1/captures?seconds=600", "POST", 2)
                check.equal(["progress" in one for one in progress], [True, True])
        finally:
            idle.kill()


def test_another_users_tools_send_the_token_as_a_password():
    if os.geteuid():
        raise check.Skip("another user can only be used by root")
    path, folder = os.path.join(stack.WORK, "token"), tempfile.mkdtemp()
    os.chmod(folder, 0o777)
    with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(f"{TOKEN}\n")
    with open(f"/proc/{SERVER.helpers()['sonde-gateway']}/cmdline", encoding="utf-8") as file:
        words = file.read().split("\0")
    service = words[words.index("--service") + 1]
    gateway, url = check.start(os.path.join(stack.PREFIX, "bin/sonde-gateway"), "--service", service, "--listen", "127.0.0.1:0", "--token-file", path)

    def as_nobody(*command):
        environment = {**stack.environment(), "HOME": folder, "PPROF_TMPDIR": folder}
        return subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", *command], env=environment, cwd=folder, capture_output=True, text=True, timeout=300,
                              check=False).stdout
    try:
        host = url.removeprefix("http://")
        statuses = [as_nobody("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-u", pair, f"{url}/t/demo/debug/pprof/cmdline")
                    for pair in (f"anybody:{TOKEN}", f"{TOKEN}:", "anybody:another")]
        check.equal(statuses, ["200", "200", "401"])
        if shutil.which("go"):
            check.contains(as_nobody("go", "tool", "pprof", "-top", f"http://anybody:{TOKEN}@{host}/t/demo/debug/pprof/profile?seconds=1"), "match_rules")
        if shutil.which("jeprof"):
            check.contains(as_nobody("jeprof", "--text", "--seconds=1", f"http://anybody:{TOKEN}@{host}/t/demo/pprof/profile"), "match_rules")
    finally:
        gateway.terminate()
        gateway.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


try:
    check.main(globals())
finally:
    for _, PROCESS in PROXIES.values():
        PROCESS.terminate()
        PROCESS.wait(60)
    SERVER.stop()
    sys.stdout.flush()
