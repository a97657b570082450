# SPDX-License-Identifier: Apache-2.0
"""The house style, as far as a program can check it: sizes, nesting, format, licence line, and which file may name which
foreign library. Each rule is one function over one source file; a rule yields (line, sentence)."""

import os
import re
import subprocess
import sys

MAX_FUNCTION, MAX_FILE, MAX_NESTING, MAX_COLUMNS = 60, 500, 3, 100

# An include or a name, and the folders that may say it: each foreign library has one door.
DOORS = [
    (re.compile(r"#include <grpc/"), ("service/rpc/", "api/rpc/", "clients/c/", "tests/")),
    (re.compile(r'#include [<"]h2o'), ("gateway/http", "tests/")),
    (re.compile(r"#include <jansson"), ("gateway/request/json", "gateway/mcp/message", "clients/collect/discovery/hosts_json", "tests/")),
    (re.compile(r"#include <libunwind"), ("service/engine/unwind_check/other_", "tests/")),
    (re.compile(r"#include <curl/"), ("service/symbol/debuginfod/debuginfod_worker", "service/http/library", "clients/collect/discovery/http_source")),
    (re.compile(r"#include <capstone/"), ("service/symbol/code/disassemble",)),
    (re.compile(r"#include <seccomp"), ("service/symbol/worker/confine", "api/os/confine")),
    (re.compile(r"#include <pcre2"), ("service/store/selector/regexp",)),
    (re.compile(r"#include <bpf/"), ("service/host/bpf/", "tests/bench/")),
    (re.compile(r"#include <sqlite3"), ("service/store/sqlite/", "tests/bench/")),
    (re.compile(r"#include <openssl/(ssl|x509)"), ("gateway/http/", "api/os/secrets/tls_files")),
    # What differs between machines. The exceptions are about programs for this machine (`sonde run`) and about the tables of Sonde 0.2, which
    # name no machine.
    (re.compile(r"#\s*(el)?if.*\b__(x86_64|amd64|i386|aarch64|arm)"), ("service/machine/",)),
    (re.compile(r"\b(EM_(X86_64|AARCH64)\b|R_(X86_64|AARCH64)_)"),
     ("service/machine/", "api/elf/machine.c", "service/unwind/table/table", "clients/cli/run/executable.c", "tests/")),
    (re.compile(r"\bmallctl\w*\("), ("service/guest/heap", "tests/")),
    # The test for control characters; a list of plain ASCII, which ends with a comparison to 0x7f, is something else.
    (re.compile(r"^(?!.*>=? ?(0x7[ef]|'~')).*(< ?(' '|0x20\b)|[!=]= ?0x7f\b)"), ("api/text/utf8", "api/json/json.c", "tests/")),
    # These wait on the date, which can be set by hours: api/base/clock.h has the monotonic clock's.
    (re.compile(r"\b(pthread_cond_timedwait|pthread_(mutex|rwlock)_timed\w+|sem_timedwait|mq_timed\w+)\("), ("tests/",)),
    (re.compile(r'#include "service/'), ("service/", "tests/")),
    # The engine's public headers are for all of the service, the others for the engine itself.
    (re.compile(r'#include "service/engine/(?!(engine|pool|annotate/annotate|heap/heap|backtraces/backtraces|once/once|perf_data/perf_data|record/record|unwind_check/(unwind_check|check_worker))\.h")'),
     ("service/engine/", "tests/")),
    (re.compile(r'#include "gateway/'), ("gateway/", "clients/collect/status/", "tests/")),
    (re.compile(r'#include "clients/'), ("clients/", "gateway/", "tests/")),
]
FILE_NAME = re.compile(r"(?<![\w./<*$~-])((?:[\w-]+/)*[\w-]+\.(?:c|h|cc|py|sh|js|proto|md))\b(?![\w/(])")
# Files of other projects that comments mention.
FOREIGN = {"bio.c", "http.c", "profile.proto", "proto/profile.proto", "doc_internal/PROFILING_INTERNALS.md", "descriptor.proto", "one.cc", "two.c"}
DATA = re.compile(r"^tests/golden$|/corpus$")
MAX_ENTRIES = {"gateway/ui": 36}
MARKERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
BODY_START = re.compile(r"^[A-Za-z_].*\{$")
# A row of a table of options: name, letter, argument and variable.
SETTING = re.compile(r'"([a-z][a-z-]*)",\s*(?:(?:\'.\'|0),\s*)?(?:"[^"]*"|NULL),\s*"SONDE_[A-Z_]+"')
STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
NOT_A_FUNCTION = re.compile(r"^(struct|enum|union|typedef|extern \"C\")\b[^()]*\{$|.*=\s*\{$")


def without_text(line):
    """The line without strings, characters and comments, so that only the code's braces are left."""
    line = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'', "", line)
    return re.sub(r"//.*|/\*.*?\*/", "", line)


def functions(lines):
    """(first line, lines of the body with the braces) of every function of a clang-formatted C file."""
    start = None
    for number, line in enumerate(lines):
        if start is None and BODY_START.match(line) and not NOT_A_FUNCTION.match(line):
            start = number
        elif start is not None and line.startswith("}"):
            yield start + 1, lines[start:number + 1]
            start = None


def nesting(body):
    depth = deepest = 0
    for line in body:
        code = without_text(line)
        if re.search(r"[=(,]\s*\{|^\s*\{.*\},?$", code):  # initialisers are no control flow
            code = ""
        for byte in code:
            depth += (byte == "{") - (byte == "}")
            deepest = max(deepest, depth)
    return deepest - 1


def check_functions(path, lines):
    if not path.endswith((".c", ".h")):
        return
    for first, body in functions(lines):
        if len(body) > MAX_FUNCTION:
            yield first, f"function of {len(body)} lines; {MAX_FUNCTION} are allowed"
        if nesting(body) > MAX_NESTING:
            yield first, f"{nesting(body)} levels of nesting; {MAX_NESTING} are allowed"


def check_file(path, lines):
    if len(lines) > MAX_FILE:
        yield len(lines), f"file of {len(lines)} lines; {MAX_FILE} are allowed"
    if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:4]):
        yield 1, "no SPDX-License-Identifier line"
    for number, line in enumerate(lines, 1):
        if path.endswith((".c", ".h")) and len(line) > MAX_COLUMNS and "http" not in line:
            yield number, f"{len(line)} columns; {MAX_COLUMNS} are allowed"
        if MARKERS.search(line) and not path.startswith("tests/lint/"):
            yield number, "a marker other than NEEDSWORK"


def check_doors(path, lines):
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(("*", "//", "/*")):
            continue
        for pattern, doors in DOORS:
            if path.endswith((".c", ".h")) and pattern.search(line) and not path.startswith(doors):
                yield number, f"only {', '.join(doors)} may say this: {line.strip()}"


def known_names(top):
    """Every tail of every path in the tree: "ring.h", "guest/ring.h", "service/guest/ring.h"."""
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files"], cwd=top, capture_output=True, text=True,
                            check=True).stdout.split()
    listed += [path.replace("/x86_64/", "/own/") for path in listed if path.startswith("service/machine/x86_64/")]  # chosen by Bazel
    return {path.split("/", skip)[skip] for path in listed for skip in range(path.count("/") + 1)} | FOREIGN


def check_named_files(path, lines, known):
    """A comment that names a file of ours sends its reader there: the file must exist."""
    text = "\n".join(lines)
    comments = re.finditer(r"/\*.*?\*/|//[^\n]*", text, re.S) if path.endswith((".c", ".h")) else ()
    for comment in comments:
        for match in FILE_NAME.finditer(comment[0]):
            if match[1] not in known:
                yield text.count("\n", 0, comment.start() + match.start()) + 1, f"no file is named {match[1]}"


def rpc_names(top):
    """The names of RPCs that are no ordinary words: "HeapActivate", but not "Write"."""
    names = set()
    for file in ("profiler", "history"):
        with open(os.path.join(top, f"proto/sonde/v1/{file}.proto"), encoding="utf-8") as source:
            names.update(re.findall(r"^  rpc ([A-Z][a-z]+[A-Z]\w*)\(", source.read(), re.M))
    return names


def check_texts(path, lines, rpcs):
    """A user of REST or of the command line reads the texts of the service, too, and knows no RPC."""
    if not path.endswith((".c", ".h")) or not path.startswith(("service/", "gateway/", "clients/cli/")):
        return
    for number, line in enumerate(lines, 1):
        for text in STRING.findall(line):
            for name in set(re.findall(r"\w+", text)) & rpcs:
                if " " in text:
                    yield number, f"a text for users names the RPC {name}"


def check_settings(top, paths):
    """Every setting that has a variable is in the list of the settings file, and nothing else is."""
    names = "api/settings/settings_file.c"
    with open(os.path.join(top, names), encoding="utf-8") as source:
        listed = re.findall(r'^    "([a-z-]+)",$', source.read(), re.M)
    found = set()
    for path in paths:
        if path.endswith((".c", ".h")) and path.startswith(("service/", "gateway/", "clients/")):
            with open(os.path.join(top, path), encoding="utf-8") as source:
                found.update(SETTING.findall(source.read()))
    for name in sorted(found ^ set(listed)):
        yield names, 1, f'the list of settings {"lacks" if name in found else "has no program for"} "{name}"'


def check_version(top):
    """What names the version besides api/version.h: the newest section of the changelog, and the contract."""
    def first(path, pattern):
        with open(os.path.join(top, path), encoding="utf-8") as source:
            return re.search(pattern, source.read(), re.M)[1]
    version = first("api/version.h", r'^#define SONDE_VERSION "(.+)"$')
    for path, pattern in (("CHANGELOG.md", r"^## (\S+) - \d{4}-\d\d-\d\d$"), ("api/rest/openapi.yaml", r"^  version: (\S+)$")):
        if first(path, pattern) != version:
            yield path, 1, f"is about {first(path, pattern)}; api/version.h says {version}"


def check_tests(top, paths):
    """A test that no BUILD file of its folder names never runs."""
    for path in paths:
        folder, name = os.path.split(path)
        stem, _ = os.path.splitext(name)
        if path.startswith("tests/") and stem.endswith(("_test", "_fuzz")):
            with open(os.path.join(top, folder, "BUILD.bazel"), encoding="utf-8") as build:
                if stem not in build.read():
                    yield path, 1, "no BUILD.bazel runs this test"


def check_format(top, paths):
    sources = [path for path in paths if path.endswith((".c", ".h"))]
    run = subprocess.run(["clang-format", "--dry-run", "--Werror", *sources], cwd=top,
                         capture_output=True, text=True, check=False)
    seen = set()
    for line in run.stderr.splitlines():
        match = re.match(r"([^:]+):(\d+):\d+: error", line)
        if match and match.group(1) not in seen:
            seen.add(match.group(1))
            yield match.group(1), int(match.group(2)), "not formatted: run clang-format -i on it"


def check_folders(top):
    """A folder fits on a screen. Those of data, and the page, whose modules are served by their names, may be larger."""
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files"], cwd=top, capture_output=True, text=True, check=True).stdout.split()
    entries = {}
    for path in listed:
        if os.path.exists(os.path.join(top, path)):
            parts = path.split("/")
            for depth in range(len(parts)):
                entries.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    for folder, names in entries.items():
        if len(names) > MAX_ENTRIES.get(folder, 25) and not DATA.search(folder):
            yield folder or ".", 1, f"{len(names)} entries; {MAX_ENTRIES.get(folder, 25)} are allowed: cut the folder by subject"


def main():
    top = sys.argv[1]
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "*.c", "*.h", "*.py", "*.js", "*.sh"], cwd=top,
                            capture_output=True, text=True, check=True).stdout.split()
    paths = [path for path in listed if os.path.exists(os.path.join(top, path)) and "golden/" not in path]
    findings, known = list(check_format(top, paths)) + list(check_settings(top, paths)), known_names(top)
    findings += [*check_version(top), *check_tests(top, paths), *check_folders(top)]
    rpcs = rpc_names(top)
    for path in paths:
        with open(os.path.join(top, path), encoding="utf-8") as source:
            lines = source.read().splitlines()
        for rule in (check_functions, check_file, check_doors):
            findings += [(path, line, sentence) for line, sentence in rule(path, lines)]
        findings += [(path, line, sentence) for line, sentence in check_named_files(path, lines, known)]
        findings += [(path, line, sentence) for line, sentence in check_texts(path, lines, rpcs)]
    for path, line, sentence in sorted(findings):
        print(f"{path}:{line}: {sentence}")
    good = len(paths) - len({path for path, _, _ in findings})
    print(f"{good} passed, {len(paths) - good} failed")
    return 1 if findings or not paths else 0


sys.exit(main())
