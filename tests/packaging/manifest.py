# SPDX-License-Identifier: Apache-2.0
"""Prints what the DaemonSet's first container may do and runs: its capabilities as setpriv wants them, then its command by lines."""

import sys

import yaml

with open(sys.argv[1], encoding="utf-8") as source:
    daemon = next(entry for entry in yaml.safe_load_all(source) if entry["kind"] == "DaemonSet")
container = daemon["spec"]["template"]["spec"]["containers"][0]
capabilities = container["securityContext"]["capabilities"]
assert capabilities["drop"] == ["ALL"], capabilities
print("-all," + ",".join("+" + name.lower() for name in capabilities["add"]))
print("\n".join(container["command"]))
