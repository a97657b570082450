# SPDX-License-Identifier: Apache-2.0
"""The DaemonSet's manifest has only fields that Kubernetes has, of the right types, and what it names is there. kubectl reads it into the
types of Kubernetes' API, without a cluster: what is left out on the way is no field of them."""

import json
import os
import shutil
import subprocess

import yaml

from tests.cli import check

with open("bazel/packaging/container/daemonset.yaml", encoding="utf-8") as source:
    OBJECTS = [entry for entry in yaml.safe_load_all(source) if entry]
(DAEMON,) = [entry for entry in OBJECTS if entry["kind"] == "DaemonSet"]
POD = DAEMON["spec"]["template"]["spec"]


def through_kubectl(entry):
    """(The object as Kubernetes' types have it, or None, and what kubectl said.) `set env` adds a variable to each container."""
    done = subprocess.run(["kubectl", "set", "env", "--local", "-f", "-", "-o", "json", "ADDED=1"], input=json.dumps(entry), text=True,
                          capture_output=True, check=False, env={"PATH": os.environ["PATH"], "HOME": check.short_folder()})
    return json.loads(done.stdout) if done.returncode == 0 else None, done.stderr


def missing(wanted, found, path=""):
    """The paths of what is in one object and not in the other."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [one for key, value in wanted.items() for one in missing(value, found.get(key), f"{path}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) <= len(found):
        return [one for i, value in enumerate(wanted) for one in missing(value, found[i], f"{path}[{i}]")]
    return [] if wanted == found or (not wanted and found is None) else [path]


def test_each_field_is_one_of_kubernetes():
    if not shutil.which("kubectl"):
        raise check.Skip("kubectl is not installed")
    found, said = through_kubectl(DAEMON)
    assert found, said
    check.equal(missing(DAEMON, found), [])
    mistaken = json.loads(json.dumps(DAEMON))
    mistaken["spec"]["template"]["spec"]["containers"][0]["securityContext"]["readOnlyRootFs"] = True
    check.equal(missing(mistaken, through_kubectl(mistaken)[0]),
                [".spec.template.spec.containers[0].securityContext.readOnlyRootFs"], "a field that does not exist")
    mistaken["spec"]["template"]["spec"]["hostPID"] = "yes"
    check.equal(through_kubectl(mistaken)[0], None, "a field of another type")


def test_what_the_manifest_names_is_there():
    labels = DAEMON["spec"]["template"]["metadata"]["labels"]
    for name, value in DAEMON["spec"]["selector"]["matchLabels"].items():
        check.equal(labels[name], value, "a label that the selector wants")
    check.equal([entry["metadata"]["name"] for entry in OBJECTS if entry["kind"] == "Namespace"], [DAEMON["metadata"]["namespace"]])
    volumes = [volume["name"] for volume in POD["volumes"]]
    check.equal(len(set(volumes)), len(volumes), "the number of volumes of different names")
    for container in POD["containers"]:
        mounts = container["volumeMounts"]
        check.equal([mount["name"] for mount in mounts if mount["name"] not in volumes], [], "mounts without a volume")
        check.equal(len({mount["mountPath"] for mount in mounts}), len(mounts), "the number of places of mounts")
        ports = [port["name"] for port in container.get("ports", [])]
        for probe in (container.get(kind, {}) for kind in ("readinessProbe", "livenessProbe", "startupProbe")):
            assert probe.get("tcpSocket", {"port": None})["port"] in [None, *ports], probe


def test_each_setting_of_the_containers_is_one_of_the_program():
    for container in POD["containers"]:
        program, *words = container["command"]
        with open(f"docs/man/{program}.8", encoding="utf-8") as page:
            text = page.read().replace("\\-", "-")
        for word in words:
            assert not word.startswith("--") or word in text, f"{program} has no {word}"


check.main(globals())
