# SPDX-License-Identifier: Apache-2.0
"""The paragraphs of documents and comments are filled (bazel/reflow.py), and no sentence of a document has more than MAX_WORDS
words. prose.py TOP prints one line per mistake."""

import os
import re
import subprocess
import sys

MAX_WORDS = 25
GENERATED = "tests/golden/"
SENTENCE_END = re.compile(r'(?<=[.!?])[)*"\]]*\s+')


def long_sentences(text, paragraphs):
    for part in paragraphs(text):
        if not isinstance(part, str):
            words = re.sub(r"\]\([^)]*\)", "]", part[2])
            yield from (sentence for sentence in SENTENCE_END.split(words) if len(sentence.split()) > MAX_WORDS)


def check(page, text, reflow):
    filled = reflow.reflow(page, text)
    if filled != text:
        lines = zip([*text.splitlines(), ""], [*filled.splitlines(), ""])
        number = next((number for number, (old, new) in enumerate(lines, 1) if old != new), 1)
        yield f"{page}:{number}: a paragraph is not filled: run bazel/reflow.py {page}"
    for sentence in long_sentences(text, reflow.paragraphs) if page.endswith(".md") else ():
        yield f"{page}: {len(sentence.split())} words; {MAX_WORDS} are allowed in a sentence: {sentence}"


def main():
    top = sys.argv[1]
    sys.path.insert(0, os.path.join(top, "bazel"))
    sys.dont_write_bytecode = True
    import reflow
    kinds = ["*" + kind for kind in reflow.COLUMNS]
    pages = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", *kinds], cwd=top, capture_output=True, text=True,
                           check=True).stdout.split()
    mistakes = []
    for page in pages:
        if page.startswith(GENERATED):
            continue
        with open(os.path.join(top, page), encoding="utf-8") as source:
            text = source.read()
        mistakes += check(page, text, reflow)
    print("".join(line + "\n" for line in mistakes), end="")
    return 1 if mistakes or not pages else 0


sys.exit(main())
