# SPDX-License-Identifier: Apache-2.0
"""A ClickHouse server for tests, which can be killed and started again."""

import os
import signal
import subprocess
import urllib.request

from tests.cli import check

PROGRAM = "/usr/sbin/clickhouse-server"
CONFIGURATION = """<yandex><logger><level>warning</level><log>{0}/log</log><errorlog>{0}/errors</errorlog></logger>
<listen_host>127.0.0.1</listen_host><http_port>{1}</http_port><tcp_port>{2}</tcp_port><path>{0}/data/</path>
<tmp_path>{0}/tmp/</tmp_path><users_config>users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><timezone>UTC</timezone><mark_cache_size>67108864</mark_cache_size>
<interserver_http_port>{3}</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>{4}</yandex>"""
USERS = """<yandex><profiles><default><max_threads>2</max_threads></default></profiles><users><default><password></password>
<networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
<quotas><default></default></quotas></yandex>"""


class ClickHouse:
    """A server with the tables of nobody, on a free port. Raises check.Skip if Debian's package is missing."""

    def __init__(self):
        if not os.access(PROGRAM, os.X_OK):
            raise check.Skip("clickhouse-server is not installed")
        self.folder, self.port, self.tcp_port = check.short_folder(), check.free_port(), check.free_port()
        self.configure("")
        self.start()

    def configure(self, extra):
        text = CONFIGURATION.format(self.folder, self.port, self.tcp_port, check.free_port(), extra)
        for name, content in (("config.xml", text), ("users.xml", USERS)):
            with open(f"{self.folder}/{name}", "w", encoding="ascii") as file:
                file.write(content)

    @property
    def store(self):
        return f"clickhouse:http://127.0.0.1:{self.port}/sonde"

    def start(self):
        self.process = subprocess.Popen([PROGRAM, f"--config-file={self.folder}/config.xml"], cwd=self.folder,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        check.until(self.answers, 180, "an answer of ClickHouse")

    def answers(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=10) as answer:
                return answer.status == 200
        except OSError:
            return False

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def query(self, sql):
        """The rows of an answer, as lists of texts."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", data=sql.encode(), timeout=60) as answer:
            return [line.split("\t") for line in answer.read().decode().splitlines()]
