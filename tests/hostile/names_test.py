# SPDX-License-Identifier: Apache-2.0
"""A user runs a copy of a program with changed bytes in the middle, where no build-id and no hash of the edges shows it. The
profiles of other users' copies keep their names and stacks, also after sonded starts again with the same data directory."""

import os
import shutil
import subprocess

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users.users import NOBODY, as_user, guest_environment, install, sonded, start, stop, targets, RPC

HONEST_UID = 12345
DEBUG = "/usr/lib/debug"
HONEST, EVIL = (os.path.join(stack.WORK, name) for name in ("honest", "evil"))

FILLER = "static __attribute__((noinline, used)) int filler_%03d_with_a_long_name_to_fill_the_string_table(int x) { return x + %d; }\n"
FILLERS = [FILLER % (i, i) for i in range(600)]
PROGRAM = "".join(FILLERS[:300]) + """
static __attribute__((noinline)) int honest_burn(void) { volatile unsigned n = 0; while (n < 1000000) n++; return (int)n; }
static __attribute__((noinline)) int honest_caller(void) { return honest_burn() + 1; }
""" + "".join(FILLERS[300:]) + "int main(void) { for (;;) honest_caller(); }\n"


def section(path, name):
    """(offset, size) of an ELF section."""
    text = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    words = next(line for line in text.splitlines() if f" {name} " in line).split("]", 1)[1].split()
    return int(words[3], 16), int(words[4], 16)


def build():
    subprocess.run(["gcc", "-O1", "-fomit-frame-pointer", "-x", "c", "-", "-o", HONEST], input=PROGRAM, text=True, check=True)
    with open(HONEST, "rb") as file:
        content = file.read()
    changed = content.replace(b"\0honest_burn\0", b"\0evil!!_burn\0")
    assert changed != content
    at, size = section(HONEST, ".eh_frame")
    changed = changed[:at] + b"\0" * size + changed[at + size:]
    first = next(i for i in range(len(content)) if content[i] != changed[i])
    last = next(i for i in reversed(range(len(content))) if content[i] != changed[i])
    assert first > 4096 and last < len(content) - 4096, "the changes are not in the middle"
    with open(EVIL, "wb") as file:
        file.write(changed)
    os.chmod(EVIL, 0o755)
    os.chown(EVIL, NOBODY, NOBODY)


def profile(program, uid, name, command=()):
    """Collapsed stacks of a second of the program, started by a command."""
    server = start(*command, *as_user(uid, program), env=guest_environment(name), stdout=subprocess.DEVNULL)
    path = os.path.join(stack.WORK, name + ".collapsed")
    try:
        check.until(lambda: name in targets(), what=f"the server {name}")
        stack.sonde("record", name, "--service", RPC, "-d", "1", "-F", "499", "-o", path)
    finally:
        stop(server)
    with open(path, encoding="utf-8") as file:
        return file.read()


def expect_honest(text):
    assert "evil" not in text, text
    check.contains(text, "main;honest_caller;honest_burn")


def attack(honest_uid, what):
    """Lets the attacker's copy fill the caches first."""
    service = sonded("--everybody")
    try:
        text = profile(EVIL, NOBODY, f"evil-{what}")
        check.contains(text, "evil!!_burn")
        expect_honest(profile(HONEST, honest_uid, f"first-{what}"))
        stop(service)
        service = sonded("--everybody")
        expect_honest(profile(HONEST, honest_uid, f"again-{what}"))
        check.contains(profile(EVIL, NOBODY, f"evil-again-{what}"), "evil!!_burn")
    finally:
        stop(service)
        shutil.rmtree(os.path.join(stack.WORK, "data"), ignore_errors=True)


def test_a_changed_copy_does_not_change_the_profiles_of_an_installed_program():
    os.chown(HONEST, 0, 0)
    attack(HONEST_UID, "installed")


def test_a_changed_copy_does_not_change_the_profiles_of_another_users_program():
    os.chown(HONEST, HONEST_UID, HONEST_UID)
    attack(HONEST_UID, "owned")


def test_a_debug_file_in_a_users_own_root_does_not_name_an_installed_program_for_others():
    bare, folder = os.path.join(stack.WORK, "bare"), os.path.join(stack.WORK, "debug")
    text = subprocess.run(["readelf", "-n", HONEST], capture_output=True, text=True, check=True).stdout
    build_id = text.split("Build ID: ")[1].split()[0]
    debug = os.path.join(folder, ".build-id", build_id[:2], build_id[2:] + ".debug")
    os.makedirs(os.path.dirname(debug))
    subprocess.run(["objcopy", "--only-keep-debug", EVIL, debug], check=True)
    subprocess.run(["strip", "-o", bare, HONEST], check=True)
    os.chown(bare, 0, 0)
    os.chown(debug, NOBODY, NOBODY)
    mounted = ("unshare", "--mount", "sh", "-c", f'mount --bind {folder} {DEBUG} && exec "$@"', "sh")
    service = sonded("--everybody")
    is_new = not os.path.isdir(DEBUG)
    os.makedirs(DEBUG, exist_ok=True)
    try:
        check.contains(profile(bare, NOBODY, "evil-debug", mounted), "evil!!_burn")
        assert "evil!!" not in profile(bare, HONEST_UID, "first-debug")
        stop(service)
        service = sonded("--everybody")
        assert "evil!!" not in profile(bare, HONEST_UID, "again-debug")
    finally:
        stop(service)
        if is_new:
            os.rmdir(DEBUG)


install()
build()
check.main(globals())
