# SPDX-License-Identifier: Apache-2.0
"""The servers of the bench: each function starts one with its load, and returns the pid to sample. What is entered into `ends` is
stopped afterwards."""

import os
import pwd
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

from tests.cli import check
from tests.e2e import stack

PROGRAMS = os.path.abspath("tests/bench/roots")
ALL = ("redis", "nginx", "postgres", "node", "clickhouse", "go", "rust", "musl")
NGINX = """daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{ access_log off; gzip on; gzip_min_length 1; gzip_types *;
server {{ listen 127.0.0.1:{port}; location / {{ root {folder}; }} }} }}
"""
CLICKHOUSE = """<yandex><logger><level>warning</level><console>1</console></logger>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
<path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path><user_files_path>{folder}/files/</user_files_path>
<users_config>/etc/clickhouse-server/users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><mark_cache_size>268435456</mark_cache_size></yandex>
"""


def need(*programs):
    for program in programs:
        if not shutil.which(program, path="/usr/local/bin:/usr/sbin:/usr/bin:/bin:" + os.path.expanduser("~/.cargo/bin")):
            raise check.Skip(f"{program} is not installed")


def folder(name):
    path = os.path.join(stack.WORK, name)
    os.makedirs(path, exist_ok=True)
    return path


def start(ends, *command, **options):
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    ends.callback(check.stop, process)
    return process.pid


def build(*command):
    environment = {**os.environ, "PATH": os.environ["PATH"] + ":" + os.path.expanduser("~/.cargo/bin"), "GO111MODULE": "off"}
    environment.setdefault("HOME", stack.WORK)
    environment.setdefault("GOCACHE", folder("go-cache"))
    subprocess.run(command, check=True, env=environment)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_served(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def busiest_child(pid):
    """The child that used the most CPU time."""
    def ticks(child):
        with open(f"/proc/{child}/stat", encoding="ascii", errors="replace") as stat:
            words = stat.read().rsplit(")", 1)[1].split()
        return int(words[11]) + int(words[12])
    return max((child for child, _ in check.children(pid)), key=ticks)


def redis(ends):
    need("redis-server", "redis-benchmark")
    port = str(free_port())
    pid = start(ends, "redis-server", "--port", port, "--save", "", "--dir", stack.WORK)
    check.until(lambda: is_served(int(port)), what="redis's port")
    start(ends, "redis-benchmark", "-p", port, "-q", "-l", "-t", "set,get,lpush,zadd,lrange_300", "-c", "20", "-P", "16")
    return pid


def nginx(ends):
    need("nginx", "wrk")
    port, place = free_port(), folder("nginx")
    os.chmod(stack.WORK, 0o755)
    with open(f"{place}/index.html", "w", encoding="ascii") as page:
        page.write("".join(f"<p>{number}</p>\n" for number in range(3000)))
    with open(f"{place}/conf", "w", encoding="ascii") as config:
        config.write(NGINX.format(folder=place, port=port))
    pid = start(ends, "nginx", "-p", place, "-c", f"{place}/conf")
    check.until(lambda: is_served(port), what="nginx's port")
    start(ends, "wrk", "-t1", "-c8", "-d600s", "-H", "Accept-Encoding: gzip", f"http://127.0.0.1:{port}/index.html")
    return busiest_child(pid)


def postgres(ends):
    """Not as root, which postgres refuses."""
    binaries = next((f"/usr/lib/postgresql/{version}/bin" for version in ("17", "16", "15", "14", "13")
                     if os.path.exists(f"/usr/lib/postgresql/{version}/bin/initdb")), None)
    if not binaries:
        raise check.Skip("postgresql is not installed")
    need("pgbench")
    place, user = folder("postgres"), pwd.getpwnam("nobody")
    os.chmod(stack.WORK, 0o755)
    os.chown(place, user.pw_uid, user.pw_gid)
    options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": place}
    subprocess.run([f"{binaries}/initdb", "-D", f"{place}/data", "-U", "bench", "--no-sync"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    pid = start(ends, f"{binaries}/postgres", "-D", f"{place}/data", "-k", place, "-c", "listen_addresses=", **options)
    reach = ["-h", place, "-U", "bench", "postgres"]
    check.until(lambda: subprocess.run(["pgbench", "-i", "-s", "2", "-q", *reach], stdout=subprocess.DEVNULL, check=False,
                                       stderr=subprocess.DEVNULL).returncode == 0, what="pgbench's tables", seconds=60)
    start(ends, "pgbench", "-c", "1", "-T", "600", "-b", "select-only", *reach)
    time.sleep(2)
    return busiest_child(pid)


def node(ends):
    need("node")
    return start(ends, "node", f"{PROGRAMS}/work.mjs")


def clickhouse(ends):
    need("clickhouse-server", "curl")
    place, http = folder("clickhouse"), free_port()
    with open(f"{place}/config.xml", "w", encoding="ascii") as config:
        config.write(CLICKHOUSE.format(folder=place, http=http, tcp=free_port()))
    pid = start(ends, "clickhouse-server", f"--config-file={place}/config.xml")

    def answers():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{http}/", b"select 1", timeout=5) as answer:
                return answer.read() == b"1\n"
        except (urllib.error.URLError, OSError):
            return False
    check.until(answers, seconds=60, what="an answer of clickhouse-server")
    query = ("select number % 1000 as k, sum(cityHash64(toString(number))), uniq(number), quantile(0.9)(number) "
             "from numbers(2000000000) group by k order by k format Null")
    start(ends, "curl", "-s", f"http://127.0.0.1:{http}/", "--data-binary", query)
    return pid


def go(ends):
    need("go")
    program = os.path.join(stack.WORK, "go-work")
    build("go", "build", "-o", program, f"{PROGRAMS}/work.go")
    return start(ends, program)


def rust(ends):
    need("rustc")
    program = os.path.join(stack.WORK, "rust-work")
    build("rustc", "-O", "-o", program, f"{PROGRAMS}/work.rs")
    return start(ends, program)


def musl(ends):
    need("musl-gcc")
    program = os.path.join(stack.WORK, "musl-work")
    build("musl-gcc", "-O2", "-static", "-fomit-frame-pointer", "-o", program, f"{PROGRAMS}/work.c", "-lm")
    return start(ends, program)
