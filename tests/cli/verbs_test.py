# SPDX-License-Identifier: Apache-2.0
"""Every verb of `sonde` without a service: help, exit status, completions, and files."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios

from tests.cli import check

SONDE = os.path.abspath("clients/cli/sonde")
FOLDER = check.short_folder()
VERBS = ("run", "record", "top", "draw", "diff", "gate", "live", "heap", "growth", "leaks", "threads", "locks", "captures", "history", "fleet",
         "annotate", "symbol", "targets", "events", "doctor", "mcp")


def sonde(*words, **env):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SONDE_")}
    clean.update(XDG_RUNTIME_DIR=FOLDER, SONDE_SERVICE=f"unix:{FOLDER}/nobody.sock", **env)
    done = subprocess.run([SONDE, *words], env=clean, capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL, cwd=FOLDER)
    return done.returncode, done.stdout, done.stderr


def test_help_fits_a_screen_and_ends_with_four_examples():
    for words in ((), *((verb,) for verb in VERBS)):
        status, out, err = sonde(*words, "--help")
        check.equal((status, err), (0, ""))
        lines = out.splitlines()
        assert len(lines) <= 36 and max(map(len, lines)) <= 100, f"{words}: {len(lines)} lines"
        examples = lines[lines.index("examples:") + 1:]
        check.equal(len(examples), 4, f"examples of {words}")
        assert all(line.startswith("  sonde ") for line in examples), examples


def test_the_default_has_no_line_in_the_help_and_no_completion():
    for out in (sonde("record", "--help")[1], sonde("completions", "--words", "--", "record", "--")[1]):
        check.contains(out, "split-threads")
        assert "merge-threads" not in out, out


def test_each_action_of_heap_has_its_own_help():
    for action, has, lacks in (("on", "--interval", "--output"), ("off", "--delete-dumps", "--interval"), ("reset", "--sample", "--output"),
                               ("dump", "--older-than", "--duration"), ("list", "--ended", "--format"), ("diff", "--growth-only", "--name "),
                               ("allocs", "--probability", "--growth-only"), ("status", "--json", "--type")):
        status, out, err = sonde("heap", action, "--help")
        check.equal((status, err, out.splitlines()[0].startswith(f"usage: sonde heap {action} ")), (0, "", True))
        assert has in out and lacks not in out and "--service ADDR" in out and "examples:" in out, out
        assert len(out.splitlines()) <= 28 and max(map(len, out.splitlines())) <= 100, out


def test_help_lists_the_formats():
    for verb in ("record", "draw", "diff"):
        check.contains(sonde(verb, "--help")[1], "flamegraph callgraph proto top md collapsed")


def test_help_names_every_verb():
    out = sonde("--help")[1]
    for verb in VERBS:
        check.contains(out, f"\n  {verb} ")


def test_every_program_prints_the_version_of_the_tree():
    with open("api/version.h", encoding="utf-8") as source:
        version = re.search(r'SONDE_VERSION "(.+)"', source.read())[1]
    check.equal(sonde("--version")[:2], (0, f"sonde {version}\n"))
    check.equal(sonde("record", "--version")[:2], (0, f"{version}\n"))
    for program in ("service/sonded", "service/sonde-history", "service/host/sampler/sonde-sampler", "gateway/sonde-gateway",
                    "clients/collect/sonde-collect"):
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True)
        check.equal((program, done.stdout.splitlines()[0]), (program, version))


def test_usage_errors_exit_with_2_and_print_the_usage():
    for words in ((), ("no-such-verb",), ("record", "--no-such-flag"), ("record", "a", "b"), ("record", "-F", "0"),
                  ("record", "-F", "10001"), ("record", "-d", "3601"), ("record", "-o", "x.unknown"), ("symbol",),
                  ("symbol", "redis", "12"), ("symbol", "0x"), ("symbol", "0xzz"), ("targets", "x"), ("doctor", "x"),
                  ("draw", "x.pb.gz", "-o", "x.unknown"), ("heap",), ("heap", "maybe"), ("heap", "on", "a", "b"),
                  ("heap", "dump", "-o", "x.unknown"), ("heap", "dump", "-o", "x.prof"), ("heap", "on", "-s", "1"),
                  ("heap", "status", "-i", "1"), ("heap", "on", "-o", "x.heap"), ("heap", "list", "--all-one"),
                  ("diff",), ("diff", "1"), ("diff", "1", "redis"), ("diff", "1", "2", "3"), ("diff", "0", "1"),
                  ("diff", "1", "2", "-o", "x.unknown"), ("captures", "redis"), ("captures", "1", "2"),
                  ("run", "--socket", "s", "--history", "--", "true"), ("diff", "--base-from", "-2h", "1", "2"), ("diff", "redis", "--from", "-1h"), ("diff", "--base-from", "x"),
                  ("diff", "--base-from", "-2h", "--normalize"), ("diff", "--base-from", "-2h", "--fail-above", "3"), ("diff", "a.pb", "b.pb", "-n", "x"),
                  ("diff", "a.pb", "b.pb", "--fail-above", "-1"), ("diff", "a.pb", "b.pb", "--json", "--format", "top"), ("diff", "--base-from", "-2h", "-t", "cpu"),
                  ("diff", "--base-from", "-2h", "--base-until", "-3h"), ("history", "a", "b"), ("history", "--from", "1h"),
                  ("history", "--until", "-1"), ("history", "--from", "now"), ("history", "-o", "x.unknown"),
                  ("history", "--list", "redis"), ("history", "--list", "-o", "x.svg"), ("history", "-p", "redis"),
                  ("captures", "1", "-o", "x.unknown"), ("live", "a", "b"), ("live", "--span", "0"), ("live", "-F", "0"),
                  ("top", "a", "b"), ("completions", "csh")):
        status, out, err = sonde(*words)
        check.equal((status, out), (2, ""), f"status and output of {words}")
        assert err, words


def test_a_mistyped_verb_or_option_is_answered_with_the_nearest_one():
    for words, message in (
            (("reccord",), 'sonde: unknown verb "reccord"; did you mean `sonde record`?\n'),
            (("hsitory", "x"), 'sonde: unknown verb "hsitory"; did you mean `sonde history`?\n'),
            (("comp", "bash"), 'sonde: unknown verb "comp"; did you mean `sonde completions`?\n'),
            (("4711",), 'sonde: unknown verb "4711"; run `sonde --help` for a list\n'),
            (("--service", "x"), "sonde: options follow the verb: sonde VERB --service; see `sonde --help`\n")):
        check.equal(sonde(*words), (2, "", message))
    for words, option in ((("record", "--durtion", "3"), "duration"), (("record", "--freq=99"), "frequency"),
                          (("run", "--verbsoe", "--", "true"), "verbose"), (("top", "--hlep"), "help")):
        check.contains(sonde(*words)[2], f"; did you mean --{option}?\nusage: ")
    check.contains(sonde("record", "--zzzzzz")[2], "unknown option --zzzzzz; see --help\n")
    check.contains(sonde("heap", "statsu")[2], 'sonde heap: unknown action "statsu"; did you mean `sonde heap status`?\nusage: ')
    for words in ((), ("zzzzzz",)):
        check.contains(sonde("heap", *words)[2], "sonde heap: action needed: on, off, status, ")


def test_a_wrong_settings_file_is_refused_with_file_line_and_name():
    path = os.path.join(FOLDER, "sonde.conf")
    for text, message in (("[memory]\nenable_heap_profilng = true\n",
                           "2: enable_heap_profilng: unknown setting of [memory]; did you mean enable_heap_profiling?"),
                          ("[sonde]\ntokn = x\n", "2: tokn: unknown setting; did you mean token?"),
                          ("[storage]\n", "1: storage: unknown section; sonded(8) lists them")):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        status, _, err = sonde("targets", SONDE_CONFIG=path)
        check.equal((status, err.splitlines()[0]), (2, f"sonde targets: {path}:{message}"))


def test_help_of_a_verb_is_printed_in_both_ways():
    check.equal(sonde("help", "record"), sonde("record", "--help"))
    check.equal(sonde("help"), sonde("--help"))


def test_an_unreachable_service_exits_with_3_and_says_what_to_do():
    for words in (("record", "-o", "x.svg"), ("top",), ("targets",), ("targets", "--watch"), ("symbol", "0x401f2a"),
                  ("draw", "redis", "-o", "y.svg"), ("live",), ("captures",), ("captures", "1", "-o", "y.svg"), ("diff", "1", "2"),
                  ("history",), ("history", "--list"), ("history", "-o", "y.svg"), ("diff", "--base-from", "-2h", "-o", "y.svg"),
                  ("heap", "on"), ("heap", "off"), ("heap", "status"), ("heap", "list"),
                  ("heap", "reset"), ("heap", "dump", "-o", "y.heap")):
        status, out, err = sonde(*words)
        check.equal((status, out), (3, ""), f"status and output of {words}")
        check.contains(err, "nobody.sock")
        check.contains(err, "sonde run")
    check.equal([name for name in os.listdir(FOLDER) if "svg" in name or name.startswith(".")], [], "files left")


def test_missing_and_invalid_files_exit_with_1():
    broken = os.path.join(FOLDER, "broken.pb.gz")
    with open(broken, "wb") as file:
        file.write(b"\x1f\x8bnothing like it")
    for words in (("top", "./missing.pb.gz"), ("top", broken), ("draw", broken, "-o", "z.svg"), ("diff", broken, broken),
                  ("diff", broken, broken, "-o", "z.svg")):
        status, out, err = sonde(*words)
        check.equal((status, out), (1, ""), f"status and output of {words}")
        check.contains(err, ".pb.gz")
    assert not os.path.exists(os.path.join(FOLDER, "z.svg"))


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def small_profile():
    """A pprof profile with 7 samples of outer -> leaf in the thread "worker"."""
    strings = [b"", b"samples", b"count", b"leaf", b"outer", b"thread", b"worker"]
    body = field(1, field(1, 1) + field(2, 2))
    body += field(2, field(1, b"\x01\x02") + field(2, b"\x07") + field(3, field(1, 5) + field(2, 6)))
    for number, name in ((1, 3), (2, 4)):
        body += field(4, field(1, number) + field(4, field(1, number)))
        body += field(5, field(1, number) + field(2, name))
    return body + b"".join(field(6, text) for text in strings)


def test_top_and_draw_need_no_service_for_files():
    with open(os.path.join(FOLDER, "small.pb"), "wb") as file:
        file.write(small_profile())
    status, out, err = sonde("top", "small.pb")
    check.equal((status, err), (0, ""))
    assert out.index("leaf") < out.index("outer"), out
    for extension, part in ((".svg", "leaf"), (".collapsed", "outer;leaf 7"), (".speedscope.json", "leaf"),
                            (".txt", "leaf"), (".md", "`outer` → `leaf`"), (".firefox.json", "preprocessedProfileVersion"),
                            (".grafana.json", '"label":"leaf"'), (".flamebearer.json", '"numTicks":7'),
                            (".deepflow.json", "node_id"), (".deepflow-columnar.json", "function_types")):
        path = os.path.join(FOLDER, "small" + extension)
        check.equal(sonde("draw", "small.pb", "-o", path)[::2], (0, ""))
        with open(path, encoding="utf-8") as drawn:
            check.contains(drawn.read(), part)
    for words, line in (((), "outer;leaf 7\n"), (("--split-threads",), "worker;outer;leaf 7\n"), (("-m",), "outer;leaf 7\n"),
                        (("--merge-threads", "--split-threads"), "outer;leaf 7\n")):
        check.equal(sonde("draw", "small.pb", "-o", "-", "--format", "collapsed", *words)[1], line)


def profile_of(names):
    """A pprof profile of these functions, each with 1 sample, all called by the last one."""
    strings, count = [b"", b"samples", b"count", *names], len(names)
    body = field(1, field(1, 1) + field(2, 2))
    for number in range(1, count + 1):
        body += field(2, field(1, varint(number) + varint(count)) + field(2, b"\x01"))
        body += field(4, field(1, number) + field(4, field(1, number)))
        body += field(5, field(1, number) + field(2, number + 2))
    return body + b"".join(field(6, text) for text in strings)


def rows_of(out):
    return [line.split()[-1] for line in out[out.index("cum%"):].splitlines()[1:]]


def test_top_prints_some_functions_of_many():
    with open(os.path.join(FOLDER, "many.pb"), "wb") as file:
        file.write(profile_of([b"ns::f%d(%s)" % (number, b"std::string const&, " * 6) for number in range(200)]))
    for words, count in (((), 30), (("-n", "7"), 7), (("-n", "0"), 200), (("--rows", "300"), 200)):
        out = sonde("top", "many.pb", *words)[1]
        check.equal((len(rows_of(out)), "Showing" in out), (count, count < 200), words)
    piped = sonde("top", "many.pb", "-n", "1", "--cum")[1]
    assert piped.endswith("  ns::f199(...)\n"), piped
    full = sonde("top", "many.pb", "-n", "1", "--cum", "--full-names")[1]
    assert "ns::f199(std::string const&, std" in full, full
    check.equal(sonde("top", "many.pb", "-n", "-1")[0], 2)


def test_top_shows_the_callers_of_one_function():
    # Every function is called by the last one, which has a sample of its own.
    status, out, err = sonde("top", "many.pb", "--peek", "ns::f7(*")
    check.equal((status, err), (0, ""))
    check.contains(out, "Function:  ns::f7(...)\ntotal            1    0.5% ±")
    check.contains(out, "Callers, with their share of the function's total:\n         1  100.0% ±39.7  ns::f199(...)\n")
    check.contains(out, "Called functions, with their share of the function's total:\n            none\n")
    out = sonde("top", "many.pb", "--peek", "ns::f199(...)", "-n", "3")[1]
    check.contains(out, "total          200  100.0%")
    check.contains(out, "itself           1    0.5%")
    check.contains(out, "(no caller)\n")
    check.contains(out, "            196 more\n")
    status, out, err = sonde("top", "many.pb", "--peek", "f19")
    check.equal((status, out), (1, ""))
    check.contains(err, 'the profile has no function "f19"; similar: ns::f19(...), ')


def test_names_of_one_function_are_those_that_tables_show():
    names = [b"parse(char*)", b"parse(char, int)", b"reads_all(std::vector<int, std::allocator<int>>)", b"main"]
    with open(os.path.join(FOLDER, "names.pb"), "wb") as file:
        file.write(profile_of(names))
    for function, found in (("parse(char*)", "parse(char*)"), ("reads_all(...)", "reads_all(...)"), ("reads_all", "reads_all(...)"),
                            ("...e(char, int)", "parse(char, int)"), ("parse(char, i…", "parse(char, int)")):
        out = sonde("top", "names.pb", "--peek", function)[1]
        check.contains(out, f"Function:  {found}\ntotal ")
    for function in ("parse(...)", "parse"):
        check.contains(sonde("top", "names.pb", "--peek", function)[1], "     and:  parse(char, int)\ntotal ")
    full = sonde("top", "names.pb", "--peek", "reads_all(...)", "--full-names")[1]
    check.contains(full, "Function:  " + names[2].decode())
    check.contains(full, "main → " + names[2].decode())


def on_terminal(columns, *words):
    """What the verb prints on a terminal of that width."""
    terminal, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    subprocess.run([SONDE, *words], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, check=True, timeout=60, cwd=FOLDER)
    os.close(theirs)
    text = b""
    while b"f199" not in text and select.select([terminal], [], [], 20)[0]:
        text += os.read(terminal, 65536)
    os.close(terminal)
    return text.decode().splitlines()


def test_names_fit_the_terminal():
    words = ("top", "many.pb", "-n", "1", "--cum")
    for columns in (80, 120, 40):
        lines = on_terminal(columns, *words)
        assert max(map(len, lines)) <= max(columns, 67) and any("ns::f199(...)" in line for line in lines), lines
    assert max(map(len, on_terminal(80, *words, "--full-names"))) > 150


def test_a_reader_that_leaves_is_no_error():
    for words in (("top", "many.pb", "-n", "0"), ("draw", "many.pb", "-o", "-", "--format", "collapsed"), ("diff", "many.pb", "many.pb"),
                  ("--help",), ("record", "--help"), ("completions", "bash"), ("doctor",)):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([SONDE, *words], stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60, cwd=FOLDER,
                              env={**os.environ, "XDG_RUNTIME_DIR": FOLDER, "SONDE_SERVICE": f"unix:{FOLDER}/nobody.sock"})
        os.close(writer)
        check.equal((done.returncode if words[0] != "doctor" else 0, done.stderr), (0, b""), words)


def test_a_format_may_be_named_by_its_extension():
    with open(os.path.join(FOLDER, "small.pb"), "wb") as file:
        file.write(small_profile())
    for name, part in (("svg", "<svg"), ("speedscope.json", "speedscope"), ("md", "`outer` → `leaf`")):
        status, out, err = sonde("draw", "small.pb", "-o", "-", "--format", name)
        check.equal((status, err), (0, ""))
        check.contains(out, part)
    check.contains(sonde("draw", "small.pb", "-o", "-", "--format", "svgx")[2], 'unknown format "svgx"; use one of ')


def test_diff_needs_no_service_for_files():
    with open(os.path.join(FOLDER, "small.pb"), "wb") as file:
        file.write(small_profile())
    with open(os.path.join(FOLDER, "grown.pb"), "wb") as file:
        file.write(small_profile().replace(b"\x12\x01\x07", b"\x12\x01\x09"))
    check.contains(sonde("diff", "small.pb", "grown.pb", "-o", "-", "--format", "collapsed")[1], "outer;leaf 2\n")
    check.contains(sonde("diff", "grown.pb", "small.pb", "-o", "-", "--format", "collapsed")[1], "outer;leaf -2\n")
    check.contains(sonde("diff", "small.pb", "grown.pb")[1], "leaf")
    check.equal(sonde("diff", "grown.pb", "small.pb", "-g", "-o", "-", "--format", "collapsed")[1], "[no samples] 0\n")
    check.equal(sonde("diff", "small.pb", "grown.pb", "--normalize", "-o", "-", "--format", "collapsed")[1], "[no samples] 0\n")
    check.equal(sonde("diff", "small.pb", "grown.pb", "-o", "diff.svg")[::2], (0, ""))
    with open(os.path.join(FOLDER, "diff.svg"), encoding="utf-8") as drawn:
        check.contains(drawn.read(), "colours compare shares")


def two_functions(slow, fast):
    """A pprof file in which the functions slow and fast have that many samples."""
    def varint(number):
        return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])

    def message(tag, body):
        return bytes([tag << 3 | 2]) + varint(len(body)) + body
    texts = [b"", b"samples", b"count", b"slow", b"fast"]
    samples = [message(2, message(1, varint(place)) + message(2, varint(count))) for place, count in ((1, slow), (2, fast))]
    places = [message(4, b"\x08" + varint(place) + message(4, b"\x08" + varint(place))) for place in (1, 2)]
    functions = [message(5, b"\x08" + varint(place) + b"\x10" + varint(place + 2)) for place in (1, 2)]
    return message(1, b"\x08\x01\x10\x02") + b"".join(samples + places + functions) + b"".join(message(6, text) for text in texts)


def test_diff_fails_only_if_a_change_certainly_exceeds_the_limit():
    for name, counts in {"base": (1000, 9000), "slower": (1500, 9000), "few": (10, 90), "few_slower": (15, 90)}.items():
        with open(os.path.join(FOLDER, f"{name}.pb"), "wb") as file:
            file.write(two_functions(*counts))
    status, out, err = sonde("diff", "base.pb", "slower.pb", "--fail-above", "3")
    check.equal((status, err), (10, "sonde diff: slow grew by 3.4 to 5.2 % of the total\n"))
    check.contains(out, "# explained by slow: +4.3 % ± 0.9\n")
    check.equal(sonde("diff", "base.pb", "slower.pb", "--fail-above", "4")[::2], (0, ""))
    check.equal(sonde("diff", "slower.pb", "base.pb", "--fail-above", "0")[0], 10)  # fast has a larger share
    status, out, err = sonde("diff", "few.pb", "few_slower.pb", "--fail-above", "0")
    check.equal((status, err), (0, ""))
    check.contains(out, "100 and 105 samples: in a large function, changes below 13 % of the total cannot be seen")
    out = sonde("diff", "base.pb", "slower.pb", "-n", "1")[1]
    check.contains(out, "Showing 1 of 2 functions\n")
    check.equal(out.splitlines()[-2].split()[-1], "name")
    changes = json.loads(sonde("diff", "base.pb", "slower.pb", "--json")[1])
    check.equal([one["name"] for one in changes["causes"]], ["slow"])
    check.equal({one["name"]: one["self"]["share"]["verdict"] for one in changes["functions"]}, {"slow": "more", "fast": "less"})


def test_doctor_reports_what_is_missing_and_suggests_fixes():
    status, out, _ = sonde("doctor", "--json", SONDE_DATA_DIR="/etc/passwd/x")
    findings = json.loads(out)["findings"]
    check.equal(status, 1)
    service = [finding for finding in findings if finding["subject"] == "service"]
    check.equal([finding["state"] for finding in service], ["fix"])
    check.contains(service[0]["mend"], "sonde run")
    data = [finding for finding in findings if finding["subject"] == "data"]
    check.equal(data[0]["state"], "fix")
    check.contains(data[0]["mend"], "/etc/passwd/x")
    assert any(finding["subject"] == "clock" for finding in findings), findings
    for line in sonde("doctor")[1].splitlines():
        assert line.split()[0] in ("ok", "note", "fix") or line.startswith(" " * 15), line


def candidates(*words):
    return [line.split("\t")[0] for line in sonde("completions", "--words", "--", *words)[1].splitlines()]


def test_completions_offer_what_help_lists():
    check.equal(candidates("re"), [*VERBS, "completions", "--help", "--version"])
    for verb in VERBS:
        shown = {word.strip(",") for line in sonde(verb, "--help")[1].splitlines() if line.startswith("  -") or line.startswith("      --")
                 for word in line[:31].split() if word.startswith("--")}
        check.equal(set(candidates(verb, "--")) | {"--version"}, shown, f"flags of {verb}")


def test_completions_offer_the_values_that_the_verbs_take():
    for verb, option, words in (("record", "--mode", "cpu wall off-cpu"), ("top", "--mode", "cpu wall off-cpu"),
                                ("live", "--source", "auto host guest"), ("history", "--event", "on-cpu off-cpu mem-alloc mem-inuse"),
                                ("heap", "--backend", "jemalloc interposed"), ("record", "-o", "@files"), ("run", "--data-dir", "@files"),
                                ("heap", "-t", "inuse_space inuse_objects alloc_space alloc_objects"), ("record", "-F", "")):
        check.equal(candidates(verb, option, ""), words.split(), f"values of {verb} {option}")
    for verb in ("record", "draw", "diff", "heap", "captures", "history"):
        words = candidates(verb, "--format", "")
        refusal = {"diff": ("diff", "a.pb", "b.pb"), "captures": ("captures", "1"), "heap": ("heap", "dump")}.get(verb, (verb, "x.pb"))
        refusal = sonde(*refusal, "--format", "no-such-format", "-o", "x.svg")[2]
        known = refusal.split("use one of", 1)[1].splitlines()[0].split() if "use one of" in refusal else words
        assert set(known) <= set(words), f"{verb}: {set(known) - set(words)} are missing"
        check.contains(" ".join(words), "proto")
    check.equal(candidates("captures", "1", "--format", "top", ""), [])


def test_completions_offer_arguments():
    check.equal(candidates("heap", ""), ["on", "off", "status", "dump", "list", "allocs", "reset", "diff"])
    check.equal(candidates("completions", ""), ["bash", "zsh", "fish"])
    for words in (("run", ""), ("run", "--", ""), ("record", "-d", "1", "--", "")):
        check.equal(candidates(*words), ["@commands"], words)
    check.equal(candidates("diff", ""), ["@files"])
    check.equal(candidates("targets", ""), [])
    check.equal(candidates("no-such-verb", ""), [])
    assert "python3" in " ".join(candidates("record", "")), "the name of this program is offered"


SHELL_LINES = (("sonde re", ["record"]), ("sonde record --freq", ["--frequency"]), ("sonde record --mode w", ["wall"]),
               ("sonde heap sta", ["status"]), ("sonde draw --format firef", ["firefox"]), ("sonde diff small.p", ["small.pb"]))


# What zsh's own functions would do with the words, which they also filter.
ZSH = """_describe() { eval "print -l -- \\${(@)$2%%:*}" }
compadd() { eval "print -l -- \\${(@)$2}" }
_files() { print -l -- * }
words=(${(z)1}); CURRENT=$#words
eval "$(sonde completions zsh | sed '$d')"; _sonde"""


def test_the_shells_complete_lines():
    with open(os.path.join(FOLDER, "small.pb"), "wb") as file:
        file.write(small_profile())
    bash = ('COMP_LINE=$1; COMP_POINT=${#1}; source <(sonde completions bash); _sonde; printf "%s\\n" "${COMPREPLY[@]}"')
    env = {**os.environ, "PATH": os.path.dirname(SONDE) + ":" + os.environ["PATH"], "HOME": FOLDER, "XDG_RUNTIME_DIR": FOLDER}
    commands = [["bash", "-c", bash, "bash"]]
    if shutil.which("fish"):
        commands.append(["fish", "--no-config", "-c", "sonde completions fish | source; complete -C $argv[1]"])
    if shutil.which("zsh"):
        commands.append(["zsh", "-f", "-c", ZSH, "zsh"])
    for command in commands:
        for line, expected in SHELL_LINES:
            done = subprocess.run([*command, line], env=env, cwd=FOLDER, capture_output=True, text=True, check=False)
            offered = [one.split("\t")[0] for one in done.stdout.split("\n") if one.startswith(line.split()[-1])]
            check.equal(offered, expected, f"{command[0]}: {line} ({done.stderr})")


def test_zsh_and_fish_read_their_scripts():
    for shell in ("zsh", "fish"):
        script = sonde("completions", shell)[1]
        check.contains(script, "completions --words -- ")
        if not shutil.which(shell):
            raise check.Skip(f"{shell} is not installed")
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


try:
    check.main(globals())
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
