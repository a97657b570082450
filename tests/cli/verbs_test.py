# SPDX-License-Identifier: Apache-2.0
"""Every verb of `sonde` without a service: help, exit status, completions, and files."""

import json
import os
import shutil
import subprocess

from tests.cli import check

SONDE = os.path.abspath("clients/cli/sonde")
FOLDER = check.short_folder()
VERBS = ("run", "record", "top", "draw", "diff", "live", "heap", "threads", "captures", "history", "symbol", "targets", "doctor")


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
        assert len(lines) <= 32 and max(map(len, lines)) <= 100, f"{words}: {len(lines)} lines"
        examples = lines[lines.index("examples:") + 1:]
        check.equal(len(examples), 4, f"examples of {words}")
        assert all(line.startswith("  sonde ") for line in examples), examples


def test_help_names_every_verb():
    out = sonde("--help")[1]
    for verb in VERBS:
        check.contains(out, f"\n  {verb} ")


def test_version():
    check.equal(sonde("--version")[:2], (0, "sonde 0.1.0\n"))
    check.equal(sonde("record", "--version")[:2], (0, "0.1.0\n"))


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
                  ("diff", "--base-from", "-2h", "-n"), ("diff", "--base-from", "-2h", "-t", "cpu"),
                  ("diff", "--base-from", "-2h", "--base-until", "-3h"), ("history", "a", "b"), ("history", "--from", "1h"),
                  ("history", "--until", "-1"), ("history", "--from", "now"), ("history", "-o", "x.unknown"),
                  ("history", "--list", "redis"), ("history", "--list", "-o", "x.svg"), ("history", "-p", "redis"),
                  ("captures", "1", "-o", "x.unknown"), ("live", "a", "b"), ("live", "--span", "0"), ("live", "-F", "0"),
                  ("top", "a", "b"), ("completions", "csh")):
        status, out, err = sonde(*words)
        check.equal((status, out), (2, ""), f"status and output of {words}")
        assert err, words


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
    """A pprof profile with 7 samples of outer -> leaf."""
    strings = [b"", b"samples", b"count", b"leaf", b"outer"]
    body = field(1, field(1, 1) + field(2, 2))
    body += field(2, field(1, b"\x01\x02") + field(2, b"\x07"))
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
    check.contains(sonde("draw", "small.pb", "-o", "-", "--format", "collapsed")[1], "outer;leaf 7\n")


def test_diff_needs_no_service_for_files():
    with open(os.path.join(FOLDER, "small.pb"), "wb") as file:
        file.write(small_profile())
    with open(os.path.join(FOLDER, "grown.pb"), "wb") as file:
        file.write(small_profile().replace(b"\x12\x01\x07", b"\x12\x01\x09"))
    check.contains(sonde("diff", "small.pb", "grown.pb", "-o", "-", "--format", "collapsed")[1], "outer;leaf 2\n")
    check.contains(sonde("diff", "grown.pb", "small.pb", "-o", "-", "--format", "collapsed")[1], "outer;leaf -2\n")
    check.contains(sonde("diff", "small.pb", "grown.pb")[1], "leaf")
    check.equal(sonde("diff", "grown.pb", "small.pb", "-g", "-o", "-", "--format", "collapsed")[1], "[no samples] 0\n")
    check.equal(sonde("diff", "small.pb", "grown.pb", "-n", "-o", "-", "--format", "collapsed")[1], "[no samples] 0\n")
    check.equal(sonde("diff", "small.pb", "grown.pb", "-o", "diff.svg")[::2], (0, ""))
    with open(os.path.join(FOLDER, "diff.svg"), encoding="utf-8") as drawn:
        check.contains(drawn.read(), "colours compare shares")


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


def test_bash_completion_completes_verbs_and_flags():
    script = sonde("completions", "bash")[1]
    def complete(*words):
        quoted = " ".join(f"'{word}'" for word in words)
        program = f"{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _sonde; echo \"${{COMPREPLY[@]}}\""
        return subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True).stdout.split()
    check.equal(complete("sonde", "re"), ["record"])
    check.equal(complete("sonde", "record", "--freq"), ["--frequency"])
    check.equal(complete("sonde", "run", "--he"), ["--heap", "--help"])


def test_zsh_and_fish_completions_name_every_verb():
    for shell in ("zsh", "fish"):
        script = sonde("completions", shell)[1]
        for verb in VERBS:
            check.contains(script, verb)
        if not shutil.which(shell):
            raise check.Skip(f"{shell} is not installed")
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


try:
    check.main(globals())
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
