# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases of a Bazel run: count_tests.py EVENTS STATUS [STRAY...]. EVENTS is the run's build event file, STATUS its
exit status; each STRAY is a file that a test wrote outside of its folder. Prints the skipped cases and their reasons. The last
line is "N passed, N failed, N skipped".

A test that skips prints "SKIP: NAME: REASON". On the reference image (SONDE_REFERENCE_IMAGE=1, see test.sh) it counts as failed
unless a pattern in tests/skips.txt matches "NAME: REASON"; there, each STRAY counts as a failure, too."""

import fnmatch
import json
import os
import re
import sys
import urllib.parse

CLOSING = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
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


def targets(events_path):
    """Returns the last result of every test target and shard: {(label, shard): (passed, log lines)}."""
    results, failed = {}, []
    with open(events_path, encoding="utf-8") as events:
        for line in events:
            event = json.loads(line)
            if "testResult" in event:
                result = event["testResult"]
                logs = [o["uri"] for o in result.get("testActionOutput", []) if o["name"] == "test.log"]
                lines = read_log(logs[0]) if logs and "uri" in result["testActionOutput"][0] else []
                label, shard = event["id"]["testResult"]["label"], event["id"]["testResult"].get("shard", 1)
                if (label, shard) in results and not results[label, shard][0]:
                    print(f"{label}: needed a second run")
                results[label, shard] = (result.get("status") == "PASSED", lines)
            elif "targetCompleted" in event.get("id", {}) and not event.get("completed", {}).get("success"):
                failed.append(event["id"]["targetCompleted"]["label"])
    seen = {label for label, _ in results}
    results.update({(label, 1): (False, []) for label in failed if label not in seen})  # not built
    return results


def judge_skips(label, counts, skips, allowed):
    """Prints each skip, and counts those that are not allowed as failed."""
    for skip in skips:
        if allowed is None or any(fnmatch.fnmatchcase(skip, pattern) for pattern in allowed):
            print(f"{label}: skipped {skip}")
        else:
            print(f"{label}: FAILED: skipped {skip}: install what it needs (bazel/install_deps.sh), or list it in tests/skips.txt")
            counts[1] += 1
            counts[2] -= 1


def main():
    total, allowed = [0, 0, 0], read_allowed()
    for (label, _), (passed, lines) in sorted(targets(sys.argv[1]).items()):
        counts, skips = count_target(passed, lines)
        if counts[1]:
            print(f"{label}: FAILED")
        judge_skips(label, counts, skips, allowed)
        total = [a + b for a, b in zip(total, counts)]
    for stray in sys.argv[3:] if allowed is not None else []:
        print(f"{stray}: FAILED: a test wrote it outside of its own folder")
        total[1] += 1
    status = int(sys.argv[2])
    if status != 0 and total[1] == 0:
        total[1] = 1  # the build itself failed
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] or total[0] == 0 else 0


sys.exit(main())
