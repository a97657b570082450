#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutation testing, run by hand: do the tests notice when the code is wrong?

    tests/mutate/mutate.py service/engine/capture                  20 mutations of one folder
    tests/mutate/mutate.py -n 100 api service gateway clients      100 over the tree
    tests/mutate/mutate.py -n 10 --seed 7 --tests //tests/rpc/... service/rpc

Each mutation changes one expression or removes one statement of a .c file, in a private clone of HEAD. If the folder still
compiles, its tests run until the first one fails. A mutation that no test notices is a survivor; it is printed as a diff. A
survivor is either a missing test or a change without any effect (an equivalent mutation); the score counts both against the
tests. Exit status 0 when the score reaches --goal."""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

# Which tests answer for a folder: the longest prefix that fits. Cheap ones first: the next group runs only if they pass.
TESTS = [
    ("api/draw", ["//tests/unit/draw/...", "//tests/golden/..."]),
    ("api/elf", ["//tests/unit/elf/...", "//tests/unit/unwind/...", "//tests/unit/symbol/...", "//tests/unit/clients/cli/..."]),
    ("api/profile", ["//tests/unit/profile/...", "//tests/unit/draw/...", "//tests/golden/..."]),
    ("api", ["//tests/unit/api/...", "//tests/unit/api/json/...", "//tests/unit/profile/...", "//tests/cli/..."]),
    ("service/elf", ["//tests/unit/elf/...", "//tests/unit/unwind/...", "//tests/unit/symbol/...", "//tests/fuzz/symbol/..."]),
    ("service/unwind", ["//tests/unit/unwind/...", "//tests/fuzz/unwind/...", "//tests/e2e/threads:backtraces_test"]),
    ("service/symbol", ["//tests/unit/symbol/...", "//tests/fuzz/symbol/...", "//tests/rpc:symbols_test", "//tests/e2e:symbols_test"]),
    ("service/engine/memory_report", ["//tests/unit/engine/memory_report/...", "//tests/unit/engine/heap/...", "//tests/fuzz/engine/..."]),
    ("service/engine/heap", ["//tests/unit/engine/heap/...", "//tests/fuzz/engine/...", "//tests/cli/..."]),
    ("service/engine/allocs", ["//tests/unit/engine/heap/...", "//tests/fuzz/engine/..."]),
    ("service/engine/backtraces", ["//tests/e2e/threads:backtraces_test", "//tests/rpc/..."]),
    ("service/engine", ["//tests/unit/engine/...", "//tests/fuzz/engine/...", "//tests/rpc/...", "//tests/rest/..."]),
    ("service/rpc", ["//tests/unit/rpc/...", "//tests/rpc/...", "//tests/rest/...", "//tests/cli/..."]),
    ("service/guest/heap", ["//tests/unit/guest/heap/...", "//tests/unit/engine/heap/..."]),
    ("service/guest", ["//tests/unit/guest/...", "//tests/unit/unwind/...", "//tests/e2e/..."]),
    ("service/export", ["//tests/unit/export/...", "//tests/fuzz/export/...", "//tests/export/..."]),
    ("service/collect", ["//tests/unit/collect/...", "//tests/e2e/fleet:collect_test", "//tests/fleet/simulator:simulator_test"]),
    ("service/host", ["//tests/unit/host/...", "//tests/fuzz/host/...", "//tests/unit/engine/host/..."]),
    ("service/recording", ["//tests/unit/recording/...", "//tests/fuzz/recording/...", "//tests/e2e:history_test"]),
    ("service/store", ["//tests/unit/store/...", "//tests/fuzz/store/...", "//tests/rpc/...", "//tests/fleet:sums_test"]),
    ("service/function_times", ["//tests/unit/function_times/...", "//tests/rpc/..."]),
    ("service", ["//tests/unit/engine/...", "//tests/cli/...", "//tests/e2e/..."]),
    ("gateway", ["//tests/unit/gateway/...", "//tests/rest/...", "//tests/fuzz/gateway/..."]),
    ("clients/collect", ["//tests/unit/clients/collect/...", "//tests/fuzz/collect/...", "//tests/e2e/fleet:fleet_test", "//tests/e2e/fleet:register_test",
                         "//tests/fleet:sums_test", "//tests/fleet:sharing_test"]),
    ("clients/c", ["//tests/unit/clients/c/...", "//tests/cli/...", "//tests/rest/..."]),
    ("clients", ["//tests/unit/clients/cli/...", "//tests/cli/..."]),
]

BROKEN = "does not compile"

# What is put in the place of what. Code only: strings and comments are masked.
SWAPS = [
    (re.compile(r"(?<![<>=!\-+*/&|^])<(?![<=])"), "<="), (re.compile(r"<=(?!=)"), "<"),
    (re.compile(r"(?<![\-<>=!])>(?![>=])"), ">="), (re.compile(r"(?<!>)>="), ">"),
    (re.compile(r"=="), "!="), (re.compile(r"!="), "=="), (re.compile(r"&&"), "||"), (re.compile(r"\|\|"), "&&"),
    (re.compile(r"(?<=[\w)\]]) \+ (?=[\w(])"), " - "), (re.compile(r"(?<=[\w)\]]) - (?=[\w(])"), " + "),
    (re.compile(r"\+="), "-="), (re.compile(r"-="), "+="), (re.compile(r"\btrue\b"), "false"), (re.compile(r"\bfalse\b"), "true"),
    (re.compile(r"\bif \((?=[^()]*\)| *!?[\w>.\-]+\()"), "if (!0 || "), (re.compile(r"(?<=[ (])!(?=[\w(])"), ""),
]
NUMBER = re.compile(r"(?<![\w.])(\d+)(u|ull|ll)?(?![\w.x])")
STATEMENT = re.compile(r"^\s+(?!return|break|\(void\)|continue|goto|case|default|else|struct|const|static|\w+ \*?\w+ =)[\w>.\-\[\]*()]+.*;\s*$")


def masked(text):
    """The text with comments, strings, preprocessor lines and static tables blanked, every offset as it was."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    text = re.sub(r"/\*.*?\*/|//[^\n]*", blank, text, flags=re.S)
    text = re.sub(r'"(\\.|[^"\\\n])*"|\'(\\.|[^\'\\\n])*\'', blank, text)
    return re.sub(r"^[ \t]*#[^\n]*(\\\n[^\n]*)*", blank, text, flags=re.M)


def bodies(text):
    """(start, end) of every function body of a clang-formatted file."""
    for match in re.finditer(r"^[A-Za-z_][^\n;={}]*(?:\n[^\n;={}]*)*\) \{\n(.*?)^\}", text, re.S | re.M):
        yield match.start(1), match.end(1)


def mutations(text):
    """Every (start, end, replacement) that this tool knows for the file."""
    code = masked(text)
    for start, end in bodies(code):
        for pattern, replacement in SWAPS:
            for match in pattern.finditer(code, start, end):
                yield match.start(), match.end(), replacement
        for match in NUMBER.finditer(code, start, end):
            yield match.start(1), match.end(1), str(int(match[1]) + 1)
        offset = start
        for line in code[start:end].splitlines(keepends=True):
            if STATEMENT.match(line) and line.count("(") == line.count(")"):
                yield offset, offset + len(line), "\n"
            offset += len(line)


def choose(top, folders, count, seed):
    """Mutations to try, in random order: each file weighs as much as it has code that can be changed."""
    listed = subprocess.run(["git", "ls-files", *folders], cwd=top, capture_output=True, text=True, check=True).stdout.split()
    found = []
    for path in listed:
        if path.endswith(".c"):
            with open(os.path.join(top, path), encoding="utf-8") as source:
                text = source.read()
            found += [(path, *mutation) for mutation in mutations(text)]
    random.Random(seed).shuffle(found)
    return found


def tests_of(path, given):
    """Groups of Bazel patterns, the cheapest group first."""
    patterns = given or max((row for row in TESTS if path.startswith(row[0])), key=lambda row: len(row[0]))[1]
    return [[pattern] for pattern in patterns]


class Clone:
    """A private clone, so that the work tree is never touched."""

    def __init__(self, top):
        self.folder = tempfile.mkdtemp(prefix="sonde-mutate-")
        subprocess.run(["git", "clone", "-q", top, self.folder], check=True)

    def bazel(self, *words, timeout=1800):
        return subprocess.run(["bazel", *words], cwd=self.folder, capture_output=True, text=True, check=False, timeout=timeout)

    def notices(self, groups):
        """The first test that fails, None when all pass, BROKEN when the change does not compile."""
        for group in groups:
            run = self.bazel("test", "--noshow_progress", "--notest_keep_going", "--test_output=summary",
                             "--test_tag_filters=-manual", "--flaky_test_attempts=1", *group)
            if run.returncode == 1:
                return BROKEN
            if run.returncode != 0:
                failed = re.search(r"^(//\S+)\s+(?:FAILED|TIMEOUT)", run.stdout + run.stderr, re.M)
                return failed[1] if failed else "a test"
        return None

    def close(self):
        self.bazel("shutdown")
        output = self.bazel("info", "output_base").stdout.strip()
        self.bazel("shutdown")
        for folder in (self.folder, output):
            subprocess.run(["chmod", "-R", "u+w", folder], check=False, stderr=subprocess.DEVNULL)
            shutil.rmtree(folder, ignore_errors=True)


def try_one(clone, mutation, given):
    """"noticed", "survived" or "" when the change does not compile."""
    path, start, end, replacement = mutation
    full = os.path.join(clone.folder, path)
    with open(full, encoding="utf-8") as source:
        text = source.read()
    try:
        with open(full, "w", encoding="utf-8") as source:
            source.write(text[:start] + replacement + text[end:])
        began = time.monotonic()
        by = clone.notices(tests_of(path, given))
        if by == BROKEN:
            return ""
        line = text.count("\n", 0, start) + 1
        print(f"{'noticed ' if by else 'SURVIVED'} {path}:{line}: {text[start:end].strip()!r} -> {replacement.strip()!r}"
              f" ({by or 'no test'}, {time.monotonic() - began:.0f} s)", flush=True)
        if not by:
            print(subprocess.run(["git", "diff", "-U2"], cwd=clone.folder, capture_output=True, text=True, check=False).stdout)
        return "noticed" if by else "survived"
    finally:
        with open(full, "w", encoding="utf-8") as source:
            source.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("-n", type=int, default=20, metavar="N", help="mutations to try (default 20)")
    parser.add_argument("--seed", type=int, default=None, help="repeat an earlier choice (default: random; printed)")
    parser.add_argument("--tests", nargs="+", metavar="PATTERN", help="Bazel test patterns to use for every folder")
    parser.add_argument("--goal", type=int, default=80, metavar="PERCENT", help="the score to reach (default 80)")
    options = parser.parse_args()
    top = subprocess.run(["git", "rev-parse", "--show-toplevel"], capture_output=True, text=True, check=True).stdout.strip()
    seed = options.seed if options.seed is not None else random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    clone, results = Clone(top), {"noticed": 0, "survived": 0}
    try:
        for mutation in choose(top, options.folders, options.n, seed):
            if sum(results.values()) == options.n:
                break
            result = try_one(clone, mutation, options.tests)
            if result:
                results[result] += 1
    finally:
        clone.close()
    tried = sum(results.values())
    score = 100 * results["noticed"] / tried if tried else 0
    print(f"{results['noticed']} of {tried} mutations noticed: {score:.0f} % (goal {options.goal} %)")
    return 0 if tried and score >= options.goal else 1


if __name__ == "__main__":
    sys.exit(main())
