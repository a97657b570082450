# SPDX-License-Identifier: Apache-2.0
"""matrix.py PREFIX SPIN KERNELS [--update] [NAME...]: boots all machines of cells.py, or those whose name or suite contains a
NAME, prints each answer, and compares them with the table in docs/operations.md. --update writes the table. Exits with 1 if an
answer is FAIL or differs."""

import os
import sys

from tests.kernels import cells, machine

PAGE = "docs/operations.md"
BEGIN, END = "<!-- kernels: made by bazel/test_kernels.sh --update -->\n", "<!-- kernels: end -->\n"
USERS = (("root", "Root"), ("nobody", "Another user, for processes of its own"))


def ask(prefix, spin, folder, names):
    """{(suite's kernel, setting, user): {question: (word, text)}}"""
    found = {}
    emulated = machine.Machine(prefix, spin)
    try:
        machine.add_policy(emulated.root, spin)
        for name, (suites, settings, cpus, mib, options, seconds) in cells.BOOTS.items():
            for suite in suites:
                if names and not any(part in (name, suite) for part in names):
                    continue
                path = machine.kernel(folder, suite)
                if not path:
                    found[machine.SUITES[suite], name, "root"] = {"boot": ("FAIL", "no kernel: bazel/install_deps.sh --kernels")}
                    continue
                lines = emulated.boot(path, cells.script(settings), seconds, cpus, mib, options)
                for setting, user, question, word, text in machine.answers(lines):
                    print(f"{machine.SUITES[suite]:5} {setting}: {user} {question}: {word} {text}", flush=True)
                    found.setdefault((machine.SUITES[suite], setting, user), {})[question] = (word, text)
                if any(word == "FAIL" for _, _, _, word, _ in machine.answers(lines)):
                    print("\n".join(line for line in lines if line.startswith("    ")))
    finally:
        emulated.close()
    return found


def cell(answers):
    if answers is None:
        return "-"
    missing = [question for question, (word, _) in answers.items() if word != "yes"]
    return "all" if not missing else "not " + ", ".join(missing)


def table(found):
    kernels, lines = list(machine.SUITES.values()), []
    settings = list(dict.fromkeys(setting for _, setting, _ in found))
    for user, title in USERS:
        lines += [f"| {title} | " + " | ".join(f"Linux {version}" for version in kernels) + " |", "|---" * (len(kernels) + 1) + "|"]
        for setting in settings:
            row = [cell(found.get((version, setting, user))) for version in kernels]
            if set(row) != {"-"}:
                lines.append(f"| {setting} | " + " | ".join(row) + " |")
        lines.append("")
    return "\n".join(lines)


def main():
    update, names = "--update" in sys.argv, [name for name in sys.argv[4:] if not name.startswith("--")]
    found = ask(sys.argv[1], sys.argv[2], sys.argv[3], names)
    failed = [f"Linux {version}, {setting}, {user}: {question}: {text}" for (version, setting, user), answers in found.items()
              for question, (word, text) in answers.items() if word == "FAIL"]
    for line in failed:
        print(f"FAIL {line}")
    if names:
        return 1 if failed else 0
    with open(PAGE, encoding="utf-8") as page:
        text = page.read()
    before, rest = text.split(BEGIN)
    written, after = rest.split(END)
    if update and failed:
        print("FAIL the table is not written, because some answers are wrong")
        return 1
    if update:
        with open(PAGE + ".new", "w", encoding="utf-8") as page:
            page.write(before + BEGIN + "\n" + table(found) + END + after)
        os.replace(PAGE + ".new", PAGE)
    elif written.strip() != table(found).strip():
        print(f"FAIL the table in {PAGE} differs; bazel/test_kernels.sh --update writes this one:\n{table(found)}")
        return 1
    return 1 if failed else 0


sys.exit(main())
