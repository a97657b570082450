# SPDX-License-Identifier: Apache-2.0
"""`sonde annotate` with programs whose samples the test chooses: it writes files of perf with pcs of instructions that it has looked up."""

import collections
import http.server
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.parse

from tests.cli import check, perf_files as made
from tests.cli.annotate_programs import (FOLDER, LINES, PLANTED, annotate, at_line, build, build_id, instructions, near, planted, record, run, sonde,
                                         write, write_profile)


def test_a_line_with_70_percent_has_them():
    pcs = planted()
    found = annotate("busy", "perf.data")
    near(found["self"], 0.9, "self of busy")
    near(found["total"], 1.0, "total of busy")
    hot = [line for line in found["lines"] if line["line"] == LINES["HOT"] and line["parent"] == -1]
    near(hot[0]["self"], 0.7, "self of the line")
    check.contains(hot[0]["text"], "x / 3 * 7 + 11")
    values = {int(one["address"], 16): one for one in found["instructions"]}
    check.equal(sum(one["value"] for one in values.values()), 90 * 1000, "time of all instructions")
    check.equal(values[pcs["hot"]]["value"], 70 * 1000, "time of the instruction")
    near(values[pcs["call"]]["self"], 0, "self of the call")
    near(values[pcs["call"]]["total"], 0.1, "total of the call")


def test_inlined_calls_are_nested():
    planted()
    found = annotate("busy", "perf.data")
    inlined = [line for line in found["lines"] if line["function"] == "mix" and line["line"] == LINES["MIX"]]
    near(sum(line["self"] for line in inlined), 0.2, "self of the inlined line")
    call = found["lines"][inlined[0]["parent"]]
    check.equal((call["function"], call["line"]), ("busy", LINES["CALL"]), "place of the call")
    near(call["self"], 0, "self of the call")
    near(call["total"], 0.2, "total of the call")
    text = sonde("annotate", "busy", "perf.data").stdout
    check.contains(text, "inlined: mix (planted.c)")
    assert re.search(rf"^ +20\.00% +20\.00% +{LINES['MIX']}  +\|", text, re.M), text


def test_a_function_that_is_only_inlined_shows_its_container():
    planted()
    done = sonde("annotate", "mix", "perf.data")
    check.contains(done.stdout, "busy in ")
    check.contains(done.stderr, "mix is only inlined")


def test_instructions_are_those_of_objdump():
    planted()
    found = {int(one["address"], 16) for one in annotate("busy", "perf.data")["instructions"]}
    # objdump's last lines may be padding, which belongs to no function.
    assert found and found <= set(instructions("planted", "busy")), found
    check.equal(found, {address for address in instructions("planted", "busy") if address <= max(found)}, "addresses")


def test_jumps_have_arrows_and_calls_names():
    planted()
    text = sonde("annotate", "busy", "perf.data", "--asm", "--all-lines").stdout
    check.contains(text, "\u250c")
    check.contains(text, "; loop")
    check.contains(text, "<other>")
    call = min(instructions("planted", "main")) + 5  # returns behind it
    check.contains(sonde("annotate", "main", record({(at_line("planted", "busy", "HOT"), call): 1}, to="one.data")).stdout, "<busy>")


def test_code_without_samples_is_left_out():
    planted()
    text, all_lines = (sonde("annotate", "busy", "perf.data", *words).stdout for words in ((), ("--all-lines",)))
    check.contains(all_lines, "sink = x;")
    assert len(all_lines) > len(text), "--all-lines shows no more"


def test_five_functions_of_one_name_are_a_choice():
    for number in range(5):
        write(f"five{number}.c", f"extern volatile unsigned long sink;\nstatic __attribute__((noinline)) void work(void) {{ sink += {number}; }}\n"
                                 f"void start{number}(void) {{ work(); work(); }}\n")
    calls = "".join(f"void start{number}(void);\n" for number in range(5)) + "volatile unsigned long sink;\nint main(void) {"
    write("five.c", calls + "".join(f"start{number}();" for number in range(5)) + "}\n")
    build("five", "five.c", *(f"five{number}.c" for number in range(5)))
    starts = [int(line.split()[0], 16) for line in run("nm", "five").splitlines() if line.endswith(" t work")]
    check.equal(len(starts), 5, "functions")
    record({(start,): 10 * (number + 1) for number, start in enumerate(starts)}, "five", "five.data")
    refused = sonde("annotate", "work", "five.data", status=2)
    check.equal(re.findall(r"work@(0x\w+)  five\d\.c:2", refused.stderr), [hex(start) for start in starts], "the choice")
    check.contains(refused.stderr, "five has 5 functions called \"work\"")
    found = annotate(f"work@{hex(starts[2])}", "five.data")
    near(found["self"], 30 / 150, "self of the third")
    assert found["lines"][0]["file"].endswith(".c"), found


def test_an_unknown_function_is_refused_with_the_nearest_name():
    planted()
    check.contains(sonde("annotate", "bussy", "perf.data", status=1).stderr, "did you mean \"busy\"?")
    check.contains(sonde("annotate", "nothing_like_it", "perf.data", status=1).stderr, "`sonde top` lists the functions")
    check.contains(sonde("annotate", "", "perf.data", status=2).stderr, "a function is needed")
    check.contains(sonde("annotate", "busy@0x12", "perf.data", status=1).stderr, "no function starts at 0x12")


def test_names_in_two_files_are_a_choice():
    planted()
    shutil.copy(f"{FOLDER}/planted", f"{FOLDER}/second")
    hot = at_line("planted", "busy", "HOT")
    records = [made.mmap(1, path=f"{FOLDER}/planted", build_id=build_id("planted")),
               made.mmap(1, pid=8, path=f"{FOLDER}/second", build_id=build_id("planted")), made.sample(2, (hot,)), made.sample(2, (hot,), pid=8)]
    with open(f"{FOLDER}/two.data", "wb") as file:
        file.write(made.file(records))
    refused = sonde("annotate", "busy", "two.data", status=2).stderr
    check.contains(refused, "busy@planted")
    check.contains(refused, "busy@second")
    near(annotate("busy@second", "two.data")["self"], 0.5, "self in the second file")


def test_a_stripped_program_has_assembly_alone():
    pcs = planted()
    run("strip", "planted", "-o", "stripped")
    record({(pcs["hot"],): 5}, "stripped", "stripped.data")
    name = re.search(r"\S*stripped\]?\+0x\w+", sonde("top", "stripped.data").stdout)[0]
    done = sonde("annotate", name, "stripped.data")
    assert re.search(rf"^ 100\.00% +100\.00% +{pcs['hot']:x}: ", done.stdout, re.M), done.stdout
    check.contains(done.stderr, "no inlined calls and lines")


def test_a_program_that_was_stripped_since_has_the_lines_of_the_profile():
    pcs = planted()
    shutil.copy(f"{FOLDER}/planted", f"{FOLDER}/since")
    sonde("draw", record({(pcs["hot"],): 5}, "since", "since.data"), "-o", "since.pb.gz")
    run("strip", "--strip-debug", "since")
    shutil.rmtree(f"{FOLDER}/data", ignore_errors=True)
    done = sonde("annotate", "busy", "since.pb.gz")
    assert re.search(rf"^ 100\.00% +100\.00% +{LINES['HOT']} ", done.stdout, re.M), done.stdout
    check.contains(sonde("annotate", "busy", "since.pb.gz", "--asm").stdout, f"{pcs['hot']:x}: ")


def test_a_program_that_is_gone_has_the_lines_of_the_profile():
    pcs = planted()
    shutil.copy(f"{FOLDER}/planted", f"{FOLDER}/gone")
    record({(pcs["hot"],): 5}, "gone", "gone.data")
    sonde("draw", "gone.data", "-o", "gone.pb.gz")
    os.remove(f"{FOLDER}/gone")
    for _ in range(2):  # with the tables that `sonde draw` has kept, and without them
        done = sonde("annotate", "busy", "gone.pb.gz")
        check.contains(done.stderr, "gone does not exist here")
        assert "newer" not in done.stderr, done.stderr
        assert re.search(rf"^ 100\.00% +100\.00% +{LINES['HOT']} ", done.stdout, re.M), done.stdout
        shutil.rmtree(f"{FOLDER}/data", ignore_errors=True)


def test_a_program_that_was_cut_has_the_lines_of_the_profile():
    pcs = planted()
    shutil.copy(f"{FOLDER}/planted", f"{FOLDER}/cut")
    sonde("draw", record({(pcs["hot"],): 5}, "cut", "cut.data"), "-o", "cut.pb.gz")
    os.truncate(f"{FOLDER}/cut", 1000)
    done = sonde("annotate", "busy", "cut.pb.gz")
    check.contains(done.stderr, "cut has no function at the sampled addresses")
    assert re.search(rf"^ 100\.00% +100\.00% +{LINES['HOT']} ", done.stdout, re.M), done.stdout


def test_a_program_that_was_rebuilt_is_said_to_be():
    pcs = planted()
    shutil.copy(f"{FOLDER}/planted", f"{FOLDER}/rebuilt")
    record({(pcs["hot"],): 5}, "rebuilt", "rebuilt.data")
    sonde("draw", "rebuilt.data", "-o", "rebuilt.pb.gz")
    build("rebuilt", "planted.c", options=("-O1", "-g"))
    for _ in range(2):
        told = sonde("annotate", "busy", "rebuilt.pb.gz").stderr
        check.contains(told, "rebuilt was rebuilt since")
        check.contains(told, "or put the old one there\n")
        shutil.rmtree(f"{FOLDER}/data", ignore_errors=True)


def test_a_source_that_is_newer_or_missing_is_said_to_be():
    planted()
    new = time.time() + 1000
    os.utime(f"{FOLDER}/planted.c", (new, new))
    check.contains(sonde("annotate", "busy", "perf.data").stderr, "newer than the binary")
    os.makedirs(f"{FOLDER}/moved/src", exist_ok=True)
    shutil.move(f"{FOLDER}/planted.c", f"{FOLDER}/moved/src/planted.c")
    try:
        done = sonde("annotate", "busy", "perf.data")
        check.contains(done.stderr, "source not found")
        check.contains(done.stdout, f"planted.c:{LINES['HOT']}")
        check.contains(sonde("annotate", "busy", "perf.data", "--source-path", "moved:moved/src").stdout, "x / 3 * 7 + 11")
    finally:
        shutil.move(f"{FOLDER}/moved/src/planted.c", f"{FOLDER}/planted.c")


def test_a_source_comes_from_a_debuginfod_server():
    planted()
    if not shutil.which("debuginfod-find"):
        raise check.Skip("debuginfod is not installed")
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(urllib.parse.unquote(self.path))
            body = PLANTED.replace("sink = x;", "sink = x; // from the server").encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        os.rename(f"{FOLDER}/planted.c", f"{FOLDER}/away.c")
        os.environ.update(DEBUGINFOD_URLS=f"http://127.0.0.1:{server.server_address[1]}", DEBUGINFOD_CACHE_PATH=f"{FOLDER}/sources")
        try:
            check.contains(sonde("annotate", "busy", "perf.data", "--all-lines").stdout, "from the server")
        finally:
            os.rename(f"{FOLDER}/away.c", f"{FOLDER}/planted.c")
            del os.environ["DEBUGINFOD_URLS"]
            server.shutdown()
    check.equal(asked, [f"/buildid/{build_id('planted').hex()}/source/{FOLDER}/planted.c".replace("//", "/")], "requests")


def test_servers_that_do_not_answer_are_asked_once():
    write("silent.h", "static inline __attribute__((always_inline)) unsigned long silent(unsigned long x) { return x * x + 3; }\n")
    write("silent.c", '#include "silent.h"\nvolatile unsigned long sink;\nint main(void) { sink = silent(sink);\nsink++;\nreturn 0; }\n')
    build("silent", "silent.c")
    record({(pc,): 1 for pc in instructions("silent", "main")}, "silent", "silent.data")
    os.makedirs(f"{FOLDER}/bin", exist_ok=True)
    write("bin/debuginfod-find", f"#!/bin/sh\necho asked >> {FOLDER}/asked\nsleep 5.1\nexit 1\n")
    os.chmod(f"{FOLDER}/bin/debuginfod-find", 0o755)
    for name in ("silent.c", "silent.h"):
        os.remove(f"{FOLDER}/{name}")
    before = os.environ["PATH"]
    os.environ.update(PATH=f"{FOLDER}/bin:{before}", DEBUGINFOD_URLS="http://127.0.0.1:9")
    try:
        done = sonde("annotate", "main", "silent.data")
    finally:
        os.environ["PATH"] = before
        del os.environ["DEBUGINFOD_URLS"]
    check.contains(done.stderr, "the debuginfod servers do not answer")
    for name in ("silent.c", "silent.h"):
        assert re.search(rf"source not found .*{name}", done.stderr), done.stderr
    with open(f"{FOLDER}/asked", encoding="utf-8") as file:
        check.equal(file.read(), "asked\n", "requests")


def test_names_of_cpp_are_found_as_they_are_shown():
    write("shop.cc", "#include <string>\nvolatile unsigned long sink;\nnamespace shop {\n"
                     "__attribute__((noinline)) void price(const std::string& text) { sink += text.size(); }\n"
                     "__attribute__((noinline)) void price_all(int count) { sink += count; }\n}\n"
                     "int main() { shop::price(\"a\"); shop::price_all(3); }\n")
    run("g++", "-O2", "-g", "-no-pie", "-Wl,-z,noseparate-code", "-Wl,--build-id", "shop.cc", "-o", "shop")
    starts = {line.split()[2]: int(line.split()[0], 16) for line in run("nm", "shop").splitlines() if "4shop" in line and " T " in line}
    record({(start,): 1 for start in starts.values()}, "shop", "shop.data")
    assert "shop::price(...)" in sonde("top", "shop.data").stdout, "the name that `sonde top` shows"
    for name in ("shop::price", "shop::price(...)", "shop::price(std::string const&)", "*p::price(...)"):
        near(annotate(name, "shop.data")["self"], 0.5, name)
    check.contains(sonde("annotate", "shop::prise", "shop.data", status=1).stderr, 'did you mean "shop::price"?')
    check.contains(sonde("annotate", "rice", "shop.data", status=1).stderr, "some contain it: ")


def test_options_that_contradict_each_other_are_refused():
    planted()
    for words, reason in ((("perf.data", "--from", "-1h"), "name a service, not a file"), (("perf.data", "--selector", "a = 'b'"), "not a file"),
                          (("shop", "--base", "perf.data", "--base-from", "-1h"), "both name a base"),
                          (("shop", "--from", "-1h", "--mode", "wall"), "--mode is for captures")):
        check.contains(sonde("annotate", "busy", *words, status=2).stderr, reason)


def test_a_base_with_another_path_or_without_the_function():
    pcs = planted()
    shutil.copy(f"{FOLDER}/planted", f"{FOLDER}/moved_to")
    record({(pcs["hot"],): 1, (pcs["other"],): 3}, "moved_to", "moved.data")
    found = {int(one["address"], 16): one for one in annotate("busy@planted", "perf.data", "--base", "moved.data")["instructions"]}
    near(found[pcs["hot"]]["baseSelf"], 0.25, "base of the instruction")
    record({(pcs["other"],): 3}, to="without.data")
    check.contains(sonde("annotate", "busy", "perf.data", "--base", "without.data").stderr, "the function is not in the base")


def test_the_text_of_65_source_files_is_too_much():
    for files, is_noted in ((63, False), (64, True)):  # and files.c
        write("files.c", "volatile unsigned long sink;\nint main(void) {\n" +
              "".join(f'#line 1 "{FOLDER}/one{number}.h"\nsink++;\n' for number in range(files)) + f'#line 1 "{FOLDER}/one0.h"\nreturn 0;\n}}\n')
        build("files", "files.c", options=("-O0", "-g"))
        code = sorted(instructions("files", "main"))
        found = sonde("annotate", "main", record({(pc,): 1 for pc in code}, "files", "files.data"))
        assert ("lines of more than 64 source files have no text" in found.stderr) == is_noted, found.stderr


def test_two_profiles_are_compared_line_by_line():
    pcs = planted()
    record({(pcs["hot"],): 40, (pcs["mix"],): 60}, to="base.data")
    found = annotate("busy", "perf.data", "--base", "base.data")
    hot = next(line for line in found["lines"] if line["line"] == LINES["HOT"] and line["parent"] == -1)
    near(hot["self"], 0.7, "now")
    near(hot["baseSelf"], 0.4, "base")
    value = next(one for one in found["instructions"] if int(one["address"], 16) == pcs["mix"])
    near(value["baseSelf"] - value["self"], 0.4, "change of the instruction")
    check.contains(sonde("annotate", "busy", "perf.data", "--base", "base.data").stdout, "+30.00%")


def test_a_base_of_another_build_is_compared_by_lines():
    pcs = planted()
    build("older", "planted.c", options=("-O2", "-g", "-fno-unroll-loops", "-falign-functions=64"))
    hot = at_line("older", "busy", "HOT")
    record({(hot,): 1, (min(instructions("older", "main")),): 3}, "older", "older.data")
    record({(pcs["hot"],): 1}, to="newer.data")
    found = annotate("busy", "newer.data", "--base", "older.data")
    line = next(line for line in found["lines"] if line["line"] == LINES["HOT"] and line["parent"] == -1 and line["total"] > 0)
    near(line["baseSelf"], 0.25, "base")


def test_addresses_of_a_mapping_without_a_range_are_offsets_in_the_file():
    """As in profiles of the history. The program is linked at 0x400000."""
    pcs = planted()
    write_profile("history.pb", f"{FOLDER}/planted", build_id("planted").hex(), {pcs["hot"] - made.TEXT: 30, pcs["mix"] - made.TEXT: 70})
    found = {int(one["address"], 16): one["self"] for one in annotate("busy", "history.pb")["instructions"]}
    near(found[pcs["hot"]], 0.3, "self of one instruction")
    near(found[pcs["mix"]], 0.7, "self of another")


def test_code_without_a_file_is_refused():
    check.contains(sonde("annotate", "busy", write_profile("none.pb", "", "", {16: 1}), status=1).stderr, "this code has no file")
    for path in ("//anon", "[kernel.kallsyms]"):
        check.contains(sonde("annotate", "busy", write_profile("none.pb", path, "", {16: 1}), status=1).stderr, f"{path} has no file with its code")
    check.contains(sonde("annotate", "busy", write_profile("none.pb", "/nowhere/at/all", "abcd", {16: 1}), status=1).stderr, "does not exist here")


def test_samples_at_too_many_addresses_are_refused():
    write_profile("many.pb", "/bin/sh", "", {offset: 1 for offset in range(1, 65538)})
    check.contains(sonde("annotate", "busy", "many.pb", status=2).stderr, "samples at more than 65536 addresses")


def test_a_function_goes_on_behind_one_that_is_nested_in_it():
    write("nested.s", ".globl main\n.type main,@function\nmain:\nnop\nnop\n.type inner,@function\ninner:\n.skip 4,0x90\n.size inner,.-inner\n"
                      "nop\nnop\nret\n.size main,.-main\n")
    build("nested", "nested.s", options=())
    start = next(int(line.split()[0], 16) for line in run("nm", "nested").splitlines() if line.endswith(" T main"))
    for pcs in ((start, start + 7), (start + 7, start)):
        found = annotate("main", record({(pc,): 1 for pc in pcs}, "nested", "nested.data"))["instructions"]
        check.equal([int(one["address"], 16) for one in found], list(range(start, start + 9)), "addresses")
        check.equal([int(one["address"], 16) for one in found if one["self"] > 0], [start, start + 7], "sampled addresses")


def test_a_function_over_16_megabytes_is_refused():
    write("larger.s", ".globl busy\n.type busy,@function\nbusy:\n.skip 17000000,0x90\nret\n.size busy,.-busy\n.globl main\nmain: ret\n")
    build("larger", "larger.s", options=())
    start = next(int(line.split()[0], 16) for line in run("nm", "larger").splitlines() if line.endswith(" T busy"))
    done = sonde("annotate", "busy", write_profile("larger.pb", f"{FOLDER}/larger", build_id("larger").hex(), {start - made.TEXT: 1}))
    check.contains(done.stderr, "the function has 17000001 bytes of code: at most 16777216")
    os.remove(f"{FOLDER}/larger")


def test_a_function_of_ten_megabytes_shows_what_is_around_its_samples():
    write("huge.s", ".globl main\n.type main,@function\nmain:\n.fill 1310720,8,0x841f0f\nxor %eax,%eax\nret\n.size main,.-main\n")
    build("huge", "huge.s", options=())
    start = next(int(line.split()[0], 16) for line in run("nm", "huge").splitlines() if line.endswith(" T main"))
    # The mapping that perf_files writes is too small for it.
    records = [made.mmap(1, path=f"{FOLDER}/huge", build_id=build_id("huge"), size=0x2000000),
               made.sample(2, (start,)), made.sample(2, (start + 8 * 1000000,))]
    with open(f"{FOLDER}/huge.data", "wb") as file:
        file.write(made.file(records))
    found = annotate("main", "huge.data")["instructions"]
    assert 20 < len(found) < 200, len(found)
    check.equal([int(one["address"], 16) for one in found if one["self"] > 0], [start, start + 8 * 1000000], "sampled addresses")


def test_counts_per_address_are_those_of_perf_annotate():
    planted()
    if not shutil.which("perf"):
        raise check.Skip("linux-perf is not installed")
    loop = PLANTED.replace("int main(void) { busy(); return 0; }", "int main(void) { for (int i = 0; i < 20000; i++) busy(); return 0; }")
    write("loop.c", loop)
    build("loop", "loop.c")
    done = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock:u", "-F", "999", "-o", "loop.data", "./loop"], cwd=FOLDER, capture_output=True,
                          text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise check.Skip(f"perf record failed: {done.stderr.strip()[-80:]}")
    script = run("perf", "script", "-i", "loop.data", "-F", "ip,period")
    expected = collections.Counter()
    for line in script.splitlines():
        period, pc = line.split()[:2]
        expected[int(pc, 16)] += int(period)
    code = instructions("loop", "busy")
    expected = {pc: amount for pc, amount in expected.items() if pc in code}
    assert expected, script
    found = annotate("busy", "loop.data")["instructions"]
    check.equal({int(one["address"], 16): one["value"] for one in found if one["value"]}, expected, "time by address")
    # perf annotate prints the same, as shares of the function.
    text = run("perf", "annotate", "--stdio", "-i", "loop.data", "-s", "busy", "-l")
    perf = {int(line[2], 16): float(line[1]) for line in re.finditer(r"^ +(\d+\.\d+) .*?: +([0-9a-f]+):", text, re.M) if float(line[1]) > 0}
    assert sum(perf.values()) > 99, text
    for pc, share in perf.items():
        assert abs(share - 100 * expected.get(pc, 0) / sum(expected.values())) < 0.02, (hex(pc), share)


try:
    check.main(globals())
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
