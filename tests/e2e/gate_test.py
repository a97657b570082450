# SPDX-License-Identifier: Apache-2.0
"""`sonde gate` with commands that it runs and records itself, as in docs/ci.md."""

import json
import os
import re
import subprocess

from tests.cli import check
from tests.e2e import stack

stack.install()
for name in ("old-server", "new-server"):
    subprocess.run(["gcc", "-g", "-O1", "tests/e2e/job.c", "-o", os.path.join(stack.WORK, name)], check=True)


def environment():
    env = stack.environment()
    del env["SONDE_SOURCE"]  # nobody prepares the commands
    return {**env, "PATH": os.path.dirname(stack.SONDE) + ":" + env["PATH"]}


def run(*words, status=0):
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=280, cwd=stack.WORK, check=False,
                          stdin=subprocess.DEVNULL)
    check.equal(done.returncode, status, f"status of {words} ({done.stdout}{done.stderr})")
    return done.stdout, done.stderr


def read(name):
    with open(os.path.join(stack.WORK, name), encoding="utf-8") as file:
        return file.read()


def test_the_example_of_the_documentation_finds_the_slower_function():
    with open("docs/ci.md", encoding="utf-8") as page:
        script = re.search(r"```sh\n(.*?)```", page.read(), re.S)[1]
    for runs in (4, 8, 16):  # the report asks for more if neighbours disturb them
        out, err = run("sh", "-e", "-c", script.replace("--runs 8", f"--runs {runs}").replace("--report gate.xml", "--report gate.json"))
        if "could not be decided" not in out:
            break
    check.contains(out, "slower: see gate.md")
    check.contains(err, f"run {runs} of {runs} of new")
    report = json.loads(read("gate.json"))
    check.equal((report["result"], report["base"]["runs"], report["new"]["runs"]), ("FAIL", runs, runs))
    check.equal(report["causes"][0]["function"], "parse")
    check.equal(report["causes"][0]["callers"][0], "serve")
    check.contains(read("gate.md"), "| `parse` | +")
    assert "disturbed: `run" in read("gate.md") or not report["disturbed"], report["disturbed"]


def test_a_command_that_fails_or_does_not_exist_is_a_failure():
    words = ("sonde", "gate", "--runs", "2", "--base", "./old-server --bench 7", "--new")
    check.contains(run(*words, "./new-server", status=1)[1], "the base command exited with 7")
    check.contains(run("sonde", "gate", "--runs", "2", "--base", "./no-such-server", "--new", "./new-server", status=1)[1],
                   "the base command exited with 127")


def test_commands_that_end_before_a_sample_are_inconclusive():
    out, _ = run("sonde", "gate", "--runs", "2", "--frequency", "1", "--base", "./old-server --bench 0", "--new",
                 "./new-server --bench 0; true", status=11)
    check.contains(out, "no run has a sample")


def test_no_run_leaves_files():
    folder = os.path.join(environment()["XDG_RUNTIME_DIR"], "sonde")
    check.equal([name for name in os.listdir(folder) if name.startswith("run-")], [], "run directories")


check.main(globals())
