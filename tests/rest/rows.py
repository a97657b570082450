#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every promise has a conversation: rows.py TABLE [CONVERSATION...] compares rows.txt with the ids that conversations name in
their comments. Given conversations are those that some test plays; without any, the table's files are written anew. A row
may have more conversations than the table tells."""

import os
import re
import sys

ID = re.compile(r"(?<![\w-])(?:(?:TK|GR|JL|IX|SN)-[A-Z]\d*|(?:PP|DF)-\d+|[CE]\d+)(?![\w-])")


def read_table(path):
    """{id: (words, [conversations])} in the order of the file, and the comment above."""
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
                sys.exit(f"{path}:{number}: neither an id that is new with words behind it, nor a conversation: {line}")
    return rows, head


def named_ids(path):
    with open(path, encoding="utf-8") as text:
        return {word for line in text if line.startswith("#") for word in ID.findall(line)}


def conversations(folder):
    return sorted(f"{part}/{name}" for part in ("gateway", "profiles") for name in os.listdir(f"{folder}/{part}")
                  if name.endswith(".rest"))


def compare(rows, names, played):
    """What is wrong, as sentences."""
    for row, (_, files) in rows.items():
        if not files:
            yield f"{row}: no conversation shows it"
        for name in files:
            if row not in names.get(name, ()):
                yield f"{row}: {name} does not name it, or is not there"
    for name, ids in names.items():
        for row in sorted(ids):
            if row not in rows:
                yield f"{name} names {row}, which is no row"
        if name not in played:
            yield f"{name} is played by no test: name it in BUILD.bazel"


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
    wrong = list(compare(rows, names, {"/".join(name.split("/")[-2:]) for name in sys.argv[2:]}))
    print("\n".join(wrong))
    print(f"{len(rows)} rows, {len(names)} conversations, {len(wrong)} mistakes")
    return 1 if wrong else 0


sys.exit(main())
