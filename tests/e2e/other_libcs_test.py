# SPDX-License-Identifier: Apache-2.0
"""H12, H16: musl, static and set-id programs, which the guest cannot be loaded into. They run unchanged, also as children of a
program that has the guest; `sonde run` reports what is missing, and they are sampled from outside."""

import os
import shutil
import subprocess
import urllib.request

from tests.cli import check
from tests.e2e import stack

stack.install()
PROGRAM = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { free(malloc(9)); puts(\"ran\"); return 3; }\n"


def compile_c(name, *flags, compiler="gcc", text=PROGRAM):
    if not shutil.which(compiler):
        raise check.Skip(f"{compiler} is not installed")
    path = os.path.join(stack.WORK, name)
    subprocess.run([compiler, "-x", "c", "-", "-o", path, *flags], input=text, text=True, check=True)
    return path


def run(*words):
    done = subprocess.run([stack.SONDE, "run", "--http", "127.0.0.1:0", "--", *words], env=stack.environment(),
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
    errors = [line for line in done.stderr.splitlines() if not line.startswith("http: ")]
    return done.returncode, done.stdout, "\n".join(errors)


def test_h16_a_musl_program_runs_without_the_guest():
    musl = compile_c("musl", compiler="musl-gcc")
    script = os.path.join(stack.WORK, "script")
    with open(script, "w", encoding="ascii") as text:
        text.write(f"#!{musl}\n")
    os.chmod(script, 0o755)
    for command in (musl, script):
        status, out, err = run(command)
        check.equal((status, out), (3, "ran\n"))
        check.contains(err, "no heap profiles and labels")
        check.contains(err, "libsonde.so needs glibc's")
        check.equal(err.count("\n"), 0, "one line")


def test_h12_h16_musl_and_static_programs_are_sampled_from_outside():
    # The leaf has neither a frame nor unwind information, and its callers have frame pointers.
    busy = ("__asm__(\".text\\nleaf: mov $100000000, %eax\\n1: dec %eax\\njnz 1b\\nret\\n.globl leaf\\n\");\nvoid leaf(void);\n"
            "__attribute__((noinline)) static void spin(void) { leaf(); }\nint main(void) { for (;;) spin(); }\n")
    for name, compiler, flags in (("busy-static", "gcc", ["-static"]), ("busy-musl", "musl-gcc", [])):
        with subprocess.Popen([stack.SONDE, "run", "--http", "127.0.0.1:0", "--", compile_c(name, *flags, compiler=compiler, text=busy)],
                              env=stack.environment(), stderr=subprocess.PIPE, text=True) as process:
            try:
                lines = [process.stderr.readline(), process.stderr.readline()]
                url = next(line.split()[1] for line in lines if line.startswith("http: "))
                if "perf events" in lines[0]:
                    raise check.Skip("perf events are refused")
                stacks = urllib.request.urlopen(f"{url}/debug/pprof/profile?seconds=1&output=collapsed", timeout=60).read().decode()
                check.contains(stacks, "main;spin;leaf ")
            finally:
                process.terminate()


def test_h16_a_musl_program_starts_with_the_guest_preloaded_by_hand():
    """As in a container that sets LD_PRELOAD for everything. The replaced functions are musl's own."""
    text = ("#include <pthread.h>\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
            "static volatile int signals;\nstatic void on_signal(int number) { signals++; }\n"
            "static void *body(void *argument) { return argument; }\n"
            "int main(void) {\n    int ends[2], status;\n    void *result = NULL;\n    pthread_t thread;\n"
            "    struct sigaction action = {.sa_handler = on_signal};\n"
            "    if (sigaction(SIGUSR1, &action, NULL) || signal(SIGUSR2, on_signal) == SIG_ERR) return 10;\n"
            "    raise(SIGUSR1);\n    raise(SIGUSR2);\n    if (signals != 2) return 11;\n"
            "    if (pthread_create(&thread, NULL, body, &thread) || pthread_join(thread, &result) || result != &thread) return 12;\n"
            "    if (pipe(ends) || close(ends[0]) || close(ends[0]) != -1) return 13;\n"
            "    pid_t child = fork();\n    if (child == 0) { execl(\"/bin/true\", \"true\", (char *)NULL); _exit(1); }\n"
            "    if (waitpid(child, &status, 0) != child || status) return 14;\n"
            "    if (setuid(getuid()) || system(\"exit 0\")) return 15;\n    puts(\"ran\");\n    return 3;\n}\n")
    path = compile_c("preloaded", compiler="musl-gcc", text=text)
    library = os.path.join(stack.PREFIX, "lib/libsonde.so")
    done = subprocess.run([path], env={**os.environ, "LD_PRELOAD": library}, capture_output=True, text=True, timeout=60, check=False)
    check.equal((done.returncode, done.stdout, done.stderr), (3, "ran\n", ""))


def test_h16_a_musl_child_of_a_server_runs_unchanged():
    path = compile_c("musl", compiler="musl-gcc")
    check.equal(run("sh", "-c", f"{path}; echo $?"), (0, "ran\n3\n", ""))


def test_h12_static_and_set_id_children_run_unchanged():
    path = compile_c("static", "-static")
    check.equal(run("sh", "-c", f"{path}; echo $?"), (0, "ran\n3\n", ""))
    if os.geteuid() != 0:
        raise check.Skip("only root can make a program of another user")
    path = compile_c("setid")
    os.chmod(stack.WORK, 0o755)
    os.chown(path, 65534, 65534)
    os.chmod(path, 0o4755)
    check.equal(run("sh", "-c", f"{path}; echo $?")[:2], (0, "ran\n3\n"))
    check.contains(run(path)[2], "set-id")


def test_a_glibc_child_of_a_server_loads_the_guest():
    status, out, err = run("sh", "-c", "cat /proc/self/maps; echo $LD_PRELOAD")
    check.equal((status, err), (0, ""))
    check.contains(out, f"{stack.PREFIX}/lib/libsonde.so")
    check.contains(out, f"{stack.PREFIX}/$LIB/libsonde.so")


check.main(globals())
