# SPDX-License-Identifier: Apache-2.0
"""`sonde gate` with profiles from files: its three answers, its reports, and what it says about input that cannot be compared."""

import itertools
import json
import os
import random
import shutil
import subprocess
import xml.etree.ElementTree

from tests.cli import check

SONDE = os.path.abspath("clients/cli/sonde")
FOLDER = check.short_folder()
RUNS = 6
TIMES = itertools.count(1 << 60)  # no two runs begin at the same time


def gate(*words, status=0, fds=()):
    """Runs the verb, checks its exit status and returns (stdout, stderr)."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SONDE_")}
    clean.update(XDG_RUNTIME_DIR=FOLDER, SONDE_SERVICE=f"unix:{FOLDER}/nobody.sock")
    done = subprocess.run([SONDE, "gate", *words], env=clean, capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL, cwd=FOLDER, pass_fds=fds)
    check.equal(done.returncode, status, f"status of {words} ({done.stdout}{done.stderr})")
    return done.stdout, done.stderr


def refused(*words, status=2, text=""):
    """The first line of the error."""
    line = gate(*words, status=status)[1].splitlines()[0]
    check.contains(line, text)


def varint(number):
    out = []
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + [number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def profile(costs, kind=("samples", "count"), clock=None, period=1, seconds=1, source=""):
    """A pprof profile of functions that `main` calls, with their numbers of samples; all of them are in one source file."""
    strings = ["", *kind, *(clock or kind), "main", *costs, source]
    body = field(1, field(1, 1) + field(2, 2)) + field(11, field(1, 3) + field(2, 4)) + field(12, period)
    body += field(9, next(TIMES)) + field(10, int(seconds * 1e9))
    for number, name in enumerate(["main", *costs], 1):
        body += field(4, field(1, number) + field(4, field(1, number)))
        body += field(5, field(1, number) + field(2, number + 4) + field(4, len(strings) - 1) + field(5, 7))
        if costs.get(name):
            body += field(2, field(1, varint(number) + varint(1)) + field(2, varint(costs[name])))
    return body + b"".join(field(6, text.encode()) for text in strings)


def write(name, content):
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(content)
    return name


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def runs(name, factor=1, extra="", spread=3, **more):
    """Files of runs whose costs differ by at most `spread` samples of 2,000."""
    names, chance = [], random.Random(name)
    for number in range(RUNS):
        jitter = [chance.randint(-spread, spread) for _ in range(2)]
        costs = {"parse|`x`": round(400 * factor) + jitter[0], "match": 1600 + jitter[1]}
        if extra:
            costs[extra] = 200
        names.append(write(f"{name}{number}.pb", profile(costs, **more)))
    return names


BASE = runs("base", spread=2)
SAME = runs("same", spread=3)
SLOW = runs("slow", factor=1.5)


def test_equal_runs_pass():
    out, err = gate("--base", *BASE, "--new", *SAME)
    check.equal(err, "")
    check.equal(out.splitlines()[0], "PASS")
    check.contains(out, "6 base runs with ")


def test_slower_runs_fail_and_the_function_is_named():
    out, _ = gate("--base", *BASE, "--new", *SLOW, status=10)
    check.equal(out.splitlines()[0], "FAIL")
    check.contains(out, "FAIL total: ")
    check.contains(out, "of the total (+")
    check.contains(out.split("explained by")[1], "parse|`x`\n    called by main")


def test_limits_of_functions_are_checked_beside_the_total():
    gate("--base", *BASE, "--new", *SLOW, "--max-increase", "20%")
    out, _ = gate("--base", *BASE, "--new", *SLOW, "--max-increase", "20%", "--function", "^parse=10%", status=10)
    check.contains(out, "PASS total")
    check.contains(out, "FAIL parse|`x`: ")
    gate("--base", *BASE, "--new", *SLOW, "--max-increase", "20%", "--function", "^match=0.05")
    out, _ = gate("--base", *BASE, "--new", *SLOW, "--max-increase", "20%", "--function", "^nothing=5%", status=11)
    check.contains(out, "^nothing=5%: no function has such a name")


def test_amounts_are_per_run_second_or_request():
    gate("--base", *BASE, "--new", *SLOW, "--per", "requests=1000,1100")
    long = runs("long", spread=3, seconds=2)
    gate("--base", *BASE, "--new", *long, "--per", "second")
    check.contains(gate("--base", *BASE, "--new", *long)[1], "pass --per second")
    refused("--base", *BASE, "--new", *runs("timeless", seconds=0, factor=1.01), "--per", "second",
            text="timeless0.pb does not say how long")


def test_reports_have_the_format_of_their_extension():
    files = ["r.txt", "r.md", "r.json", "r.xml", "r.sarif"]
    out, _ = gate("--base", *BASE, "--new", *SLOW, *(word for file in files for word in ("--report", file)), status=10)
    check.equal(read("r.txt"), out)
    check.contains(read("r.md"), "## Performance: FAIL\n\n| check | result | change |\n|---|---|---|\n| `total` | FAIL | ")
    check.contains(read("r.md"), "| `parse\\|'x'` | +")
    report = json.loads(read("r.json"))
    check.equal((report["result"], report["base"]["runs"], report["checks"][0]["subject"]), ("FAIL", RUNS, "total"))
    check.equal((report["causes"][0]["function"], report["causes"][0]["callers"]), ("parse|`x`", ["main"]))
    check.near(report["checks"][0]["increase"], 0.1, 0.01)
    assert report["checks"][0]["low"] < report["checks"][0]["increase"] < report["checks"][0]["high"], report
    suite = xml.etree.ElementTree.fromstring(read("r.xml")).find("testsuite")
    check.equal((suite.get("tests"), suite.get("failures"), suite.get("errors")), ("1", "1", "0"))
    check.contains(suite.find("testcase/failure").get("message"), "limit +3.00 %")
    (run,) = json.loads(read("r.sarif"))["runs"]
    check.equal([(one["ruleId"], one["level"]) for one in run["results"]], [("limit-exceeded", "error"), ("cause", "note")])
    check.equal([name for name in os.listdir(FOLDER) if name.startswith("r.") and name not in files], [], "temporary files")


def places(*words):
    """The files and lines of a SARIF report's results. GitHub refuses a report in which one has none."""
    gate("--base", *BASE, "--report", "places.sarif", *words, status=10)
    (run,) = json.loads(read("places.sarif"))["runs"]
    found = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    return [(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in found]


def test_each_result_of_a_sarif_report_has_a_place():
    inside = os.path.join(os.path.realpath(FOLDER), "src/größe 1.c")
    words = ("--function", "^nothing=5%", "--new")
    check.equal(places(*words, *runs("inside", factor=1.5, source=inside)), [("src/gr%C3%B6%C3%9Fe%201.c", 7)] * 3)
    check.equal(places(*words, *runs("outside", factor=1.5, source="/usr/src/a.c")), [("file:///usr/src/a.c", 7)] * 3)
    check.equal(places(*words, *runs("relative", factor=1.5, source="./a.c")), [("a.c", 7)] * 3)
    check.equal(places(*words, *SLOW), [("sonde-gate", 1)] * 3)


def test_a_result_that_cannot_be_printed_is_a_failure():
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([SONDE, "gate", "--base", *BASE, "--new", *SAME], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                              check=False, cwd=FOLDER)
    check.equal(done.returncode, 1, done.stderr)


def test_a_report_that_cannot_be_written_or_has_no_format_is_an_error():
    refused("--base", *BASE, "--new", *SAME, "--report", "no/such/folder.md", status=1, text="no/such/folder.md")
    refused("--base", *BASE, "--new", *SAME, "--report", "report.pdf", text="report.pdf does not end in .txt, .md")


def test_one_run_is_inconclusive():
    out, _ = gate("--base", BASE[0], "--new", *SAME, "--report", "one.xml", status=11)
    check.contains(out, "INCONCLUSIVE\none run does not show how much runs vary; at least 2 on each side")
    suite = xml.etree.ElementTree.fromstring(read("one.xml")).find("testsuite")
    check.equal((suite.get("failures"), suite.get("errors")), ("0", "1"))


def test_noisy_runs_are_inconclusive_and_say_how_many_more_are_needed():
    out, _ = gate("--base", *runs("noisy", spread=150), "--new", *runs("noise", spread=140), status=11)
    check.contains(out, "more runs on each side would decide")


def test_runs_without_samples_are_inconclusive():
    empty = [write(f"empty{number}.pb", profile({}, seconds=number + 1)) for number in range(2)]
    check.contains(gate("--base", *BASE, "--new", *empty, status=11)[0], "the new runs have no samples")
    check.contains(gate("--base", *empty, "--new", *BASE, status=11)[0], "the base runs have no samples")


def test_files_that_are_missing_empty_or_broken_fail():
    refused("--base", *BASE, "--new", "missing.pb", status=1, text="missing.pb: No such file")
    refused("--base", *BASE, "--new", write("nothing.pb", b""), status=1, text="cannot read nothing.pb as a pprof profile")
    refused("--base", write("text.pb", b"no profile\n"), "--new", *SAME, status=1, text="cannot read text.pb")


def test_profiles_of_other_kinds_units_or_rates_are_refused():
    refused("--base", *BASE, "--new", *runs("heap", kind=("inuse_space", "bytes")), text="measure different things")
    refused("--base", *BASE, "--new", *runs("time", kind=("samples", "nanoseconds")), text="measure different things")
    slow, fast = (runs(name, clock=("cpu", "nanoseconds"), period=period) for name, period in (("slow-clock", 10), ("fast-clock", 7)))
    refused("--base", *slow, "--new", *fast, text="different rates")
    refused("--base", *BASE, "--new", *SAME, "--type", "cpu", text='no common sample type "cpu"')
    refused("--base", *BASE, *runs("other", kind=("inuse_space", "bytes")), "--new", *SAME, text="does not measure")


def test_the_same_run_twice_is_refused():
    shutil.copy(os.path.join(FOLDER, BASE[1]), os.path.join(FOLDER, "copy.pb"))
    refused("--base", *BASE, "--new", *SAME, "copy.pb", text="base1.pb and copy.pb are the same run")
    refused("--base", BASE[0], BASE[0], "--new", *SAME, text="base0.pb and base0.pb are the same run")


def test_runs_in_pipes_are_read_once():
    ends = []
    for name in (*BASE, *SAME):
        end, into = os.pipe()
        ends.append(end)
        with open(os.path.join(FOLDER, name), "rb") as file, os.fdopen(into, "wb") as pipe:
            pipe.write(file.read())  # a pipe has room for more
    paths = [f"/dev/fd/{end}" for end in ends]
    gate("--base", *paths[:RUNS], "--new", *paths[RUNS:], fds=ends)
    for end in ends:
        os.close(end)


def test_nonsense_limits_are_usage_errors():
    for words in (("--max-increase", "-3%"), ("--max-increase", "much"), ("--min-effect", "200%"), ("--confidence", "1"),
                  ("--function", "parse"), ("--function", "[=5%"), ("--per", "minute"), ("--per", "requests=0"), ("--runs", "0")):
        refused("--base", *BASE, "--new", *SAME, *words, text=words[0])


def test_sides_that_are_missing_or_ambiguous_are_usage_errors():
    refused("--base", *BASE, text="--base and --new are needed")
    refused("--new", *SAME, text="--base and --new are needed")
    refused("--runs", "3", "--base", "sleep", "1", "--new", "sleep 1", text="--runs needs one command")
    refused("shop", "--base", "a = 1", "b = 2", "--new", "c = 3", text="history needs one selector")
    refused("shop", "--runs", "3", "--base", "true", "--new", "true", text="--runs runs commands")
    refused("shop", "more", "--base", "a = 1", "--new", "b = 2", text='unexpected argument "more"')
    refused("shop", "--base", "a = 1", "--new", "b = 2", "--from", "yesterdayish", text="--from")


def test_a_service_that_cannot_be_reached_is_status_3():
    gate("shop", "--base", "a = 1", "--new", "b = 2", status=3)


try:
    check.main(globals())
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
