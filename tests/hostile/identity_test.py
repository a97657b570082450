# SPDX-License-Identifier: Apache-2.0
"""A user tries to see, through root's sonded, files and processes that it may not see: by claiming mappings, by running a
set-uid program over the guest's connection, and by a process id that root's process gets later."""

import os
import subprocess
import time

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users.users import GUESTS, NOBODY, RPC, as_user, guest_environment, install, sonded, start, stop, targets
from tests.hostile import fake_guest

PROGRAM = """
#include <unistd.h>
__attribute__((noinline)) void secret_recipe(void) { for (;;) { pause(); __asm__ volatile(""); } }
int main(void) { secret_recipe(); return 0; }
"""
SECRET, PUBLIC, SET_UID = (os.path.join(stack.WORK, name) for name in ("secret", "public", "set-uid"))
START = 0x10000000


def build():
    for path, mode in ((SECRET, 0o700), (PUBLIC, 0o755), (SET_UID, 0o4755)):
        # Different build-ids, so that no program has the tables of another.
        subprocess.run(["gcc", "-g", "-O1", f"-DNAME={os.path.basename(path)!r}", f"-Wl,--build-id=0x{os.urandom(16).hex()}", "-x",
                        "c", "-", "-o", path], input=PROGRAM, text=True, check=True)
        os.chmod(path, mode)


def claimed(path):
    """A mapping of the program's code, as a process would have it, and the address of secret_recipe in it."""
    text = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
    words = next(line for line in text.splitlines() if "LOAD" in line and " R E " in line).split()
    offset, vaddr, size = (int(words[i], 16) for i in (1, 2, 4))
    text = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    symbol = int(next(line for line in text.splitlines() if line.endswith(" secret_recipe")).split()[0], 16)
    info = os.stat(path)
    page = offset & ~4095
    mapping = (START, START + (size + offset - page + 4095 & ~4095), page, os.major(info.st_dev), os.minor(info.st_dev), info.st_ino,
               path)
    return mapping, START + symbol - vaddr + offset - page


def claim(path, name, report):
    guest = fake_guest.Guest(GUESTS)
    tag, _ = guest.hello(name)
    assert tag == fake_guest.WELCOME, tag
    guest.maps([claimed_mapping[path]])
    report([len(table["image"]) for table in guest.tables()])


def ask(path, name):
    """What a user learns by a claim: the sizes of its unwind tables, and the name of secret_recipe's address."""
    puppet = fake_guest.Puppet(NOBODY, claim, path, name)
    try:
        return puppet.result(), stack.sonde("symbol", name, hex(address[path]), "--service", RPC)[0]
    finally:
        puppet.kill()


def test_a_claimed_mapping_of_an_unreadable_program_gets_no_table_and_no_names():
    service = sonded("--everybody")
    try:
        tables, names = ask(SECRET, "claims-secret")
        check.equal(tables, [])
        assert "secret_recipe" not in names, names
        tables, names = ask(PUBLIC, "claims-public")  # the claim itself is well-formed
        check.equal(len(tables), 1)
        check.contains(names, "secret_recipe")
    finally:
        stop(service)


def test_a_claimed_mapping_of_a_program_that_root_runs_gets_no_table_and_no_names():
    service = sonded("--everybody")
    mine = start(SECRET, env=guest_environment("mine"), stdout=subprocess.DEVNULL)
    try:
        check.until(lambda: "mine" in targets(), what="root's server")
        check.contains(stack.sonde("threads", "mine", "--service", RPC)[0], "secret_recipe")
        tables, names = ask(SECRET, "claims-secret")
        check.equal(tables, [])
        assert "secret_recipe" not in names, names
    finally:
        stop(mine)
        stop(service)


def kernel_address():
    with open("/proc/kallsyms", encoding="ascii") as file:
        found = next(line.split() for line in file if line.split()[1:] == ["T", "vfs_read"])
    return int(found[0], 16)


def test_a_users_target_does_not_tell_where_the_kernels_functions_are():
    address = kernel_address()
    if address == 0:
        raise check.Skip("the kernel hides its addresses from root, too")
    service = sonded("--everybody")
    puppet = fake_guest.Puppet(NOBODY, claim, PUBLIC, "asks-kernel")
    mine = start(PUBLIC, env=guest_environment("mine"), stdout=subprocess.DEVNULL)
    try:
        puppet.result()
        check.until(lambda: "mine" in targets(), what="root's server")
        check.contains(stack.sonde("symbol", "mine", hex(address), "--service", RPC)[0], "vfs_read")
        out, err = stack.sonde("symbol", "asks-kernel", hex(address), "--service", RPC)
        assert "vfs_read" not in out + err, out
    finally:
        puppet.kill()
        stop(mine)
        stop(service)


def test_an_unreadable_debug_file_gives_no_names_to_others():
    split, debug = os.path.join(stack.WORK, "split"), os.path.join(stack.WORK, "split.debug")
    subprocess.run(["objcopy", "--only-keep-debug", PUBLIC, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", PUBLIC, split], check=True)
    os.chmod(debug, 0o600)
    claimed_mapping[split], address[split] = claimed(PUBLIC)
    info = os.stat(split)
    claimed_mapping[split] = claimed_mapping[split][:5] + (info.st_ino, split)
    service, mine = sonded("--everybody"), None
    try:
        mine = start(split, env=guest_environment("mine"), stdout=subprocess.DEVNULL)
        check.until(lambda: "mine" in targets(), what="root's server")
        check.contains(stack.sonde("threads", "mine", "--service", RPC)[0], "secret_recipe")
        tables, names = ask(split, "claims-split")
        check.equal(len(tables), 1)
        assert "secret_recipe" not in names, names
    finally:
        for process in filter(None, (mine, service)):
            stop(process)


DROPS = """
#include <grp.h>
#include <unistd.h>
static __attribute__((noinline)) int burn(void) { volatile unsigned n = 0; while (n < 1000000) n++; return (int)n; }
int main(void) {
    gid_t group = 23456;
    if (getuid() == 0 && (setgroups(1, &group) || setresgid(12345, 12345, 12345) || setresuid(12345, 12345, 12345)))
        return 1;
    for (;;)
        burn();
}
"""


def profiled_program(mode, uid, gid, command):
    """A profile of a program with this mode and owner."""
    path, profile = os.path.join(stack.WORK, "drops"), os.path.join(stack.WORK, "drops.collapsed")
    subprocess.run(["gcc", "-g", "-O1", "-x", "c", "-", "-o", path], input=DROPS, text=True, check=True)
    os.chown(path, uid, gid)
    os.chmod(path, mode)
    service, server = sonded("--everybody"), None
    try:
        server = start(*command, path, env=guest_environment("drops"), stdout=subprocess.DEVNULL)
        check.until(lambda: "drops" in targets(), what="the server")
        stack.sonde("record", "drops", "--service", RPC, "-d", "1", "-F", "499", "-o", profile)
        with open(profile, encoding="utf-8") as file:
            return file.read()
    finally:
        for process in filter(None, (server, service)):
            stop(process)
        os.unlink(path)


def test_a_server_that_gives_up_root_keeps_the_names_that_its_user_may_read():
    check.contains(profiled_program(0o755, 0, 0, ()), "main;burn")


def test_a_program_that_only_its_user_may_read_has_names():
    check.contains(profiled_program(0o700, 12345, 12345, as_user(12345)), "main;burn")


def test_a_program_that_its_users_group_may_read_has_names():
    command = ("setpriv", "--reuid=12345", "--regid=12345", "--groups=23456", "--")
    check.contains(profiled_program(0o750, 0, 23456, command), "main;burn")


def test_a_program_that_its_user_may_only_execute_has_no_names():
    text = profiled_program(0o711, 0, 0, as_user(12345))
    check.contains(text, "drops")
    assert "burn" not in text, text


def become_program(path, name, report):
    guest = fake_guest.Guest(GUESTS)
    tag, _ = guest.hello(name)
    assert tag == fake_guest.WELCOME, tag
    os.set_inheritable(guest.socket.fileno(), True)
    report(os.getpid())
    os.execv(path, [path])


def runs(pid, path):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        sleeps = stat.read().rsplit(")", 1)[1].split()[0] == "S"
    return os.readlink(f"/proc/{pid}/exe") == path and sleeps


def threads_after_exec(path, name, status):
    service = sonded("--everybody")
    puppet = fake_guest.Puppet(NOBODY, become_program, path, name)
    try:
        pid = puppet.result()
        check.until(lambda: runs(pid, path), what=f"exec of {path}")
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            uids = next(line for line in file if line.startswith("Uid:")).split()
        return uids[2], stack.sonde("threads", name, "--service", RPC, status=status)
    finally:
        puppet.kill()
        stop(service)


def test_a_program_run_by_its_own_user_is_shown_after_exec():
    euid, (out, _) = threads_after_exec(PUBLIC, "runs-public", 0)
    check.equal(euid, str(NOBODY))
    check.contains(out, "secret_recipe")


def test_a_set_uid_program_is_not_shown_to_the_user_who_runs_it():
    euid, (out, err) = threads_after_exec(SET_UID, "runs-set-uid", 1)
    if euid != "0":
        raise check.Skip("set-uid programs do not work in this folder")
    assert "secret_recipe" not in out, out
    check.contains(err, "is no longer the process that connected")


def leave_socket_behind(name, report):
    guest = fake_guest.Guest(GUESTS)
    tag, _ = guest.hello(name)
    assert tag == fake_guest.WELCOME, tag
    report(os.getpid())
    holder = os.fork()
    if holder == 0:
        return  # sleeps with the socket
    report(holder)
    os._exit(0)


def say_hello_for_another(name, report):
    guest, pid = fake_guest.Guest(GUESTS), os.getpid()
    report(pid)
    if os.fork():
        os._exit(0)
    while os.path.exists(f"/proc/{pid}"):
        time.sleep(0.01)
    report(guest.hello(name))
    os._exit(0)


def test_a_process_that_has_ended_cannot_become_a_target():
    service = sonded("--everybody")
    puppet = fake_guest.Puppet(NOBODY, say_hello_for_another, "ended")
    try:
        puppet.result()
        os.waitpid(puppet.pid, 0)
        tag, fields = puppet.result()
        check.equal(tag, fake_guest.REFUSAL)
        check.contains(fields[1].decode(), "is not the one that connected")
        assert "ended" not in targets()
    finally:
        puppet.reader.close()
        stop(service)


def start_with_pid(pid):
    """Starts root's SECRET as process `pid`."""
    for _ in range(1000):
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:
            file.write(str(pid - 1))
        process = start(SECRET)
        if process.pid == pid:
            return process
        stop(process)
    raise AssertionError(f"no process got the pid {pid}")


def test_a_process_with_a_reused_pid_is_not_shown():
    if not os.path.exists("/proc/sys/kernel/ns_last_pid"):
        raise check.Skip("the kernel cannot choose a pid")
    service, root, holder = sonded("--everybody"), None, None
    puppet = fake_guest.Puppet(NOBODY, leave_socket_behind, "left-behind")
    try:
        pid, holder = puppet.result(), puppet.result()
        puppet.reap()
        root = start_with_pid(pid)
        check.until(lambda: runs(pid, SECRET), what="root's process")
        out, err = stack.sonde("threads", "left-behind", "--service", RPC, status=1)
        assert "secret_recipe" not in out, out
        check.contains(err, "is no longer the process that connected")
    finally:
        if holder:
            os.kill(holder, 9)
        for process in filter(None, (root, service)):
            stop(process)


install()
build()
claimed_mapping, address = {}, {}
for program in (SECRET, PUBLIC):
    claimed_mapping[program], address[program] = claimed(program)
check.main(globals())
