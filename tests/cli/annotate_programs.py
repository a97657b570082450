# SPDX-License-Identifier: Apache-2.0
"""Programs whose samples a test of `sonde annotate` chooses, and what tells where their instructions are."""

import json
import os
import re
import shutil
import subprocess

from tests.cli import check, perf_files as made

SONDE = os.path.abspath("clients/cli/sonde")
FOLDER = check.short_folder()
PLANTED = """\
volatile unsigned long sink;
static inline __attribute__((always_inline)) unsigned long mix(unsigned long x) {
    for (int i = 0; i < 20; i++)
        x ^= x * 0x9e3779b97f4a7c15u; /* MIX */
    return x;
}
__attribute__((noinline)) void other(void) { sink++; }
__attribute__((noinline)) void busy(void) {
    unsigned long x = sink;
    for (int i = 0; i < 1000; i++)
        x = x / 3 * 7 + 11; /* HOT */
    x = mix(x);             /* CALL */
    sink = x;
    other();
    sink++;
}
int main(void) { busy(); return 0; }
"""
PCS = {}  # of planted
LINES = {word: number for number, line in enumerate(PLANTED.splitlines(), 1) for word in re.findall(r"/\* (\w+) \*/", line)}


def run(*words, **options):
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=True, cwd=FOLDER, **options).stdout


def sonde(*words, status=0):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SONDE_")}
    done = subprocess.run([SONDE, *words], env={**clean, "XDG_RUNTIME_DIR": FOLDER, "SONDE_DATA_DIR": f"{FOLDER}/data"},
                          capture_output=True, text=True, timeout=120, check=False, cwd=FOLDER)
    check.equal(done.returncode, status, f"status of {words} ({done.stdout}{done.stderr})")
    return done


def write(name, text):
    with open(f"{FOLDER}/{name}", "w", encoding="utf-8") as file:
        file.write(text)


def build(name, *sources, options=("-O2", "-g")):
    """Links at a fixed address, where perf_files.mmap says that the program is."""
    run("gcc", *options, "-no-pie", "-Wl,-z,noseparate-code", "-Wl,--build-id", *sources, "-o", name)


def build_id(name):
    return bytes.fromhex(re.search(r"Build ID: (\w+)", run("readelf", "-n", name))[1])


def instructions(name, function):
    text = run("objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", name)
    return {int(line[1], 16): line[2] for line in re.finditer(r"^ +([0-9a-f]+):\t(.*)$", text, re.M)}


def lines_of(name, addresses):
    """{address: [(function, line), ...]}, innermost first."""
    out = run("addr2line", "-a", "-i", "-f", "-e", name, *(hex(address) for address in addresses))
    found, at = {}, None
    for line in out.splitlines():
        if line.startswith("0x"):
            at, function = found.setdefault(int(line, 16), []), None
        elif function is None:
            function = line
        else:
            at.append((function, int(re.search(r":(\d+)", line)[1])))
            function = None
    return found


def at_line(name, function, line):
    """The address of an instruction whose innermost line is that."""
    found = lines_of(name, instructions(name, function))
    return next(address for address, frames in found.items() if frames[0][1] == LINES[line])


def record(counts, program="planted", to="perf.data", identity=None):
    """Samples with these stacks: {(pc, return address, ...): number}."""
    records = [made.comm(1, "planted"), made.mmap(2, path=f"{FOLDER}/{program}", build_id=identity or build_id(program))]
    records += [made.sample(3, pcs) for pcs, count in counts.items() for _ in range(count)]
    with open(f"{FOLDER}/{to}", "wb") as file:
        file.write(made.file(records))
    return to


def annotate(*words, **options):
    return json.loads(sonde("annotate", *words, "--json", **options).stdout)


def planted():
    """70 samples at HOT, 20 at MIX, which is inlined, and 10 in other, which busy has called. {name: pc}

    What tests before have left in the service's data is gone: tables of files with the same build-id."""
    shutil.rmtree(f"{FOLDER}/data", ignore_errors=True)
    if PCS:
        return PCS
    write("planted.c", PLANTED)
    build("planted", "planted.c")
    code = instructions("planted", "busy")
    call = next(address for address, text in code.items() if "call" in text)
    behind = min(address for address in code if address > call)
    pcs = PCS
    PCS.update({"hot": at_line("planted", "busy", "HOT"), "mix": at_line("planted", "busy", "MIX"),
                "other": min(instructions("planted", "other")), "call": call, "behind": behind})
    record({(pcs["hot"],): 70, (pcs["mix"],): 20, (pcs["other"], pcs["behind"]): 10})
    return pcs


def number(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def message(*fields):
    """Of protobuf: (field, number, bytes or str)."""
    out = []
    for field, value in fields:
        value = value.encode() if isinstance(value, str) else value
        out.append(number(field << 3) + number(value) if isinstance(value, int) else number(field << 3 | 2) + number(len(value)) + value)
    return b"".join(out)


def near(found, expected, what):
    assert abs(found - expected) < 1e-6, f"{what}: {found}, not {expected}"


def write_profile(name, path, identity, weights):
    """A pprof file without lines, whose only function is busy. weights: {offset in the file: value}."""
    texts = ("", "cpu", "nanoseconds", path, identity, "busy")
    parts = [(1, message((1, 1), (2, 2))), (3, message((1, 1), (5, 3), (6, 4))), (5, message((1, 1), (2, 5)))]
    for location, (offset, value) in enumerate(weights.items(), 1):
        parts += [(4, message((1, location), (2, 1), (3, offset), (4, message((1, 1))))), (2, message((1, location), (2, value)))]
    with open(f"{FOLDER}/{name}", "wb") as file:
        file.write(message(*parts, *((6, text) for text in texts)))
    return name
