# SPDX-License-Identifier: Apache-2.0
"""The paragraphs of the documents are filled (bazel/reflow.py), and a page has no more long sentences than LONG allows.
prose.py TOP prints one line per mistake; prose.py TOP --long also prints the long sentences."""

import os
import re
import subprocess
import sys

MAX_WORDS = 25
# Sentences of more than MAX_WORDS words that a page may have. Lower a number after an edit; other pages have none.
LONG = {
    "CHANGELOG.md": 4,
    "CONTRIBUTING.md": 2,
    "README.md": 7,
    "docs/benchmarks.md": 17,
    "docs/fleet.md": 3,
    "docs/guide.md": 17,
    "docs/history.md": 5,
    "docs/integrations.md": 9,
    "docs/operations.md": 7,
    "docs/requirements.md": 1,
    "docs/safe.md": 33,
    "docs/security.md": 11,
}
GENERATED = "tests/golden/"
SENTENCE_END = re.compile(r'(?<=[.!?])[)*"\]]*\s+')


def long_sentences(text, paragraphs):
    for part in paragraphs(text):
        if not isinstance(part, str):
            words = re.sub(r"\]\([^)]*\)", "]", part[2])
            yield from (sentence for sentence in SENTENCE_END.split(words) if len(sentence.split()) > MAX_WORDS)


def check(page, text, reflow):
    filled = reflow.reflow(text)
    if filled != text:
        lines = zip([*text.splitlines(), ""], [*filled.splitlines(), ""])
        number = next((number for number, (old, new) in enumerate(lines, 1) if old != new), 1)
        yield f"{page}:{number}: a paragraph is not filled: run bazel/reflow.py {page}"
    count, most = len(list(long_sentences(text, reflow.paragraphs))), LONG.get(page, 0)
    if count > most:
        yield f"{page}:1: {count} sentences of more than {MAX_WORDS} words; {most} are allowed. --long prints them"


def main():
    top = sys.argv[1]
    sys.path.insert(0, os.path.join(top, "bazel"))
    import reflow
    pages = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "*.md"], cwd=top, capture_output=True, text=True,
                           check=True).stdout.split()
    mistakes = []
    for page in pages:
        if page.startswith(GENERATED):
            continue
        with open(os.path.join(top, page), encoding="utf-8") as source:
            text = source.read()
        mistakes += check(page, text, reflow)
        if "--long" in sys.argv:
            print("\n    ".join([page, *long_sentences(text, reflow.paragraphs)]))
    print("\n".join(mistakes))
    return 1 if mistakes or not pages else 0


sys.exit(main())
