#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fills the paragraphs of documents to 145 columns, those of comments to 100 (C) or 120 (proto): reflow.py FILE... Headings,
tables, code, lists, drawings and HTML stay as they are. tests/lint/prose.py fails if a paragraph was not filled."""

import os
import re
import sys

COLUMNS = {".md": 145, ".c": 100, ".h": 100, ".proto": 120}
ITEM = re.compile(r"( *)([-*+]|\d+[.)]) +")
# A line that starts like this is not text, so no line of a paragraph may start with it.
OTHER = re.compile(r"#{1,6} |[|>]|```|<|[-*+]$|[-*+] |\d+[.)]( |$)|={3,}$|-{3,}$")

SPAN = re.compile(r'`[^`]*`|"[^"]{1,30}"|\S+(?: [-+/*] \S+)+')


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
    """The words of a paragraph. A code span, a short quotation and a formula are one word each, so that no line ends in them."""
    return [word.replace("\0", " ") for word in SPAN.sub(lambda span: "\0".join(span[0].split()), text).split()]


def fill(first, rest, words, columns, end=""):
    """The lines of a paragraph; `end` follows the last word."""
    lines, line = [], first + words[0]
    for number, word in enumerate(words[1:], 1):
        needed = len(line) + 1 + len(word) + (len(end) if number == len(words) - 1 else 0)
        if needed <= columns or OTHER.match(" ".join(words[number:number + 2])):
            line += " " + word
        else:
            lines.append(line)
            line = rest + word
    return [*lines, line + end]


def reflow_page(text, columns):
    lines = []
    for part in paragraphs(text):
        lines += [part] if isinstance(part, str) else fill(part[0], part[1], words_of(part[2]), columns)
    return "\n".join(lines[:-1]) + "\n"


# A line of a comment that has a line for itself, and what is not running text: columns, drawings, items, terms, the licence.
COMMENT = re.compile(r"^( *)(/\*|\*|//) (\S.*)$")
DRAWN = re.compile(r"  |[─│┌┐└┘├┤┬┴┼▶◀▲▼═]| [-=]> |^(-|\*|---|\d+[.)]|SPDX\S*) |^[|<>]")
TERM = re.compile(r"^[\w.()*-]+: ")


def comment_lines(lines):
    """Of each line, the match of COMMENT if it is running text of a comment, otherwise None."""
    in_block = False
    for line in lines:
        match = COMMENT.match(line)
        starts = line.lstrip().startswith("/*")
        if match and (match[2] == "*") != (in_block and not starts):
            match = None
        if starts or in_block:
            in_block = "*/" not in line
        yield match if match and not DRAWN.search(match[3]) and "*/" not in match[3][:-2] else None


def reflow_comments(text, columns):
    lines, run = [], []

    def end_run():
        words = words_of(" ".join(match[3] for match in run))
        end = " */" if words and words[-1] == "*/" else ""
        words = words[:-1] if end else words
        if words and (len(run) > 1 or len(run[0][0]) > columns):
            first = run[0][1] + run[0][2] + " "
            rest = first.replace("/*", " *")
            lines.extend(fill(first, rest, words, columns, end))
        else:
            lines.extend(match[0] for match in run)
        run.clear()

    for line, match in zip(text.splitlines(), comment_lines(text.splitlines())):
        follows = run and match and match[2] != "/*" and len(match[1]) == len(run[-1][1]) + (run[-1][2] == "/*")
        if not follows or TERM.match(match[3]):
            end_run()
        if match:
            run.append(match)
        else:
            lines.append(line)
    end_run()
    return "\n".join(lines) + "\n"


def reflow(path, text):
    """The text of the file with every paragraph filled."""
    kind = os.path.splitext(path)[1]
    return (reflow_page if kind == ".md" else reflow_comments)(text, COLUMNS[kind])


def main():
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as source:
            before = source.read()
        after = reflow(path, before)
        if after != before:
            with open(path, "w", encoding="utf-8") as target:
                target.write(after)


if __name__ == "__main__":
    main()
