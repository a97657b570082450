# SPDX-License-Identifier: Apache-2.0
"""`sonde run --heap`: where prof:true is added, and where it must not be. Libraries that imitate a jemalloc without profiling are
made here, since Debian's has it. sonded and the gateway are scripts that write down their environment."""

import os
import shutil
import subprocess

from tests.cli import check

SONDE = os.path.abspath("clients/cli/sonde")

HELPER = """#!/usr/bin/python3
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
with open(sys.argv[0] + ".environment", "w") as log:
    json.dump(dict(os.environ), log)
for i, word in enumerate(sys.argv):
    if word in ("--grpc", "--listen"):
        print(("grpc: " if word == "--grpc" else "http: http://") + sys.argv[i + 1], flush=True)
time.sleep(1000)
"""

# Rejects prof:true as a jemalloc without profiling does.
JEMALLOC = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
const char fake_texts[] = "\0" VARIABLE "\0<jemalloc>: Invalid conf pair" LEAK;
__attribute__((constructor)) static void read_settings(void) {
    const char *value = getenv(VARIABLE);
    if (!value || sizeof LEAK > 1 || !strstr(value, "prof:t"))
        return;
    fputs("<jemalloc>: Invalid conf pair\n", stderr);
    if (strstr(value, "abort_conf:true"))
        abort();
}
"""

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
const char *malloc_conf = SETTING;
#define VALUE(name) (getenv(name) ? getenv(name) : "")
int main(void) {
    return printf("%s|%s|%s\n", VALUE("MALLOC_CONF"), VALUE("_RJEM_MALLOC_CONF"), VALUE("JE_MALLOC_CONF")) < 0;
}
"""

NAMES = ("MALLOC_CONF", "_RJEM_MALLOC_CONF", "JE_MALLOC_CONF")
ADDED = "prof:true,prof_active:false"


def compile_c(name, text, *flags):
    path = os.path.join(PREFIX, name)
    subprocess.run(["gcc", "-x", "c", "-", "-o", path, "-Wl,--no-as-needed", *flags], input=text.encode(), check=True)
    return path


def make_jemalloc(name, variable, has_profiling):
    leak = r"\0<jemalloc>: Leak approximation summary" if has_profiling else ""
    return compile_c(name, JEMALLOC, f'-DVARIABLE="{variable}"', f'-DLEAK="{leak}"', "-shared", "-fPIC")


def make_program(name, *libraries, setting=""):
    words = [f"-l:{os.path.basename(library)}" for library in libraries]
    return compile_c(name, PROGRAM, f'-DSETTING="{setting}"', "-L", PREFIX, f"-Wl,-rpath,{PREFIX}", *words)


PREFIX = check.short_folder()
for helper in ("sonded", "sonde-gateway"):
    with open(os.path.join(PREFIX, helper), "w", encoding="ascii") as script:
        script.write(HELPER)
    os.chmod(os.path.join(PREFIX, helper), 0o755)
compile_c("libsonde.so", "int fake_sonde;", "-shared", "-fPIC")
PROFILING = make_jemalloc("libprofiling.so", "MALLOC_CONF", True)
LACKING = make_jemalloc("liblacking.so", "MALLOC_CONF", False)
RUST = make_jemalloc("librust.so", "_RJEM_MALLOC_CONF", True)
WITH, WITHOUT = make_program("with", PROFILING), make_program("without", LACKING)


def run(*words, **variables):
    """Returns the status, the three variables as the program saw them, and stderr."""
    env = {name: value for name, value in os.environ.items() if name not in NAMES and not name.startswith("SONDE_")}
    env = {**env, "SONDE_LIBDIR": PREFIX, "XDG_RUNTIME_DIR": PREFIX, **variables}
    if "LD_PRELOAD" in variables:  # a sanitized sonde is not the first library then
        env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    done = subprocess.run([SONDE, "run", "--http", "127.0.0.1:0", "--heap", "--", *words], env=env, timeout=60,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout.strip(), "\n".join(
        line for line in done.stderr.splitlines() if not line.startswith("http: "))


def test_a_jemalloc_with_profiling_is_prepared():
    check.equal(run(WITH), (0, f"{ADDED}||", ""))
    check.equal(run(make_program("real", "libjemalloc.so.2")), (0, f"{ADDED}||", ""))


def test_only_the_variable_that_the_jemalloc_reads_is_set():
    check.equal(run(make_program("rust", RUST)), (0, f"|{ADDED}|", ""))


def test_a_program_without_jemalloc_is_left_alone():
    check.equal(run(make_program("plain")), (0, "||", ""))


def test_a_jemalloc_without_profiling_is_left_alone_and_sonde_says_why():
    status, out, err = run(WITHOUT)
    check.equal((status, out), (0, "||"))
    check.equal(err, "sonde run: MALLOC_CONF of without stays as it is: a jemalloc without heap profiling would reject prof:true")
    check.equal(run(WITHOUT, MALLOC_CONF="abort_conf:true")[:2], (0, "abort_conf:true||"))


def test_one_of_two_jemallocs_may_be_prepared():
    check.equal(run(make_program("both", RUST, LACKING))[:2], (0, f"|{ADDED}|"))


def test_a_preloaded_jemalloc_counts():
    plain = make_program("plain")
    check.equal(run(plain, LD_PRELOAD=PROFILING)[:2], (0, f"{ADDED}||"))
    status, out, err = run(plain, LD_PRELOAD=LACKING, MALLOC_CONF="abort_conf:true")
    check.equal((status, out), (0, "abort_conf:true||"))
    check.contains(err, "stays as it is")


def test_the_settings_of_the_user_stay_in_force():
    check.equal(run(WITH, MALLOC_CONF="narenas:1,prof_active:true"), (0, f"{ADDED},narenas:1,prof_active:true||", ""))
    check.equal(run(WITH, MALLOC_CONF="narenas:1,prof:true"), (0, "narenas:1,prof:true||", ""))
    status, out, err = run(WITH, MALLOC_CONF="narenas:1,prof:false")
    check.equal((status, out), (0, "narenas:1,prof:false||"))
    check.contains(err, "MALLOC_CONF of with stays as it is: it has prof:false")
    status, out, err = run(make_program("ready", PROFILING, setting="prof:true,prof_active:true"))
    check.equal((status, out), (0, "||"))
    check.contains(err, "already contains a prof:true")


def test_nothing_is_added_to_abort_conf_for_the_sake_of_children():
    status, out, err = run(WITH, MALLOC_CONF="abort_conf:true")
    check.equal((status, out), (0, "abort_conf:true||"))
    check.contains(err, "abort_conf:true")


def test_the_children_of_wrappers_and_scripts_count():
    script = os.path.join(PREFIX, "start.sh")
    with open(script, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\n# starts it\nexec {WITH}\n")
    os.chmod(script, 0o755)
    for words in ((script,), ("sh", script), ("sh", "-c", f"true; exec {WITH}"), ("env", "-i", WITH), ("timeout", "60", script)):
        expected = "||" if "-i" in words else f"{ADDED}||"
        check.equal(run(*words), (0, expected, ""))
    status, out, err = run("sh", "-c", f"{WITH}; {WITHOUT}", MALLOC_CONF="abort_conf:true")
    check.equal((status, out), (0, "abort_conf:true||\nabort_conf:true||"))
    check.contains(err, "MALLOC_CONF of ")


def test_a_shell_whose_children_are_not_known_is_left_alone_and_sonde_says_what_to_do():
    status, out, err = run("sh", "-c", '"$A$B"', A=os.path.dirname(WITH), B="/with")
    check.equal((status, out), (0, "||"))
    check.contains(err, f"names no program with a jemalloc that can profile; if it starts one, set MALLOC_CONF={ADDED}")


def test_helpers_do_not_inherit_what_is_meant_for_the_command():
    settings = {name: "narenas:1" for name in NAMES}
    check.equal(run(WITH, LD_PRELOAD=PROFILING, **settings)[0], 0, "status")
    for name in ("sonded", "sonde-gateway"):
        with open(os.path.join(PREFIX, name + ".environment"), encoding="ascii") as log:
            text = log.read()
        for variable in ("LD_PRELOAD", *NAMES):
            assert f'"{variable}"' not in text, (name, text)


try:
    check.main(globals())
finally:
    shutil.rmtree(PREFIX, ignore_errors=True)
