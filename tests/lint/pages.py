# SPDX-License-Identifier: Apache-2.0
"""Checks that everything the documents name exists: relative links, paths and source files, and the tests in each row of
docs/requirements.md. Formats must be documented. pages.py TOP prints one line per mistake."""

import fnmatch
import os
import re
import subprocess
import sys

PAGES = ("README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/*.md")
SOURCE = re.compile(r"^[\w-]+\.(c|h|cc|py|sh|js|go|bzl|md|proto|yaml)$")
FOLDERS = ("api", "proto", "service", "gateway", "clients", "tests", "bazel", "docs")
REQUIREMENTS = "docs/requirements.md"
TEST_NAMES = re.compile(r"^TEST\((\w+)\)|^def test_(\w+)\(", re.M)

# A row of a table of options with a help text, or a verb.
OPTION = re.compile(r'^    (?!.*, NULL\},$)(?:OPTION\(|\{(?=[^,]*, (?:\'.\'|0),))"([a-z][a-z0-9-]+)"|^const struct verb verb_\w+ = \{\s*"(\w+)"', re.M)
MANUALS = (("service/sonded.c", "docs/man/sonded.8"), ("service/sonde_history.c", "docs/man/sonde-history.8"),
           ("gateway/main.c", "docs/man/sonde-gateway.8"), ("clients/collect/main.c", "docs/man/sonde-collect.8"),
           ("clients/cli/verbs/*.c", "docs/man/sonde.1"))


def find_files(files, path):
    """The files that `path` means: a file, with or without its extension, a folder, or a pattern."""
    path = path.rstrip("/")
    return [file for file in files
            if file == path or os.path.splitext(file)[0] == path or file.startswith(path + "/") or fnmatch.fnmatch(file, path)]


def spellings(word):
    """What `host/{park,load}.c` means: host/park.c and host/load.c."""
    start, brace, rest = word.partition("{")
    if not brace:
        return [word]
    choices, _, end = rest.partition("}")
    return [start + choice + end for choice in choices.split(",")]


def check_paths(page, text, files):
    names = {os.path.basename(file) for file in files}
    for number, line in enumerate(text.splitlines(), 1):
        for link in re.findall(r"\]\(([^)#:]+)\)", line):
            if not find_files(files, os.path.normpath(os.path.join(os.path.dirname(page), link))):
                yield page, number, f"the link {link} leads nowhere"
        words = re.findall(r"`([\w./*{},-]+)`", line)
        for word in [spelling for word in words for spelling in spellings(word)]:
            if word.split("/")[0] in FOLDERS and "/" in word and not find_files(files, word):
                yield page, number, f"there is no {word}"
            elif SOURCE.match(word) and word not in names:
                yield page, number, f"no file is named {word}"


def test_names(top, files):
    names = []
    for file in files:
        with open(os.path.join(top, file), encoding="utf-8", errors="replace") as source:
            names += [c or python for c, python in TEST_NAMES.findall(source.read())]
    return names


def check_requirements(top, text, files):
    """The third column of each table: files below tests/, and after a colon the names of tests in that file."""
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split(" | ")
        if not line.startswith("| ") or len(cells) < 3:
            continue
        found = []
        for word in re.findall(r"`([^`]+)`", cells[2]):
            if "/" in word or word == "stress":
                found = find_files(files, "tests/" + word)
                if not found:
                    yield REQUIREMENTS, number, f"there is no tests/{word}"
            elif word.startswith("-"):
                continue
            elif not fnmatch.filter(test_names(top, found), word):
                yield REQUIREMENTS, number, f"no test is named {word} in {', '.join(found)}"


def check_formats(top, files):
    """Every format has a row in the guide, its name in the manual of the command line, and golden files."""
    with open(os.path.join(top, "api/draw/draw.c"), encoding="utf-8") as source:
        rows = re.findall(r'\{SONDE_FORMAT_\w+, "([\w-]+)", "([\w.-]+)"', source.read())
    for output, extension in rows or [("", "")]:
        for page, text in (("docs/guide.md", f"`{output}`"), ("docs/guide.md", f"`{extension}`"), ("docs/man/sonde.1", output)):
            with open(os.path.join(top, page), encoding="utf-8") as source:
                if text not in source.read():
                    yield page, 1, f"does not name the format {text} of api/draw/draw.c"
        golden = extension.removesuffix(".gz")
        if output != "jemalloc" and not any(file.startswith("tests/golden/") and file.endswith(golden) for file in files):
            yield "tests/golden/draw_all.sh", 1, f"no golden file ends with {golden}"


def check_manuals(top, files):
    """Every option of a program is in its manual page, and every verb of sonde in sonde.1."""
    for pattern, manual in MANUALS:
        with open(os.path.join(top, manual), encoding="utf-8") as page:
            text = page.read().replace("\\-", "-")
        for file in find_files(files, pattern):
            with open(os.path.join(top, file), encoding="utf-8") as source:
                rows = OPTION.findall(source.read())
            for option, verb in rows:
                if not re.search(rf"--{option}\b" if option else rf'^\.BR? "?{verb}\b', text, re.M):
                    yield manual, 1, f"lacks {option or verb}, a row of {file}"



def main():
    top = sys.argv[1]
    files = subprocess.run(["git", "-c", "safe.directory=*", "ls-files"], cwd=top, capture_output=True, text=True,
                           check=True).stdout.split()
    mistakes = [*check_formats(top, files), *check_manuals(top, files)]
    for page in files:
        if not any(fnmatch.fnmatch(page, pattern) for pattern in PAGES):
            continue
        with open(os.path.join(top, page), encoding="utf-8") as source:
            text = source.read()
        mistakes += check_paths(page, text, files)
        if page == REQUIREMENTS:
            mistakes += check_requirements(top, text, files)
    for page, number, sentence in mistakes:
        print(f"{page}:{number}: {sentence}")
    return 1 if mistakes or not files else 0


sys.exit(main())
