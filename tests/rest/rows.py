#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every promise has a conversation. rows.py TABLE CONVERSATION... compares rows.txt with the ids in the comments of
the conversations, and checks that tests play all of them. rows.py TABLE rewrites the table's lists of conversations."""

import os
import re
import sys

ID = re.compile(r"(?<![\w-])(?:(?:TK|GR|JL|IX|SN)-[A-Z]\d*|(?:PP|DF)-\d+|[CE]\d+)(?![\w-])")


def read_table(path):
    """{id: (words, [conversations])} in the order of the file, and the comment at its beginning."""
    rows, head, last = {}, [], None
    with open(path, encoding="utf-8") as text:
        for number, line in enumerate(text, 1):
            row = re.fullmatch(r"(\S+) +(.*)\n", line)
            if line.startswith("#") or not line.strip():
                head.append(line)
            elif line.startswith("    "):
                rows[last][1].append(line.strip())
            elif row and ID.fullmatch(row.group(1)) and row.group(1) not in rows:
                last = row.group(1)
                rows[last] = (row.group(2), [])
            else:
                sys.exit(f"{path}:{number}: expected a new id with a description, or a conversation: {line}")
    return rows, head


def named_ids(path):
    with open(path, encoding="utf-8") as text:
        return {word for line in text if line.startswith("#") for word in ID.findall(line)}


def conversations(folder):
    return sorted(os.path.relpath(os.path.join(where, name), folder) for part in ("gateway", "profiles")
                  for where, _, names in os.walk(f"{folder}/{part}") for name in names if name.endswith(".rest"))


def compare(rows, names, played):
    """Yields a sentence for each mistake."""
    for row, (_, files) in rows.items():
        if not files:
            yield f"{row}: no conversation tests it"
        for name in files:
            if row not in names.get(name, ()):
                yield f"{row}: {name} does not exist or does not name it"
    for name, ids in names.items():
        for row in sorted(ids):
            if row not in rows:
                yield f"{name} names {row}, which is not in the table"
        if name not in played:
            yield f"{name} is not played by a test; add it to BUILD.bazel"


def write(path, rows, head, names):
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(head)
        for row, (words, _) in rows.items():
            out.write(f"{row:<6} {words}\n")
            out.writelines(f"    {name}\n" for name, ids in names.items() if row in ids)


def main():
    path = os.path.realpath(sys.argv[1])
    folder = os.path.dirname(path)
    rows, head = read_table(path)
    names = {name: named_ids(f"{folder}/{name}") for name in conversations(folder)}
    if len(sys.argv) == 2:
        write(path, rows, head, names)
        return 0
    wrong = list(compare(rows, names, {"/".join(name.split("/")[-3:]) for name in sys.argv[2:]}))
    print("\n".join(wrong))
    print(f"{len(rows)} rows, {len(names)} conversations, {len(wrong)} mistakes")
    return 1 if wrong else 0


sys.exit(main())
