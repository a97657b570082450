# SPDX-License-Identifier: Apache-2.0
"""Debian 12's own kernel, with its own settings, in an emulator: what README promises to root and to other users there."""

import os

from tests.cli import check
from tests.e2e import stack
from tests.kernels import machine

# A question for each cause that kept Sonde from working on stock kernels.
QUESTIONS = {"root": ["record", "machine", "guest", "threads", "curl", "doctor"], "nobody": ["record", "guest"]}
CELLS = "setting default true\n" + "".join(f"ask {user} {' '.join(questions)}\n" for user, questions in QUESTIONS.items())
SECONDS = 480  # a boot that hangs ends with the console's last lines; the usual time is an eighth of that


def test_a_stock_kernel_of_debian_12():
    path = machine.kernel(os.environ.get("SONDE_KERNELS"), "bookworm")
    if not path:
        raise check.Skip("there is no kernel of Debian 12 here (bazel/install_deps.sh --kernels)")
    stack.install()
    emulated = machine.Machine(stack.PREFIX, os.path.abspath("tests/kernels/spin"))
    try:
        lines = emulated.boot(path, CELLS, SECONDS)
    finally:
        emulated.close()
    found = machine.answers(lines)
    for setting, user, question, word, text in found:
        print(f"{setting}: {user} {question}: {word} {text}")
    failed = [answer for answer in found if answer[3] == "FAIL"]
    assert not failed, "\n".join([*map(str, failed), *lines[-40:]])
    check.equal({(user, question) for _, user, question, _, _ in found},
                {(user, question) for user, questions in QUESTIONS.items() for question in questions})
    refused = {(user, question): text for _, user, question, word, text in found if word == "no"}
    # perf is for root alone there; another user is told the setting, and has the guest.
    check.equal(set(refused), {("nobody", "record")})
    check.contains(refused["nobody", "record"], "kernel.perf_event_paranoid is 3")
    check.contains(refused["nobody", "record"], "sonde run")


check.main(globals())
