# SPDX-License-Identifier: Apache-2.0
"""ClickHouse as a cluster of two shards with two replicas each, and ZooKeeper, all from Debian."""

import os
import subprocess
import urllib.error

from tests.cli import check
from tests.rpc.history.clickhouse_server import ClickHouse

JAR = "/usr/share/java/zookeeper.jar"
REPLICA = "<replica><host>127.0.0.1</host><port>{}</port></replica>"
SHARD = "<shard><internal_replication>true</internal_replication>{}{}</shard>"
EXTRA = """<remote_servers><fleet>{}</fleet></remote_servers><zookeeper><node><host>127.0.0.1</host><port>{}</port></node></zookeeper>
<macros><shard>{}</shard><replica>r{}</replica></macros>"""


class Server(ClickHouse):
    """A server that is configured before it starts."""

    def __init__(self):
        self.folder, self.port, self.tcp_port, self.process = check.short_folder(), check.free_port(), check.free_port(), None


class Cluster:
    """servers[0] and [1] are the first shard's replicas, [2] and [3] the second's. Raises check.Skip without Debian's packages."""

    def __init__(self):
        if not os.access("/usr/sbin/clickhouse-server", os.X_OK) or not os.access(JAR, os.R_OK):
            raise check.Skip("missing: apt-get install clickhouse-server zookeeper default-jre-headless")
        self.start_zookeeper()
        self.servers = [Server() for _ in range(4)]
        shards = "".join(SHARD.format(*(REPLICA.format(each.tcp_port) for each in self.servers[first:first + 2])) for first in (0, 2))
        for number, server in enumerate(self.servers):
            server.configure(EXTRA.format(shards, self.zookeeper_port, number // 2 + 1, number))
        self.start()
        for server in self.servers:
            check.until(lambda server=server: self.has_zookeeper(server), 180, "ZooKeeper")

    def start_zookeeper(self):
        folder, self.zookeeper_port = check.short_folder(), check.free_port()
        with open(f"{folder}/zoo.cfg", "w", encoding="ascii") as file:
            file.write(f"tickTime=500\ndataDir={folder}\nclientPort={self.zookeeper_port}\nadmin.enableServer=false\n")
        self.zookeeper = subprocess.Popen(["java", "-cp", JAR, "org.apache.zookeeper.server.ZooKeeperServerMain", f"{folder}/zoo.cfg"],
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @staticmethod
    def has_zookeeper(server):
        try:
            return server.query("SELECT count() FROM system.zookeeper WHERE path = '/'") != []
        except urllib.error.URLError:
            return False

    @property
    def store(self):
        urls = [f"http://127.0.0.1:{server.port}/sonde" for server in self.servers]
        return "clickhouse:" + ",".join([urls[0] + "?cluster=fleet", *urls[1:]])

    def start(self):
        """Those that do not run."""
        for server in self.servers:
            if not server.process or server.process.poll() is not None:
                server.start()

    def synchronize(self):
        """Lets each replica fetch what the other one acknowledged. sonde-history waits for a killed one that had more."""
        for server in self.servers:
            for table in ("samples_local", "host_totals_local"):
                server.query(f"SYSTEM SYNC REPLICA sonde.{table}")

    def kill(self, *numbers):
        """All of them without numbers; ZooKeeper stays."""
        for number in numbers or range(4):
            self.servers[number].kill()

    def stop(self):
        self.kill()
        self.zookeeper.kill()
        self.zookeeper.wait()

    def query(self, sql):
        """From any server that can answer."""
        for server in self.servers:
            try:
                return server.query(sql)
            except urllib.error.URLError as error:
                failure = error
        raise failure
