# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus finds targets at /v1/sd and scrapes /metrics; the dashboard and the alerts only use metrics that exist."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request

from tests.cli import check
from tests.e2e import stack

# A third of a processor, in a function that python3 exports.
TARGET = """
import time
print("ready", flush=True)
while True:
    sum(range(200000))
    time.sleep(0.008)
"""
FUNCTION = "Py_BytesMain"
PACKAGING = os.path.abspath("bazel/packaging")
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: sonde
    static_configs: [{{targets: ["{host}"]}}]
  - job_name: discovered
    http_sd_configs: [{{url: "http://{host}/v1/sd", refresh_interval: 1s}}]
    relabel_configs:
      - {{source_labels: [__profile_path_prefix__], target_label: prefix}}
      - {{source_labels: [__meta_sonde_executable], target_label: executable}}
"""

stack.install()
SERVER = stack.Server(sys.executable, "-c", TARGET, flags=("--name", "shop"), ready="ready",
                      env={"SONDE_METRIC_FUNCTION": FUNCTION})


def need(program):
    path = shutil.which(program, path="/usr/bin:/usr/local/bin")
    if not path:
        raise check.Skip(f"{program} is not installed: apt install prometheus")
    return path


def metrics(server):
    status, headers, body = server.get("/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4"), (status, headers)
    return body.decode()


def names(text):
    return set(re.findall(r"^# TYPE (\S+) ", text, re.M))


def function_seconds():
    found = re.search(rf'^sonde_function_cpu_seconds_total\{{target="shop",function="{FUNCTION}"\}} ([0-9.]+)$', metrics(SERVER),
                      re.M)
    return float(found.group(1)) if found else 0


def test_the_time_of_a_function_is_counted_without_history():
    first = check.until(function_seconds, what="the function's CPU time")
    check.until(lambda: function_seconds() > first, what="more CPU time")
    with open(f"/proc/{SERVER.pid}/stat", encoding="ascii") as file:
        used = sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    assert function_seconds() <= used + 0.5, (function_seconds(), used)


def test_promtool_finds_no_fault_in_the_metrics():
    done = subprocess.run([need("promtool"), "check", "metrics"], input=metrics(SERVER), capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_label_has_a_pid():
    text = metrics(SERVER)
    for pid in (SERVER.pid, *SERVER.helpers().values()):
        assert not re.search(rf'="[^"]*\b{pid}\b[^"]*"', text), text  # (a value may be the same number)


def test_the_gateway_and_the_service_have_their_own_process_metrics():
    text = metrics(SERVER)
    for name in ("cpu_seconds_total", "resident_memory_bytes", "virtual_memory_bytes", "open_fds", "max_fds"):
        values = re.findall(rf"^(?:process|sonde_gateway)_{name} ([0-9.]+)$", text, re.M)
        assert len(values) == 2 and all(float(value) > 0 for value in values), (name, values)
    started = float(re.search(r"^process_start_time_seconds ([0-9.]+)$", text, re.M).group(1))
    assert time.time() - 300 < started <= time.time(), started


def expressions():
    """Every query of the dashboard and of the alerts."""
    with open(f"{PACKAGING}/grafana/sonde-dashboard.json", encoding="utf-8") as file:
        dashboard = json.load(file)
    for panel in dashboard["panels"]:
        assert panel["targets"], panel["title"]
        yield from (target["expr"] for target in panel["targets"])
    yield from (variable["query"] for variable in dashboard["templating"]["list"])
    with open(f"{PACKAGING}/prometheus/sonde-alerts.yml", encoding="utf-8") as file:
        yield re.sub(r"(?m)^ *(#|description:|summary:).*", "", file.read())


def test_dashboard_and_alerts_name_only_metrics_that_exist():
    check.until(function_seconds, what="the function's CPU time")
    with stack.Server("sleep", "100", flags=("--history",), env={"SONDE_OTLP": "http://127.0.0.1:1"}) as recorded:
        known = names(metrics(SERVER)) | names(metrics(recorded))
    used = {name for text in expressions() for name in re.findall(r"\b(?:sonde|process)_[a-z_]+\b", text)}
    assert "sonde_history_working" in used and "sonde_export_working" in used and "sonde_function_cpu_seconds_total" in used, used
    assert not used - known, f"unknown metrics: {sorted(used - known)}"
    with open(os.path.join(stack.PREFIX, "share/doc/sonde/integrations.md"), encoding="utf-8") as file:
        page = file.read()
    assert not {name for name in known if f"`{name}`" not in page}, "metrics that docs/integrations.md does not list"


def test_dashboard_panels_do_not_overlap():
    with open(f"{PACKAGING}/grafana/sonde-dashboard.json", encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [(x, y) for panel in panels for at in (panel["gridPos"],) for x in range(at["x"], at["x"] + at["w"])
             for y in range(at["y"], at["y"] + at["h"])]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24


def test_promtool_tests_the_alerts():
    folder = f"{PACKAGING}/prometheus"
    for words in (("check", "rules", f"{folder}/sonde-alerts.yml", f"{folder}/sonde-collect-alerts.yml"),
                  ("test", "rules", *(f"{folder}/sonde-{name}-test.yml" for name in ("alerts", "alerts-day", "collect-alerts")))):
        done = subprocess.run([need("promtool"), *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def ask(address, path):
    try:
        with urllib.request.urlopen(f"http://{address}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]
    except OSError:
        return None


def query(address, expression):
    data = ask(address, "query?" + urllib.parse.urlencode({"query": expression}))
    return data["result"] if data else []


def start_prometheus():
    """None if it is not installed. It looks for targets every 5 s, so it starts before the other tests."""
    program = shutil.which("prometheus", path="/usr/bin:/usr/local/bin")
    folder = os.path.join(stack.WORK, "prometheus")
    os.makedirs(folder)
    with open(f"{folder}/prometheus.yml", "w", encoding="utf-8") as file:
        file.write(CONFIG.format(host=SERVER.host, rules=f"{PACKAGING}/prometheus/sonde-alerts.yml"))
    if not program:
        return None
    with open(f"{folder}/log", "wb") as log:
        return subprocess.Popen([program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                 "--web.listen-address=127.0.0.1:0"], stdout=log, stderr=log)


def listening():
    """Where Prometheus listens."""
    with open(os.path.join(stack.WORK, "prometheus/log"), encoding="utf-8") as log:
        text = log.read()
    assert PROMETHEUS.poll() is None, text
    found = re.search(r'msg="Listening on" address=(\S+)', text)
    return found.group(1) if found else None


def test_prometheus_discovers_the_target_and_scrapes_the_metrics():
    need("prometheus")
    address = check.until(listening, what="Prometheus")
    labels = check.until(lambda: query(address, 'sonde_build_info{job="discovered"}'), what="a discovered target")[0]["metric"]
    assert labels["prefix"] == "/t/shop" and labels["service_name"] == "shop", labels
    assert labels["pid"] == str(SERVER.pid) and labels["executable"].startswith("python3"), labels
    assert check.until(lambda: query(address, 'sonde_targets{job="sonde"}'), what="a scrape")[0]["value"][1] == "1"
    assert query(address, "process_open_fds / process_max_fds < 0.8 and on (job, instance) sonde_build_info")
    check.until(lambda: ask(address, "rules"), what="the alerts")
    assert not query(address, 'ALERTS{alertstate="firing"}')
    errors = [target["lastError"] for target in ask(address, "targets")["activeTargets"] if target["lastError"]]
    assert not errors, errors


PROMETHEUS = start_prometheus()
try:
    check.main(globals())
finally:
    if PROMETHEUS:
        check.stop(PROMETHEUS)
    SERVER.stop()
