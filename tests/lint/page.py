# SPDX-License-Identifier: Apache-2.0
"""Checks the page, gateway/ui: how large its scripts are when they are served, that BUILD.bazel embeds every file, and that nothing in it turns text into
markup or code, or asks another host. page.py TOP prints one line per mistake. Each rule yields (line, sentence)."""

import os
import re
import subprocess
import sys

sys.path.insert(0, ".")
from gateway.ui import embed  # noqa: E402  pylint: disable=wrong-import-position

FOLDER = "gateway/ui"
MAX_LINES, MAX_BYTES, MAX_FILE, MAX_FUNCTION = 5000, 260 * 1024, 500, 60
DANGEROUS = re.compile(r"\b((?:inner|outer)HTML)\s*\+?=(?!=)|\b(insertAdjacentHTML|document\.write(?:ln)?|createContextualFragment|srcdoc)\b|"
                       r"(?<![\w.])(eval\(|new Function\b)|setAttribute\(\s*[\"'`](on)|(javascript:)")
ATTRIBUTE = re.compile(r"<[^>]*\s(on\w+|style)\s*=", re.I)
INLINE = re.compile(r"<script(?![^>]*\ssrc=)[^>]*>|<style\b", re.I)
URL = re.compile(r"(?:https?|wss?):(?:\\?/){2}([\w.-]+)|[\"'`(]//([\w-]+\.[\w.-]+)")
NAMESPACES = {"www.w3.org", "HOST"}  # HOST is a placeholder in texts
CONTROL = r"(?:if|for|while|switch|catch|with|function|return|super)\b"
FUNCTION = re.compile(r"\bfunction\b[^{]*\{\s*$|=>\s*\{\s*$|"
                      rf"^\s*(?:(?:static|async|get|set|export|default)\s+)*\*?\s*(?!{CONTROL})[\w$#]+\s*\([^;]*\)\s*\{{\s*$")
# A comment, a string or a regular expression; a slash after a value is a division.
TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
REGEXP = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*")
TEMPLATE = re.compile(r"(?:\\.|(?!\$\{)[^`\\])*(`|\$\{)", re.S)


def literal(text, at, before):
    """The end of the comment, string or regular expression that begins at `at`; `at` if there is none. before: the code's last byte."""
    match = TOKEN.match(text, at) or (REGEXP.match(text, at) if before in "(=,:[!&|?{};+" else None)
    return match.end() if match else at


def code_of(text):
    """The script with strings, regular expressions, templates and comments blanked, so that only the code's braces are left."""
    out, at, depths, before = [], 0, [0], ";"
    while at < len(text):
        begin, byte = at, text[at]
        in_template = byte == "`" or (byte == "}" and depths[-1] == 0 and len(depths) > 1)
        if in_template:
            match = TEMPLATE.match(text, at + 1)
            at = match.end() if match else len(text)
            if byte == "}":
                depths.pop()
            if match and match[1] == "${":
                depths.append(0)
        else:
            at = literal(text, at, before)
        if at > begin:
            out.append(re.sub(r"[^\n]", " ", text[begin:at]))
            if not text.startswith(("//", "/*"), begin):
                before = "(" if in_template and text[at - 1] == "{" else '"'
            continue
        depths[-1] += (byte == "{") - (byte == "}")
        before = before if byte.isspace() else byte
        out.append(byte)
        at += 1
    return "".join(out)


def functions(text):
    """(first line, number of lines) of each function with a body of its own lines."""
    lines = code_of(text).split("\n")
    for first, line in enumerate(lines):
        if not FUNCTION.search(line):
            continue
        depth = 0
        for last in range(first, len(lines)):
            code = lines[last] if last > first else line[line.rindex("{"):]
            depth += code.count("{") - code.count("}")
            if depth <= 0:
                yield first + 1, last - first + 1
                break


def check_functions(text):
    for first, count in functions(text):
        if count > MAX_FUNCTION:
            yield first, f"function of {count} lines; {MAX_FUNCTION} are allowed"


def check_lines(text):
    for number, line in enumerate(text.split("\n"), 1):
        found = DANGEROUS.search(line)
        if found:
            yield number, f"{next(filter(None, found.groups())).rstrip('(')} turns text into markup or code"
        for match in URL.finditer(line):
            if (match[1] or match[2]) not in NAMESPACES:
                yield number, f"names another host: {match[1] or match[2]}"


def check_markup(text):
    for number, line in enumerate(text.split("\n"), 1):
        if ATTRIBUTE.search(line) or INLINE.search(line):
            yield number, "inline scripts and styles are refused by the page's policy"


def check_size(text):
    count = len(text.splitlines())
    if count > MAX_FILE:
        yield count, f"file of {count} lines; {MAX_FILE} are allowed"
    if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(text.split("\n")[:4]):
        yield 1, "no SPDX-License-Identifier line"


RULES = {".js": (check_size, check_functions, check_lines), ".css": (check_size, check_lines), ".html": (check_markup, check_lines),
         ".svg": (check_markup, check_lines)}


def check_all(files, build):
    """files: {name: text}; yields (name, line, sentence)."""
    scripts = [embed.served(name, text.encode()) for name, text in files.items() if name.endswith(".js")]
    lines, size = sum(script.count(b"\n") for script in scripts), sum(len(script) for script in scripts)
    if lines >= MAX_LINES or size >= MAX_BYTES:
        yield "", 0, f"the browser loads {lines} lines and {size} bytes of scripts; less than {MAX_LINES} and {MAX_BYTES} are allowed"
    for name, text in sorted(files.items()):
        if f'"{name}"' not in build:
            yield name, 1, "BUILD.bazel does not embed this file"
        for rule in RULES[os.path.splitext(name)[1]]:
            for number, sentence in rule(text):
                yield name, number, sentence


def main():
    folder = os.path.join(sys.argv[1], FOLDER)
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "."], cwd=folder, capture_output=True, text=True,
                            check=True).stdout.split()
    names = [name for name in listed if os.path.splitext(name)[1] in RULES and os.path.exists(os.path.join(folder, name))]
    files = {}
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            files[name] = file.read()
    with open(os.path.join(folder, "BUILD.bazel"), encoding="utf-8") as file:
        mistakes = list(check_all(files, file.read()))
    for name, number, sentence in mistakes:
        print(f"{FOLDER}/{name}:{number}: {sentence}")
    return 1 if mistakes or not files else 0


if __name__ == "__main__":
    sys.exit(main())
