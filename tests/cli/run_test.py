# SPDX-License-Identifier: Apache-2.0
"""`sonde run` as a supervisor: exit status, signals, environment, failing helpers. sonded and the gateway are scripts
that can be made to fail; tests/e2e uses the real ones."""

import errno
import os
import shutil
import signal
import socket
import subprocess
import time

from tests.cli import check

SONDE = os.path.abspath("clients/cli/sonde")

STATIC = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { printf(\"ran %s\\n\", getenv(\"LD_PRELOAD\")); return 3; }"

SONDED = """#!/usr/bin/python3
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if os.path.exists(os.environ.get("FAKE_SONDED_BROKEN", "/nowhere")):
    sys.exit("sonded: cannot do it")
print(os.environ.get("FAKE_SONDED_SAYS", ""), file=sys.stderr, flush=True)
addresses = [sys.argv[i + 1] for i, word in enumerate(sys.argv) if word == "--grpc"]
for address in addresses:
    print("grpc: " + address, flush=True)
time.sleep(1000)
"""

GATEWAY = """#!/usr/bin/python3
import os, signal, socket, sys, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if "FAKE_GATEWAY_LOG" in os.environ:
    with open(os.environ["FAKE_GATEWAY_LOG"], "w") as log:
        log.write(" ".join(sys.argv))
listeners = []
for address in [sys.argv[i + 1] for i, word in enumerate(sys.argv) if word == "--listen"]:
    if address.startswith("0.0.0.0") and not "--token-file" in sys.argv:
        sys.exit("sonde-gateway: other machines can reach %s: give --token-file" % address)
    host, port = address.rsplit(":", 1)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, int(port)))
    except OSError:
        sys.exit("noise\\nsonde-gateway: cannot listen on %s: taken" % address)
    listener.listen()
    listeners.append(listener)
stops = "FAKE_GATEWAY_STOPS" in os.environ  # both the line and the signal are there when sonde looks
if stops:
    os.kill(os.getppid(), signal.SIGSTOP)
for listener in listeners:
    print("http: http://%s:%d" % listener.getsockname(), flush=True)
if stops:
    os.kill(os.getppid(), signal.SIGTERM)
    os.kill(os.getppid(), signal.SIGCONT)
time.sleep(1000)
"""


def make_prefix():
    folder = check.short_folder()
    for name, text in (("sonded", SONDED), ("sonde-gateway", GATEWAY)):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="ascii") as script:
            script.write(text)
        os.chmod(path, 0o755)
    compile_c(folder, "libsonde.so", "int fake_sonde;", "-shared", "-fPIC")
    return folder


def compile_c(folder, name, text, *flags):
    path = os.path.join(folder, name)
    subprocess.run(["gcc", "-x", "c", "-", "-o", path, *flags], input=text.encode(), check=True)
    return path


PREFIX = make_prefix()


def environment(**more):
    env = {**os.environ, "SONDE_LIBDIR": PREFIX, "XDG_RUNTIME_DIR": PREFIX, **more}
    for name in ("SONDE_SOCKET", "SONDE_NAME", "SONDE_HTTP", "LD_PRELOAD"):
        env.pop(name, None) if name not in more else None
    return env


def start(*words, env=None, **options):
    return subprocess.Popen([SONDE, "run", *words], env=env or environment(), stderr=subprocess.PIPE,
                            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **options)


def run(*words, env=None):
    process = start("--http", "127.0.0.1:0", *words, env=env)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def wait_for_page(process):
    line = process.stderr.readline()
    assert line.startswith("http: http://127.0.0.1:"), line
    return line.split()[1]


def run_folders():
    base = os.path.join(PREFIX, "sonde")
    return os.listdir(base) if os.path.isdir(base) else []


def test_run_exits_with_the_status_of_the_command():
    check.equal(run("--", "sh", "-c", "exit 7")[0], 7, "status")
    check.equal(run("--", "true")[0], 0, "status")


def test_flags_after_the_command_belong_to_the_command():
    status, out, _ = run("echo", "--http", "--", "-x")
    check.equal((status, out), (0, "--http -- -x\n"))


def test_history_is_recorded_by_the_private_sonded_if_asked():
    words = ["sh", "-c", "tr '\\0' ' ' < /proc/$PPID/task/$PPID/children; for p in $(cat /proc/$PPID/task/$PPID/children); do "
             "tr '\\0' ' ' < /proc/$p/cmdline; echo; done"]
    lines = lambda *flags: [line for line in run(*flags, "--", *words)[1].splitlines() if "/sonded " in line]
    assert " --history " in lines("--history")[0] + " ", lines("--history")
    assert " --history " not in lines()[0] + " ", lines()


def test_captures_are_deleted_at_the_end_unless_they_are_kept():
    words = ["sh", "-c", "for p in $(cat /proc/$PPID/task/$PPID/children); do tr '\\0' ' ' < /proc/$p/cmdline; echo; done"]
    lines = lambda *flags: [line for line in run(*flags, "--", *words)[1].splitlines() if "/sonded " in line]
    assert " --private " in lines()[0], lines()
    assert " --private " not in lines("--keep")[0], lines("--keep")
    check.equal(run("--socket", "/x", "--keep", "--", "true")[0], 2, "--socket with --keep")


def test_a_history_that_cannot_be_recorded_is_reported_and_other_lines_are_not():
    says = "sonded: nothing is recorded: another service uses it\nsonded: other"
    status, _, err = run("--history", "--", "sh", "-c", "exit 3", env=environment(FAKE_SONDED_SAYS=says))
    check.equal(status, 3, "status")
    check.contains(err, "sonded: nothing is recorded: another service uses it\n")
    assert "other\n" not in err, err


def test_a_killed_command_exits_with_128_plus_the_signal():
    check.equal(run("--", "sh", "-c", "kill -9 $$")[0], 128 + 9, "status")
    check.equal(run("--", "sh", "-c", "kill -TERM $$")[0], 128 + 15, "status")


def test_a_missing_command_exits_with_127_and_a_message():
    for name in ("no-such-command-here", "./no/such/file", ""):
        status, _, err = run("--", name)
        check.equal(status, 127, "status")
        assert err.startswith("sonde run: ") and err.count("\n") == 1, err


def test_a_file_that_is_not_executable_exits_with_126():
    for name in ("/etc/passwd", "/tmp"):
        status, _, err = run("--", name)
        check.equal(status, 126, "status")
        contains = "not an executable file"
        check.contains(err, contains)


def test_no_command_is_a_usage_error():
    for words in ((), ("--",), ("--name", "x")):
        check.equal(run(*words)[0], 2, "status")
    check.equal(run("--no-such-flag", "--", "true")[0], 2, "status")
    check.equal(run("--socket", "/x", "--", "true")[0], 2, "--socket with --http")


def lines_of_sonde(err):
    """What `sonde run` writes to stderr besides the page's address."""
    return [line for line in err.splitlines() if not line.startswith("http: ")]


def make_script(name, interpreter):
    path = os.path.join(PREFIX, name)
    with open(path, "w", encoding="ascii") as text:
        text.write(f"#! {interpreter} x\n")
    os.chmod(path, 0o755)
    return path


def refuse_perf():
    check.refuse_call(298, errno.EACCES)  # perf_event_open


def test_a_static_program_runs_without_the_guest():
    path = compile_c(PREFIX, "static", STATIC, "-static")
    for command in (path, make_script("script-of-static", path)):
        status, out, err = run("--", command)
        check.equal((status, out), (3, "ran (null)\n"), f"status and output of {command}")
        check.equal(len(lines_of_sonde(err)), 1, "lines")
        check.contains(err, "sonde run: profiles from outside only, no heap profiles and labels: static is statically linked")
    check.contains(run("--history", "--", path)[2], "no heap profiles and labels, no profiles in the history: ")


def test_a_program_without_the_guest_is_the_target_of_the_page():
    log = os.path.join(PREFIX, "gateway-arguments")
    path = compile_c(PREFIX, "prints", "#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf(\"%d\", getpid()); return 0; }",
                     "-static")
    out = run("--", path, env=environment(FAKE_GATEWAY_LOG=log))[1]
    check.contains(open(log, encoding="ascii").read(), f"--target {out}")
    run("--", "true", env=environment(FAKE_GATEWAY_LOG=log))
    assert "--target" not in open(log, encoding="ascii").read()


def test_a_static_program_runs_where_perf_is_refused_and_beside_another_sonded():
    path = compile_c(PREFIX, "static", STATIC, "-static")
    for words, options, says in ((("--http", "127.0.0.1:0"), {"preexec_fn": refuse_perf}, "sonde run: the command is not profiled: the kernel "
                                  "refuses perf events (Permission denied, see `sonde doctor`), and static is statically linked"),
                                 (("--socket", "/nowhere/guest.sock"), {}, "no heap profiles and labels: ")):
        process = start(*words, "--", path, **options)
        out, err = process.communicate(timeout=60)
        check.equal((process.returncode, out, len(lines_of_sonde(err))), (3, "ran (null)\n", 1))
        check.contains(err, says)


def test_a_static_program_does_not_start_when_its_helpers_fail():
    path = compile_c(PREFIX, "static", STATIC, "-static")
    broken = os.path.join(PREFIX, "broken-sonded")
    with open(broken, "w", encoding="ascii"):
        pass
    status, out, err = run("--", path, env=environment(FAKE_SONDED_BROKEN=broken))
    check.equal((status, out), (125, ""))
    check.contains(err, "cannot do it")


def test_a_static_program_behind_a_wrapper_runs_with_a_warning():
    path = compile_c(PREFIX, "wrapped", "#include <stdio.h>\nint main(void) { puts(\"ran\"); return 3; }", "-static")
    warning = "sonde run: warning: not profiled from inside: wrapped is statically linked"
    for words in (("timeout", "-s", "TERM", "60", path), ("env", "-u", "X", "A=/bin/true", "nice", "-n", "1", path), ("sh", "-c", path)):
        status, out, err = run("--", *words)
        check.equal((status, out), (3, "ran\n"), f"status and output of {words}")
        check.contains(err, warning)
    for words in (("env", "true", path), ("timeout", "60", "true"), ("sh", "-c", "exit 0")):
        status, _, err = run("--", *words)
        check.equal(status, 0, f"status of {words}")
        assert "warning" not in err, err


def test_a_program_of_another_architecture_is_left_to_the_kernel():
    running = compile_c(PREFIX, "bits32", "void _start(void) { __asm__(\"mov $1, %eax; mov $7, %ebx; int $0x80\"); }", "-m32", "-nostdlib",
                        "-static")
    status, _, err = run("--", running)
    check.contains(err, "sonde run: the command is not profiled: ")
    if "Exec format error" not in err:  # a kernel without 32-bit programs
        check.equal(status, 7, "status")


def test_a_program_that_the_kernel_cannot_run_exits_with_126():
    path = os.path.join(PREFIX, "broken")
    with open("/bin/true", "rb") as good:
        head = bytearray(good.read(4096))
    head[18] = 183  # aarch64
    with open(path, "wb") as program:
        program.write(head)
    os.chmod(path, 0o755)
    status, _, err = run("--", path)
    check.equal(status, 126, "status")
    check.contains(err, "x86-64")
    check.contains(err, f"{path}: Exec format error")  # and no shell reads the file


def test_a_set_id_program_runs_without_the_guest():
    if os.geteuid() != 0:
        raise check.Skip("only root can make a program of another user")
    path = os.path.join(PREFIX, "setuid")
    shutil.copy("/bin/true", path)
    try:
        os.chown(path, 65534, 65534)
    except OSError as error:
        raise check.Skip("this sandbox has one user only") from error
    os.chmod(path, 0o4755)
    status, _, err = run("--", path)
    check.equal(status, 0, "status")
    check.contains(err, "no heap profiles and labels: ")
    check.contains(err, "set-id")


def test_the_command_gets_the_variables_of_the_guest():
    status, out, _ = run("--name", "web", "--", "sh", "-c",
                         'echo "$LD_PRELOAD|$SONDE_NAME|$SONDE_SOCKET|$SONDE_PID|$$|$MALLOC_CONF"')
    preload, name, socket, pid, own, heap = out.strip().split("|")
    check.equal(status, 0)
    check.equal(preload, os.path.join(PREFIX, "libsonde.so"))
    check.equal((name, pid, heap), ("web", own, ""))
    check.contains(socket, "/guest.sock")


def test_a_program_behind_the_dynamic_linker_is_run_and_named_by_it():
    for words, name in ((("/bin/sh",), "sh"), (("/lib64/ld-linux-x86-64.so.2", "--library-path", "/lib", "/bin/sh"), "")):
        status, out, err = run("--", *words, "-c", 'echo "$LD_PRELOAD|$SONDE_FIRST_NAME"')
        check.equal((status, out), (0, f"{PREFIX}/libsonde.so|{name}\n"), err)
        assert "warning" not in err and "statically" not in err, err


def test_run_adds_to_the_users_ld_preload():
    other = compile_c(PREFIX, "other.so", "int fake_other;", "-shared", "-fPIC")
    asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"  # a sanitized sonde is not the first library
    env = environment(LD_PRELOAD=other, MALLOC_CONF="narenas:1", ASAN_OPTIONS=asan)
    _, out, _ = run("--heap", "--", "sh", "-c", 'echo "$LD_PRELOAD|$MALLOC_CONF"', env=env)
    check.equal(out.strip(), f"{PREFIX}/libsonde.so:{other}|narenas:1")


def test_run_forwards_signals_to_the_command():
    command = 'trap "echo got hup; exit 3" HUP; echo ready; while :; do sleep 0.05; done'
    process = start("--http", "127.0.0.1:0", "--", "sh", "-c", command)
    check.equal(process.stdout.readline(), "ready\n")
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=30)
    check.equal((process.returncode, out), (3, "got hup\n"))


def test_a_signal_that_arrives_with_the_gateways_address_is_not_lost():
    status, out, err = run("--", "echo", "ran", env=environment(FAKE_GATEWAY_STOPS="1"))
    check.equal((status, out), (128 + 15, ""))
    check.contains(err, "stopped by a signal before the command started")


def test_the_command_starts_with_the_original_signal_mask():
    status, out, _ = run("--", "sh", "-c", "grep -E 'SigBlk|SigIgn' /proc/self/status")
    check.equal(status, 0)
    own = subprocess.run(["sh", "-c", "grep -E 'SigBlk|SigIgn' /proc/self/status"], capture_output=True, text=True,
                         check=True, stdin=subprocess.DEVNULL)
    check.equal(out, own.stdout)


def test_the_command_inherits_no_descriptor_of_sonde():
    _, out, _ = run("--", "sh", "-c", "ls /proc/$$/fd")
    check.equal(out.split(), ["0", "1", "2"])


def test_run_deletes_its_directory():
    run("--", "true")
    check.equal(run_folders(), [])


def test_run_deletes_its_directory_after_failures_too():
    run("--", "no-such-command-here")
    broken = os.path.join(PREFIX, "is-broken")
    open(broken, "w", encoding="ascii").close()
    status, out, err = run("--", "echo", "ran", env=environment(FAKE_SONDED_BROKEN=broken))
    os.unlink(broken)
    check.equal((status, out), (125, ""))
    check.equal(err, "sonde run: cannot do it\n")
    check.equal(run_folders(), [])


def test_a_requested_port_that_is_taken_is_an_error():
    first = start("--http", "127.0.0.1:0", "--", "sleep", "60")
    address = wait_for_page(first).removeprefix("http://")
    second = start("--http", address, "--", "echo", "ran")
    out, err = second.communicate(timeout=30)
    check.stop(first)
    check.equal((second.returncode, out, err), (125, "", f"sonde run: cannot listen on {address}: taken\n"))


def test_two_http_options_listen_on_both_addresses():
    process = start("--http", "127.0.0.1:0", "--http", "127.0.0.1:0", "--", "sleep", "64")
    pages = {wait_for_page(process), wait_for_page(process)}
    check.equal(len(pages), 2, "number of pages")
    reached = lambda: not any(socket.create_connection(page.removeprefix("http://").split(":")).close() for page in pages)
    assert reached()
    os.kill(helpers(process)["sonde-gateway"], signal.SIGKILL)
    check.until(lambda: "restarting it" in process.stderr.readline())
    def is_back():
        try:
            return reached()
        except OSError:
            return time.sleep(0.05)
    check.until(is_back, what="both addresses after the restart")
    process.terminate()
    assert "http: " not in process.communicate(timeout=30)[1], "the pages have not moved"


def test_a_page_for_other_machines_needs_a_token_file_or_insecure():
    process = start("--http", "0.0.0.0:0", "--", "echo", "ran")
    out, err = process.communicate(timeout=30)
    check.equal((process.returncode, out), (125, ""))
    check.equal(err, "sonde run: other machines can reach 0.0.0.0:0: give --token-file\n")
    words = ["sh", "-c", "for p in $(cat /proc/$PPID/task/$PPID/children); do tr '\\0' ' ' < /proc/$p/cmdline; echo; done"]
    process = start("--http", "0.0.0.0:0", "--token-file", "/secret", "--", *words)
    out, _ = process.communicate(timeout=30)
    for program in ("/sonded ", "/sonde-gateway "):
        check.contains([line for line in out.splitlines() if program in line][0] + " ", " --token-file /secret ")


def test_two_runs_at_once_use_two_ports():
    command = ("--", "sh", "-c", "echo ready; exec sleep 60")
    first, second = start(*command), start(*command)
    pages = {wait_for_page(first), wait_for_page(second)}
    check.equal((first.stdout.readline(), second.stdout.readline()), ("ready\n", "ready\n"))
    check.stop(first)
    check.stop(second)
    check.equal(len(pages), 2, "number of pages")
    check.equal((first.stderr.read(), second.stderr.read()), ("", ""), "what else they say")


def helpers(process):
    return {name: pid for pid, name in check.children(process.pid) if name in ("sonded", "sonde-gateway")}


def test_a_killed_helper_is_restarted_and_the_command_keeps_running():
    process = start("--http", "127.0.0.1:0", "--", "sleep", "61")
    page = wait_for_page(process)
    first = helpers(process)
    check.equal(sorted(first), ["sonde-gateway", "sonded"])
    for pid in first.values():
        os.kill(pid, signal.SIGKILL)
    try:
        check.until(lambda: sorted(helpers(process)) == ["sonde-gateway", "sonded"] and
                    not set(helpers(process).values()) & set(first.values()), what="new helpers")
    except AssertionError as error:
        process.kill()
        raise AssertionError(process.stderr.read()) from error
    assert process.poll() is None
    time.sleep(0.5)  # the gateway binds its port again
    process.terminate()
    _, err = process.communicate(timeout=30)
    check.equal(process.returncode, 128 + 15, "status")
    check.contains(err, "restarting it")
    assert "http: " not in err, f"the page is still at {page}: {err}"


def test_run_gives_up_on_a_failing_helper_and_the_command_keeps_running():
    broken = os.path.join(PREFIX, "breaks-later")
    process = start("--http", "127.0.0.1:0", "--", "sleep", "62", env=environment(FAKE_SONDED_BROKEN=broken))
    wait_for_page(process)
    open(broken, "w", encoding="ascii").close()
    os.kill(helpers(process)["sonded"], signal.SIGKILL)
    printed = ""
    while "giving up on it" not in printed:
        printed += process.stderr.readline()
    assert process.poll() is None
    check.equal(list(helpers(process)), ["sonde-gateway"])
    os.unlink(broken)
    check.stop(process)


def test_helpers_exit_when_sonde_is_killed_and_the_command_keeps_running():
    process = start("--http", "127.0.0.1:0", "--", "sleep", "63")
    wait_for_page(process)
    of_sonde = helpers(process)
    check.until(lambda: "sleep" in [name for _, name in check.children(process.pid)])
    command = [pid for pid, name in check.children(process.pid) if name == "sleep"][0]
    process.kill()
    process.wait()
    check.until(lambda: not any(check.alive(pid) for pid in of_sonde.values()), what="the exit of the helpers")
    assert check.alive(command)
    os.kill(command, signal.SIGKILL)
    check.equal(len(run_folders()), 1, "number of folders left")
    run("--", "true")
    check.equal(run_folders(), [], "folders after the next run")


def test_ctrl_c_reaches_the_command_once_and_not_the_helpers():
    command = 'trap "echo int" INT; trap "exit 5" TERM; echo ready; while :; do sleep 0.05; done'
    leader, follower = os.openpty()
    process = subprocess.Popen([SONDE, "run", "--http", "127.0.0.1:0", "--", "bash", "-c", command],
                               env=environment(), stdin=follower, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True,
                               preexec_fn=lambda: take_terminal(0))
    os.close(follower)
    check.equal(process.stdout.readline(), "ready\n")
    os.write(leader, b"\x03")
    check.equal(process.stdout.readline(), "int\n")
    check.equal(sorted(helpers(process)), ["sonde-gateway", "sonded"])
    process.terminate()
    out, _ = process.communicate(timeout=30)
    os.close(leader)
    check.equal((process.returncode, out), (5, ""))


def take_terminal(fd):
    import fcntl
    import termios
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


def test_socket_joins_a_running_sonded_and_starts_nothing():
    process = start("--socket", "/tmp/some-guest.sock", "--", "sh", "-c", 'echo "$SONDE_SOCKET"; read x; exit 0')
    check.equal(process.communicate(timeout=30), ("/tmp/some-guest.sock\n", "sonde run: nothing listens at /tmp/some-guest.sock "
                                                  "yet; profiling begins when sonded does\n"))
    check.equal(process.returncode, 0)
    for path, name in ((os.path.join(PREFIX, "guests"), None), (f"@sonde-{os.getpid()}", f"\0sonde-{os.getpid()}")):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name or path)
            listener.listen()
            check.equal(start("--socket", path, "--", "true").communicate(timeout=30), ("", ""))


try:
    check.main(globals())
finally:
    shutil.rmtree(PREFIX, ignore_errors=True)
