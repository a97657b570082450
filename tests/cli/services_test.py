# SPDX-License-Identifier: Apache-2.0
"""Which of several running sonded a verb uses. Three scripted services stand for all of them: each test puts their sockets into a
runtime directory of its own."""

import json
import os
import re
import shutil
import socket
import subprocess
import threading

from tests.cli import check

SONDE = os.path.abspath("clients/cli/sonde")
FOLDER = check.short_folder()
OTHER_USER = 54321
OTHERS_FOLDER = f"/tmp/sonde-{OTHER_USER}"
RUN = f"run-{os.getpid()}-"


def make_prefix():
    """A sonded that says that it was started."""
    folder = os.path.join(FOLDER, "bin")
    os.mkdir(folder)
    with open(os.path.join(folder, "sonded"), "w", encoding="ascii") as script:
        script.write("#!/bin/sh\necho 'sonded: started privately'\nexit 1\n")
    os.chmod(os.path.join(folder, "sonded"), 0o755)
    return folder


PREFIX = make_prefix()


def start(name, *words, address=None):
    address = address or os.path.join(FOLDER, name)
    return address, subprocess.Popen(["/usr/bin/python3", "-B", "tests/rest/fake_service.py", "--grpc", "unix:" + address, *words],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def runtime(name, **sockets):
    """Makes a runtime directory; the names of the sockets are `machine` or that of a run."""
    base = os.path.join(FOLDER, name, "sonde")
    os.makedirs(base, 0o700)
    for where, address in sockets.items():
        folder = base if where == "machine" else os.path.join(base, RUN + where)
        os.makedirs(folder, exist_ok=True)
        os.symlink(address, os.path.join(folder, "grpc.sock" if where == "machine" else "service.sock"))
    return os.path.join(FOLDER, name)


def sonde(folder, *words):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SONDE_", "XDG_"))}
    clean.update({"XDG_RUNTIME_DIR": folder} if folder else {}, SONDE_LIBDIR=PREFIX, SONDE_DATA_DIR=FOLDER)
    done = subprocess.run([SONDE, *words], env=clean, capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL, cwd=FOLDER)
    return done.returncode, done.stdout, done.stderr


def test_a_name_finds_the_service_of_its_process():
    folder = runtime("names", a=WEB, b=DB)
    for name in ("web", "db"):
        status, out, err = sonde(folder, "threads", name)
        check.equal((status, err), (0, ""))
        check.contains(out, f"{name} (pid 1000)")
    check.equal(sonde(folder, "heap", "status", "db")[0], 0, "status of a verb that needs the guest")


def test_without_a_name_the_only_attached_process_is_meant():
    status, out, err = sonde(runtime("only", a=NONE, b=WEB), "threads")
    check.equal((status, err), (0, ""))
    check.contains(out, "web (pid 1000)")


def test_what_can_be_meant_is_listed_with_the_option_that_picks_it():
    folder = runtime("listed", a=WEB, b=DB)
    for words in (("threads",), ("threads", "1000"), ("captures",), ("history",), ("targets", "--watch"), ("symbol", "0x1000")):
        status, out, err = sonde(folder, *words)
        check.equal((status, out), (2, ""), f"status and output of {words}")
        for name, run in (("web", "a"), ("db", "b")):
            check.contains(err, f"  --service unix:{folder}/sonde/{RUN}{run}/service.sock  {name} 1000")
        check.contains(err, "add the --service of one")
    check.contains(sonde(folder, "threads", "1000")[2], "2 of these services have a process with pid 1000; give its")
    check.contains(sonde(folder, "captures")[2], "sonde captures: 2 sonded services are running; ")
    option = sonde(folder, "threads")[2].split("\n")[0].split()[:2]
    check.equal(sonde(folder, "threads", *option)[0], 0, "status with the option")


def test_a_verb_that_needs_the_guest_says_where_it_looked():
    status, out, err = sonde(runtime("guest", a=WEB, b=DB), "heap", "status", "nosuch")
    check.equal((status, out), (1, ""))
    check.contains(err, "service.sock  web 1000\n")
    check.contains(err, "sonde heap: no process called nosuch is attached to any of these services\n")


def test_a_fifo_is_not_waited_for_when_it_is_to_be_uploaded():
    folder = runtime("fifo", a=WEB)
    os.mkfifo(f"{folder}/fifo")
    status, out, err = sonde(folder, "symbol", "--upload", f"{folder}/fifo")
    check.equal((status, out), (1, ""))
    check.contains(err, "fifo is empty or not a regular file")


def test_an_error_has_no_control_characters():
    """Such a name may come from a profiled process. The error has several lines, which stay."""
    err = sonde(runtime("escapes", a=WEB, b=DB), "heap", "status", "no\x1b[31msuch\u009b\u202e")[2]
    check.contains(err, "no?[31msuch")
    assert "\n" in err and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", err), repr(err)


def test_a_process_from_outside_is_asked_of_the_machines_service():
    folder = runtime("outside", a=DB, machine=WEB)
    status, out, err = sonde(folder, "threads", "cron")
    check.equal((status, err), (0, ""))
    check.contains(out, "cron (pid 2000)")
    check.contains(sonde(folder, "targets", "--all")[1], "cron")
    check.contains(sonde(folder, "threads", "db")[1], "db (pid 1000)")


def test_a_process_from_outside_gets_a_private_service_among_runs():
    status, out, err = sonde(runtime("private", a=WEB, b=DB), "threads", "cron")
    check.equal((status, out), (3, ""))
    check.contains(err, "started privately")


def test_targets_lists_those_of_all_services():
    folder = runtime("targets", a=WEB, b=DB)
    status, out, err = sonde(folder, "targets")
    check.equal((status, err), (0, ""))
    for name, run in (("web", "a"), ("db", "b")):
        part = out[out.index(f"unix:{folder}/sonde/{RUN}{run}/service.sock\n"):]
        check.contains(part.split("\n\n")[0] + "\n", f"  {name}\n")
    names = {target["name"] for target in json.loads(sonde(folder, "targets", "--json")[1])["targets"]}
    assert {"db", "web"} <= names, names


def test_completions_offer_what_runs_but_no_name_that_a_shell_could_execute():
    folder = runtime("complete", a=WEB, b=DB)
    words = lambda *words: sonde(folder, "completions", "--words", "--", *words)[1].splitlines()
    check.equal(words("heap", "status", ""), ["web\tattached, pid 1000", "db\tattached, pid 1000"])
    check.equal(words("threads", "")[:2], ["web\tattached, pid 1000", "db\tattached, pid 1000"])
    check.equal(sonde(folder, "record", "web", "-d", "1", "--keep", "-o", os.path.join(folder, "x.svg"))[0], 0, "status of record")
    check.contains("\n".join(words("captures", "")), "1\tcpu, ")
    check.contains("\n".join(words("top", "--service", "")), f"unix:{folder}/sonde/{RUN}a/service.sock\tweb 1000")


def test_dead_services_do_not_count():
    folder = runtime("dead", a=WEB)
    ended = subprocess.Popen(["true"])
    ended.wait()
    for name in (f"run-{ended.pid}-x", RUN + "stale"):
        os.mkdir(f"{folder}/sonde/{name}")
    os.symlink(DB, f"{folder}/sonde/run-{ended.pid}-x/service.sock")
    subprocess.run(["python3", "-c", "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])",
                    f"{folder}/sonde/{RUN}stale/service.sock"], check=True)
    status, out, err = sonde(folder, "threads")
    check.equal((status, err), (0, ""))
    check.contains(out, "web (pid 1000)")


def test_a_service_that_does_not_answer_is_not_waited_for():
    folder = runtime("silent", a=WEB)
    os.mkdir(f"{folder}/sonde/{RUN}b")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{folder}/sonde/{RUN}b/service.sock")
        silent.listen()
        status, _, err = sonde(folder, "captures")
    check.equal(status, 2, "status")
    check.contains(err, f"{RUN}a/service.sock  web 1000\n")
    check.contains(err, f"{RUN}b/service.sock  does not answer\n")


def test_at_most_64_services_are_asked():
    sockets = {f"r{i:02}": WEB for i in range(70)}
    status, _, err = sonde(runtime("many", **sockets), "captures")
    check.equal((status, err.count("--service unix:")), (2, 64), "status and number of services")


def test_without_a_service_the_message_says_where_it_looked():
    folder = runtime("empty")
    for words in (("heap", "status"), ("history",), ("targets", "--watch")):
        status, out, err = sonde(folder, *words)
        check.equal((status, out), (3, ""), f"status and output of {words}")
        check.contains(err, f"no sonded is running (looked in /run/sonde and {folder}/sonde); start a server with `sonde run")
        check.equal("`sonde growth PID` shows which code makes it grow" in err, words[0] == "heap")
    check.contains(sonde(folder, "threads")[2], "which process? Name it or give its pid")


def test_an_unreachable_service_is_answered_with_one_that_runs():
    folder = runtime("running", a=WEB)
    status, out, err = sonde(folder, "threads", "--service", f"unix:{FOLDER}/nobody")
    check.equal((status, out), (3, ""))
    check.contains(err, f"cannot reach sonded at unix:{FOLDER}/nobody; 1 running here, for example at unix:{folder}/sonde/{RUN}a/")


def test_a_mistyped_name_is_answered_with_the_nearest_process():
    folder = runtime("nearest", machine=WEB)
    check.equal(sonde(folder, "threads", "wbe"), (1, "", "sonde threads: no such process runs here; did you mean web?\n"))
    check.contains(sonde(folder, "threads", "corn")[2], "; did you mean cron?\n")
    assert "did you mean" not in sonde(folder, "threads", "zzzzzz")[2]


def test_a_mistyped_name_is_answered_with_the_nearest_target_of_all_services():
    folder = runtime("nearest-of-all", a=DB, machine=WEB)
    check.contains(sonde(folder, "threads", "dbb")[2], "; did you mean db?\n")
    check.contains(sonde(folder, "heap", "status", "wbe")[2], "attached to any of these services; did you mean web?\n")
    check.contains(sonde(folder, "heap", "status", "dbb")[2], "; did you mean db?\n")
    assert "did you mean" not in sonde(folder, "heap", "status", "zzzzzz")[2]


def test_an_address_of_http_is_refused():
    status, _, err = sonde(runtime("http"), "threads", "web", "--service", "http://127.0.0.1:1")
    check.equal((status, err), (2, 'sonde threads: address "http://127.0.0.1:1" is neither unix:PATH nor HOST:PORT\n'))


def answer_404(listener):
    """Speaks as much HTTP/2 as a gateway that gets a request it does not know: SETTINGS, then ":status: 404"."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as stream:
        stream.read(24)  # the client's preface
        connection.sendall(bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
        kind = None
        while kind != 1:  # HEADERS
            head = stream.read(9)
            kind, _ = head[3], stream.read(int.from_bytes(head[:3], "big"))
        connection.sendall(bytes((0, 0, 1, 1, 5)) + head[5:] + b"\x8d")
        stream.read()


def test_a_gateway_in_place_of_sonded_is_recognized():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer_404, args=(listener,), daemon=True).start()
        address = "127.0.0.1:%d" % listener.getsockname()[1]
        status, _, err = sonde(runtime("gateway"), "threads", "web", "--service", address)
    check.equal((status, err), (3, f"sonde threads: {address} serves HTTP, not gRPC: pass the address of sonded, not of a gateway\n"))


def test_root_sees_other_users_services_but_believes_only_what_is_theirs():
    if os.geteuid() != 0:
        raise check.Skip("only root can start a service of another user")
    os.mkdir(OTHERS_FOLDER, 0o700)
    os.chown(OTHERS_FOLDER, OTHER_USER, OTHER_USER)
    process = subprocess.Popen(["sleep", "60"], user=OTHER_USER)
    name = f"of-another-{os.getpid()}"
    address, service = start("", "--user", str(OTHER_USER), "--pids", str(process.pid), "1", "--targets", f"{name},{name}-liar",
                             address=f"{OTHERS_FOLDER}/grpc.sock")
    try:
        check.until(lambda: os.path.exists(address), what="the other user's service")
        check.contains(sonde(None, "threads", name)[1], f"{name} (pid {process.pid})")
        # (A verb that starts no private service, which would be in root's own folder.)
        check.contains(sonde(None, "heap", "status", f"{name}-liar")[2], f"no process called {name}-liar is attached")
        check.equal(sonde(runtime("elsewhere"), "heap", "status", name)[0], 3, "status with a runtime directory of its own")
    finally:
        check.stop(service)
        check.stop(process)
        shutil.rmtree(OTHERS_FOLDER)


def test_a_process_of_another_user_is_not_said_to_be_missing():
    """The service tells a user nothing about others, so it knows no such process; the command line sees it in /proc."""
    if os.geteuid() != 0:
        raise check.Skip("only root can run the command line as another user")
    os.mkdir(OTHERS_FOLDER, 0o755)
    os.chown(OTHERS_FOLDER, OTHER_USER, OTHER_USER)
    shutil.copy(SONDE, OTHERS_FOLDER)
    shutil.copy("/bin/sleep", os.path.join(FOLDER, f"of-root-{os.getpid()}"))
    name = f"of-root-{os.getpid()}"[:15]
    process = subprocess.Popen([os.path.join(FOLDER, f"of-root-{os.getpid()}"), "60"])
    address, service = start("", "--user", str(OTHER_USER), "--targets", "", address=f"{OTHERS_FOLDER}/grpc.sock")

    def ask(target):
        done = subprocess.run([f"{OTHERS_FOLDER}/sonde", "threads", target, "--service", f"unix:{address}"], user=OTHER_USER, group=OTHER_USER,
                              capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL, cwd="/")
        return done.stderr

    belongs = f"process {process.pid} belongs to root: only that user and root may sample it\n"
    try:
        check.until(lambda: os.path.exists(address), what="the other user's service")
        check.until(lambda: name in open(f"/proc/{process.pid}/comm", encoding="ascii").read(), what="the name of root's process")
        check.contains(ask(str(process.pid)), belongs)
        check.contains(ask(name), belongs)
        check.contains(ask("4194304"), "no such process runs here")
        check.contains(ask("zzzzzz"), "no such process runs here")
        check.equal(sonde(None, "threads", name, "--service", f"unix:{address}")[2], "sonde threads: no such process runs here\n")
    finally:
        check.stop(service)
        check.stop(process)
        shutil.rmtree(OTHERS_FOLDER)


SERVICES = [start("w", "--targets", "web", "--unattached", "cron"), start("d", "--targets", "db,$(id),-d"), start("n", "--targets", "")]
WEB, DB, NONE = (address for address, _ in SERVICES)
try:
    check.until(lambda: all(os.path.exists(address) for address, _ in SERVICES), what="the services")
    check.main(globals())
finally:
    for _, each in SERVICES:
        check.stop(each)
    shutil.rmtree(FOLDER, ignore_errors=True)
