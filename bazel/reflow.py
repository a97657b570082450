#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fills the paragraphs of documents to 145 columns: reflow.py FILE.md... Headings, tables, code and HTML stay as they are.
tests/lint/prose.py fails if a page was not filled."""

import re
import sys

COLUMNS = 145
ITEM = re.compile(r"( *)([-*+]|\d+[.)]) +")
# A line that starts like this is not text, so no line of a paragraph may start with it.
OTHER = re.compile(r"#{1,6} |[|>]|```|<|[-*+]$|[-*+] |\d+[.)]( |$)|={3,}$|-{3,}$")


def paragraphs(text):
    """Each paragraph as (start of its first line, start of its other lines, text), each line outside of them as a string. A line
    that is indented by four columns after an empty one is code, also in a list."""
    words, first, rest, in_code = [], "", "", False
    for line in [*text.splitlines(), ""]:
        bare, item = line.strip(), ITEM.match(line)
        indent = line[:len(line) - len(line.lstrip())]
        fence = bare.startswith("```")
        in_code ^= fence
        other = not bare or in_code or fence or (not words and len(indent) >= 4) or (OTHER.match(bare) and not item)
        if words and (other or item):
            yield first, rest, " ".join(words)
            words = []
        if other:
            yield line
        elif item:
            first, rest = item[0], " " * len(item[0])
            words = [line[len(first):]]
        else:
            first, rest = (first, rest) if words else (indent, indent)
            words.append(bare)


def words_of(text):
    """The words of a paragraph. A code span is one word, so that a search for a command finds it."""
    words, inside = [], False
    for word in text.split():
        if inside:
            words[-1] += " " + word
        else:
            words.append(word)
        inside ^= word.count("`") % 2 == 1
    return words


def fill(first, rest, text):
    words = words_of(text)
    lines, line = [], first + words[0]
    for number, word in enumerate(words[1:], 1):
        if len(line) + 1 + len(word) <= COLUMNS or OTHER.match(" ".join(words[number:number + 2])):
            line += " " + word
        else:
            lines.append(line)
            line = rest + word
    return [*lines, line]


def reflow(text):
    """The page with every paragraph filled."""
    lines = []
    for part in paragraphs(text):
        lines += [part] if isinstance(part, str) else fill(*part)
    return "\n".join(lines[:-1]) + "\n"


def main():
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as source:
            before = source.read()
        after = reflow(before)
        if after != before:
            with open(path, "w", encoding="utf-8") as target:
                target.write(after)


if __name__ == "__main__":
    main()
