# SPDX-License-Identifier: Apache-2.0
"""How bazel/count_tests.py counts the test cases in the logs of a run."""

import json
import os
import subprocess
import tempfile

from tests.cli import check

FOLDER = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
ALLOWED = "jemallocs_own_names_are_seen: malloc is not jemalloc's"


def write_events(run, logs, seconds=0):
    """Writes a build event file of {label: log} or {(label, shard): log}. A log that begins with "!" is from a failed test."""
    events = []
    for label, log in logs.items():
        path = os.path.join(FOLDER, f"{run}.{len(events)}.log")
        with open(path, "w", encoding="utf-8") as file:
            file.write(log.removeprefix("!"))
        name = {"label": label} if isinstance(label, str) else {"label": label[0], "shard": label[1]}
        events.append({"id": {"testResult": name}, "testResult": {
            "status": "FAILED" if log.startswith("!") else "PASSED", "testAttemptDurationMillis": str(seconds * 1000),
            "testActionOutput": [{"name": "test.log", "uri": f"file://{path}"}]}})
    path = os.path.join(FOLDER, run)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(map(json.dumps, events)))
    return path


def run_script(*arguments, reference="1"):
    done = subprocess.run(["/usr/bin/python3", "bazel/count_tests.py", *arguments], capture_output=True, text=True,
                          env={**os.environ, "SONDE_REFERENCE_IMAGE": reference}, check=False)
    return done.returncode, done.stdout


def count(logs, status=0, reference="1", reruns=(), strays=(), seconds=0):
    """Runs count_tests.py on the results of a run and of reruns, and returns its status and output."""
    again = [f"--rerun={write_events(f'rerun{i}', rerun)}" for i, rerun in enumerate(reruns)]
    return run_script(write_events("first", logs, seconds), str(status), *again, *[f"--stray={stray}" for stray in strays],
                      reference=reference)


def test_the_cases_of_all_programs_are_added_up():
    status, out = count({"//a": "ok x\n3 passed, 0 failed, 0 skipped\n", "//b": "2 passed, 0 failed\n", "//c": "fine\n"})
    check.equal((status, out), (0, "6 passed, 0 failed, 0 skipped\n"))


def test_each_shard_of_a_program_counts():
    status, out = count({("//a", 1): "2 passed, 0 failed\n", ("//a", 2): "!1 passed, 1 failed\n"})
    check.equal((status, out), (1, "//a: FAILED\n3 passed, 1 failed, 0 skipped\n"))


def test_a_program_that_fails_after_its_last_case_counts_as_failed():
    check.equal(count({"//a": "!3 passed, 0 failed\n"}), (1, "//a: FAILED\n3 passed, 1 failed, 0 skipped\n"))
    check.equal(count({"//a": "!no closing line\n", "//b": "fine\n"})[1], "//a: FAILED\n1 passed, 1 failed, 0 skipped\n")


def test_a_run_that_did_not_build_counts_as_failed():
    check.equal(count({"//a": "3 passed, 0 failed\n"}, status=1), (1, "3 passed, 1 failed, 0 skipped\n"))
    check.equal(count({})[0], 1)


def test_a_test_that_passes_alone_counts_as_passed_and_is_named():
    first = {"//a": "!4 passed, 1 failed\n", "//b": "2 passed, 0 failed\n"}
    check.equal(count(first, status=3, reruns=[{"//a": "5 passed, 0 failed\n"}]),
                (0, "//a: passed when it ran alone (1 rerun)\n7 passed, 0 failed, 0 skipped\n"))


def test_a_test_that_fails_alone_too_counts_as_failed_once():
    again = {"//a": "!3 passed, 2 failed\n"}
    check.equal(count({"//a": "!4 passed, 1 failed\n"}, status=3, reruns=[again, again]),
                (1, "//a: failed when it ran alone (2 reruns)\n//a: FAILED\n3 passed, 2 failed, 0 skipped\n"))


def test_all_shards_of_a_rerun_have_to_pass():
    first = {("//a", 1): "2 passed, 0 failed\n", ("//a", 2): "!1 passed, 1 failed\n"}
    status, out = count(first, status=3, reruns=[{("//a", 1): "!1 passed, 1 failed\n", ("//a", 2): "2 passed, 0 failed\n"}])
    check.equal((status, out.splitlines()[-1]), (1, "3 passed, 1 failed, 0 skipped"))
    check.contains(out, "//a: failed when it ran alone (1 rerun)")


def test_failures_of_bazel_that_no_test_explains_count():
    check.equal(count({"//a": "3 passed, 0 failed\n"}, status=3)[1].splitlines()[-1], "3 passed, 1 failed, 0 skipped")
    rerun = [{"//a": "5 passed, 0 failed\n"}]
    check.equal(count({"//a": "!5 passed, 0 failed\n"}, status=1, reruns=rerun)[1].splitlines()[-1], "5 passed, 1 failed, 0 skipped")


def test_the_tests_to_run_again_are_listed():
    check.equal(run_script("--failed", write_events("first", {"//b": "!x\n", "//a": "fine\n", ("//c", 2): "!y\n"})), (0, "//b\n//c\n"))


def test_the_slowest_tests_are_printed():
    status, out = count({f"//t{i:02}": "1 passed, 0 failed\n" for i in range(12)}, seconds=7)
    check.equal((status, out.count(": 7 s\n")), (0, 10))


def test_files_outside_of_the_tests_own_folders_count_as_failures():
    logs = {"//a": "3 passed, 0 failed\n"}
    status, out = count(logs, strays=["/var/lib/sonde"])
    check.equal((status, out.splitlines()[-1]), (1, "3 passed, 1 failed, 0 skipped"))
    check.contains(out, "/var/lib/sonde: FAILED")
    check.equal(count(logs, reference="0", strays=["/var/lib/sonde"])[0], 0)


def test_a_listed_skip_is_printed_with_its_reason():
    status, out = count({"//a": f"SKIP: {ALLOWED}\n3 passed, 0 failed, 1 skipped\n"})
    check.equal((status, out), (0, f"//a: skipped {ALLOWED}\n3 passed, 0 failed, 1 skipped\n"))


def test_a_skip_that_is_not_listed_fails_only_on_the_reference_image():
    logs = {"//a": "SKIP: some_test: no go\n3 passed, 0 failed, 1 skipped\n", "//b": "SKIP: b_test: no go\n"}
    status, out = count(logs)
    check.equal((status, out.splitlines()[-1]), (1, "3 passed, 2 failed, 0 skipped"))
    check.contains(out, "//a: FAILED: skipped some_test: no go")
    check.equal(count(logs, reference="0")[1].splitlines()[-1], "3 passed, 0 failed, 2 skipped")


def test_a_skip_in_a_program_that_does_not_count_skips_is_counted():
    check.equal(count({"//a": "SKIP: a_test: no jeprof\n3 passed, 0 failed\n"}, reference="0")[1],
                "//a: skipped a_test: no jeprof\n3 passed, 0 failed, 1 skipped\n")


check.main(globals())
