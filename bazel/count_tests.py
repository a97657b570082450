# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases of a Bazel run.

    count_tests.py EVENTS STATUS [--rerun EVENTS]... [--stray FILE]...
    count_tests.py --failed EVENTS

EVENTS is a run's build event file, STATUS its exit status. Each rerun is of tests that failed before: its results replace theirs, and
the tests are listed. A stray is a file that a test wrote outside of its folder. Prints the slowest tests, and the skipped cases with
their reasons. The last line is "N passed, N failed, N skipped". --failed prints the tests that ran and failed, a line each.

A test that skips prints "SKIP: NAME: REASON". On the reference image (SONDE_REFERENCE_IMAGE=1, see test.sh) it counts as failed
unless a pattern in tests/skips.txt matches "NAME: REASON"; there, each stray counts as a failure, too."""

import argparse
import collections
import fnmatch
import json
import os
import re
import sys
import urllib.parse

CLOSING = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
SLOWEST = 10
SKIPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/skips.txt")


def read_log(uri):
    path = urllib.parse.unquote(urllib.parse.urlparse(uri).path)
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            return log.read().splitlines()
    except OSError:
        return []


def read_allowed():
    """The patterns of allowed skips, or None outside the reference image, where every skip is allowed."""
    if os.environ.get("SONDE_REFERENCE_IMAGE") != "1":
        return None
    with open(SKIPS, encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def count_target(passed, lines):
    """Returns ([passed, failed, skipped], skips) of one test program, from its closing line; without one, it is one case."""
    closings = [match for match in map(CLOSING.match, lines) if match]
    skips = [line.removeprefix("SKIP: ") for line in lines if line.startswith("SKIP: ")]
    if not closings:
        if not passed:
            return [0, 1, 0], skips
        return ([0, 0, 1] if skips else [1, 0, 0]), skips
    counts = [int(text or 0) for text in closings[-1].groups()]
    if not passed and counts[1] == 0:
        counts[1] = 1  # crashed, timed out or leaked after its last case
    counts[2] = max(counts[2], len(skips))
    return counts, skips


class Run:
    """The results of a run: {(label, shard): (passed, log lines)}, durations {label: seconds}, and the labels that were not built."""

    def __init__(self, events_path):
        self.results, self.seconds, self.not_built = {}, collections.Counter(), set()
        failed = set()
        with open(events_path, encoding="utf-8") as events:
            for event in map(json.loads, events):
                if "testResult" in event:
                    self.add(event["id"]["testResult"], event["testResult"])
                elif "targetCompleted" in event.get("id", {}) and not event.get("completed", {}).get("success"):
                    failed.add(event["id"]["targetCompleted"]["label"])
        self.not_built = failed - {label for label, _ in self.results}
        self.results.update({(label, 1): (False, []) for label in self.not_built})

    def add(self, name, result):
        logs = [o["uri"] for o in result.get("testActionOutput", []) if o["name"] == "test.log" and "uri" in o]
        lines = read_log(logs[0]) if logs else []
        self.results[name["label"], name.get("shard", 1)] = (result.get("status") == "PASSED", lines)
        self.seconds[name["label"]] += int(result.get("testAttemptDurationMillis", 0)) / 1000

    def failed(self):
        return sorted({label for (label, _), (passed, _) in self.results.items() if not passed} - self.not_built)


def judge_skips(label, counts, skips, allowed):
    """Prints each skip, and counts those that are not allowed as failed."""
    for skip in skips:
        if allowed is None or any(fnmatch.fnmatchcase(skip, pattern) for pattern in allowed):
            print(f"{label}: skipped {skip}")
        else:
            print(f"{label}: FAILED: skipped {skip}: install what it needs (bazel/install_deps.sh), or list it in tests/skips.txt")
            counts[1] += 1
            counts[2] -= 1


def add_reruns(run, paths):
    """Replaces results by those of reruns, and prints how often each test was run again."""
    again = collections.Counter()
    for path in paths:
        rerun = Run(path)
        run.results.update(rerun.results)
        again.update({label for label, _ in rerun.results})
    for label, times in sorted(again.items()):
        passed = all(passed for (name, _), (passed, _) in run.results.items() if name == label)
        print(f"{label}: {'passed' if passed else 'failed'} when it ran alone ({times} {'rerun' if times == 1 else 'reruns'})")


def print_slowest(run):
    for label, seconds in run.seconds.most_common(SLOWEST):
        if seconds >= 1:
            print(f"{label}: {seconds:.0f} s")


def count(run, allowed):
    total = [0, 0, 0]
    for (label, _), (passed, lines) in sorted(run.results.items()):
        counts, skips = count_target(passed, lines)
        if counts[1]:
            print(f"{label}: FAILED")
        judge_skips(label, counts, skips, allowed)
        total = [a + b for a, b in zip(total, counts)]
    return total


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--failed", action="store_true")
    arguments.add_argument("--rerun", action="append", default=[])
    arguments.add_argument("--stray", action="append", default=[])
    arguments.add_argument("events")
    arguments.add_argument("status", type=int, nargs="?", default=0)
    given = arguments.parse_args()
    run, allowed = Run(given.events), read_allowed()
    failed = run.failed()
    if given.failed:
        print("".join(f"{label}\n" for label in failed), end="")
        return 0
    print_slowest(run)
    add_reruns(run, given.rerun)
    total = count(run, allowed)
    for stray in given.stray if allowed is not None else []:
        print(f"{stray}: FAILED: a test wrote it outside of its own folder")
        total[1] += 1
    # Bazel's 3 says that tests failed, and they may have passed alone.
    if given.status != 0 and total[1] == 0 and not (given.status == 3 and failed):
        total[1] = 1  # the build itself failed
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] or total[0] == 0 else 0


sys.exit(main())
