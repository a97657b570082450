# SPDX-License-Identifier: Apache-2.0
"""The page and the command line read the same pprof files to the same stacks, and refuse the same broken ones."""

import json
import os
import shutil
import subprocess
import sys

from tests.cli import check
from tests.e2e import stack
from tests.ui.profile_file import field, varint

DELAYS = (("contentions", "count"), ("delay", "nanoseconds"))
STRINGS = ("", "contentions", "count", "delay", "nanoseconds", "main", "work", "/srv/app", "thread", "worker", "extra", "/srv/2/app", "read", "read.c", "read2.c")
STRIDE = 0x9E3779B97F4A7C15  # hash-like ids


def message(*fields):
    return b"".join(field(number, value) for number, value in fields)


def small(id_of=lambda n: n, types=DELAYS, default=None, samples=((2, 5), (1, 3)), extra=b"", labels=b"", stack=None):
    """main with 5 and main;work with 3 of each type. Samples are (frames, value)."""
    strings = list(STRINGS)
    text = lambda word: strings.index(word) if word in strings else strings.append(word) or len(strings) - 1
    out = b"".join(field(1, message((1, text(kind)), (2, text(unit)))) for kind, unit in types)
    out += field(3, message((1, id_of(1)), (2, 0x1000), (3, 0x9000), (5, text("/srv/app"))))
    for n, name in ((1, "main"), (2, "work")):
        out += field(5, message((1, id_of(n)), (2, text(name))))
        out += field(4, message((1, id_of(n)), (2, id_of(1)), (3, 0x1000 + n), (4, message((1, id_of(n)), (2, 7)))))
    for frames, value in samples:
        ids = stack if stack is not None else [id_of(n) for n in range(frames, 0, -1)]
        out += field(2, message((1, b"".join(map(varint, ids))), (2, varint(value) * len(types))) + labels)
    if default:
        out += field(14, text(default))
    return out + extra + b"".join(field(6, word.encode()) for word in strings)


def label(key, text):
    return field(3, message((1, STRINGS.index(key)), (2, STRINGS.index(text))))


# read of read2.c called read, which has read of the same file inlined.
REPEATED = b"".join(field(5, message((1, n), (2, STRINGS.index("read")), (4, STRINGS.index(file)))) for n, file in ((3, "read.c"), (4, "read.c"), (5, "read2.c"))) \
    + field(4, message((1, 9), (2, 1), (3, 0x1009), *((4, message((1, n))) for n in (3, 4, 5, 2)))) + field(2, message((1, varint(9)), (2, b"\1\1")))

READ = {
    "plain": small(),
    "ids above 2^53": small(lambda n: 2**53 + 1 + n),
    "ids above 2^63": small(lambda n: 2**63 + 1 + n),
    "hashes as ids": small(lambda n: n * STRIDE % 2**64),
    "an address above 2^63": small(extra=field(4, message((1, 9), (2, 1), (3, 2**64 - 3))) + field(2, message((1, varint(9)), (2, b"\1\1")))),
    "an address without a file": small(extra=field(4, message((1, 9), (3, 0x77))) + field(2, message((1, varint(9)), (2, b"\1\1")))),
    "six types": small(types=[(f"t{n}", "count") for n in range(6)]),
    "1,024 frames": small(stack=[2] * 1023 + [1]),
    "1,025 frames": small(stack=[2] * 1024 + [1]),
    "30,000 frames": small(stack=[2] * 29999 + [1]),
    "70 labels": small(labels=label("thread", "worker") + label("extra", "extra") * 69),
    "a default type": small(default="contentions"),
    "no such default type": small(default="nothing"),
    "no samples": small(samples=()),
    "a function inlined into one of its name": small(extra=REPEATED),
    "a stack without frames": small(samples=((0, 4), (2, 5))),
}
REFUSED = {
    "a location that is missing": small(stack=[7]),
    "a location that is missing in the middle of a deep stack": small(stack=[2] * 5000 + [7] + [2] * 5000),
    "a function that is missing": small(extra=field(4, message((1, 9), (4, message((1, 9)))))),
    "a mapping that is missing": small(extra=field(4, message((1, 9), (2, 9)))),
    "a name that is missing": small(extra=field(5, message((1, 9), (2, 99)))),
    "a file that is missing": small(extra=field(3, message((1, 9), (5, 99)))),
    "a label that is missing": small(labels=field(3, message((1, 99)))),
    "a comment that is missing": small(extra=field(13, 99)),
    "a default type that is missing": small(extra=field(14, 99)),
    "two functions of an id": small(extra=field(5, message((1, 2), (2, 5)))),
    "a location without an id": small(extra=field(4, message((2, 1)))),
    "a sample with too few values": small(extra=field(2, message((1, b"\1"), (2, b"\1")))),
    "a sample with too many values": small(extra=field(2, message((1, b"\1"), (2, b"\1\1\1")))),
    "65 types": small(types=[(f"t{n}", "count") for n in range(65)]),
    "a sample that is a number": small(extra=field(2, 5)),
    "a cut file": small()[:-3],
}


def save(files):
    folder = os.path.join(stack.WORK, "files")
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, f"{number}.pb") for number in range(len(files))]
    for path, data in zip(paths, files.values()):
        with open(path, "wb") as out:
            out.write(data)
    return paths


def run_node(script, *words):
    """The lines of JSON that a script of this folder prints, which gets the folder of the page's modules and the words."""
    folder = os.path.join(stack.WORK, "ui")
    if not os.path.exists(folder):
        shutil.copytree("gateway/ui", folder)
        with open(os.path.join(folder, "package.json"), "w", encoding="utf-8") as out:
            out.write('{"type": "module"}')
    done = subprocess.run(["node", f"tests/ui/{script}", folder, *words], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def page(paths):
    return run_node("readers.mjs", *paths)


def command(path):
    program = os.path.join(stack.PREFIX, "bin/sonde")
    return subprocess.run([program, "draw", path, "-o", "-", "--format", "collapsed"], capture_output=True, text=True, check=False)


def stacks(collapsed):
    parts = [line.rpartition(" ") for line in collapsed.splitlines()]
    return {"" if name == "[no stack]" else name: int(value) for name, _, value in parts if name != "[no samples]"}


def test_both_read_the_same_stacks():
    paths = save(READ)
    for name, path, seen in zip(READ, paths, page(paths)):
        done = command(path)
        check.equal((name, done.returncode, done.stderr if done.returncode else ""), (name, 0, ""))
        check.equal((name, seen.get("error"), seen.get("stacks")), (name, None, stacks(done.stdout)))


def test_a_deep_stack_keeps_both_ends_and_a_note():
    (seen,) = page(save({"deep": READ["30,000 frames"]}))
    (deep,) = seen["stacks"]
    names = deep.split(";")
    check.equal((len(names), names[0], names[-1], names.count("[truncated]")), (1024, "main", "work", 1))
    check.equal(seen["comments"], ["2 samples of the file have more than 1024 locations: the middle is [truncated]"])
    top = subprocess.run([os.path.join(stack.PREFIX, "bin/sonde"), "top", os.path.join(stack.WORK, "files/0.pb")], capture_output=True,
                         text=True, check=True)
    check.contains(top.stdout, "# " + seen["comments"][0])


def test_versions_of_the_program_in_two_folders_are_one():
    other = field(3, message((1, 9), (2, 0x9000), (3, 0xA000), (5, STRINGS.index("/srv/2/app"))))
    location = field(4, message((1, 9), (2, 9), (3, 0x9001), (4, message((1, 1), (2, 7)))))
    paths = save({"both": small(extra=other + location + field(2, message((1, varint(9)), (2, varint(2) * 2))))})
    (seen,) = page(paths)
    check.equal((seen["stacks"], seen["functions"]), ({"main": 5, "main;work": 5}, 2))
    check.equal(stacks(command(paths[0]).stdout), seen["stacks"])


def test_negative_values_count_as_0_in_the_graph():
    files = {"within": small(samples=((1, 7), (2, -3))), "all": small(samples=((2, -3),))}
    seen = page(save(files))
    check.equal([one["graph"] for one in seen], [{"total": 7, "fits": True}, {"total": 0, "fits": True}])


def test_both_judge_changes_alike():
    types = (("samples", "count"), ("cpu", "nanoseconds"))
    words = {0: "within noise", 1: "more", -1: "less"}
    for before, after in (((500, 300), (800, 300)), ((40, 30), (33, 41)), ((5000, 4000), (5000, 0)), ((2000, 0), (2000, 9)), ((7, 9000), (7, 9100))):
        sides = [small(types=types, samples=((1, side[0]), (2, side[1]))) for side in (before, after)]
        paths = save({"base": sides[0], "new": sides[1]})
        (seen,) = page(["--compare", *paths])
        done = subprocess.run([os.path.join(stack.PREFIX, "bin/sonde"), "diff", *paths, "--json"], capture_output=True, text=True, check=True)
        for function in json.loads(done.stdout)["functions"]:
            share, name = function["total"]["share"], function["name"]
            for bound in ("low", "high"):
                assert abs(share[bound] - seen[name][bound]) < 1e-6, (before, after, name, share, seen[name])
            check.equal((before, after, name, words[seen[name]["verdict"]]), (before, after, name, share["verdict"].replace("not enough samples", "within noise")))


def test_what_the_service_calls_noise_is_noise_on_the_page():
    types = (("samples", "count"), ("cpu", "nanoseconds"))
    paths = save({name: small(types=types, samples=((1, first), (2, second))) for name, first, second in (("base", 500, 3000), ("new", 900, 3000))})
    verdicts = [page(["--compare", *paths, *changed])[0]["work"]["verdict"] for changed in ((), ("work",), ("main",))]
    check.equal(verdicts, [-1, -1, 0])


def test_names_are_as_readable_as_those_of_the_command_line():
    seen = run_node("names.mjs", "tests/unit/draw/names/names.txt")[0]
    check.equal((seen["count"] > 60, seen["wrong"], seen["deep"]), (True, [], True))
    check.equal(seen["view"], ["shop::hash(std::string_view)", "shop::hash(char const*)", "shop::index(...)", "std::string::size()",
                               "std::__cxx11::basic_string<char>::size()"])


def test_a_type_can_be_chosen():
    paths = save({"named": small(types=(("first", "count"), ("second", "bytes")))})
    program = os.path.join(stack.PREFIX, "bin/sonde")
    for words, wanted in (([], "second"), (["--type", "first"], "first")):
        top = subprocess.run([program, "top", paths[0], *words], capture_output=True, text=True, check=True)
        check.contains(top.stdout, f"Type: {wanted}\n")
    done = subprocess.run([program, "draw", paths[0], "-t", "third", "-o", "-", "--format", "svg"], capture_output=True, text=True, check=False)
    check.contains(done.stderr, 'the profile has no sample type "third"; it has first second')


def test_both_refuse_what_is_broken():
    paths = save(REFUSED)
    for name, path, seen in zip(REFUSED, paths, page(paths)):
        done = command(path)
        check.equal((name, done.returncode != 0, "stacks" in seen), (name, True, False))
        check.equal((name, seen["error"].count("undefined") + seen["error"].count("Cannot")), (name, 0))


if not shutil.which("node"):
    print("SKIP: readers_test: no node")
    sys.exit(0)
stack.install()
check.main(globals())
