# SPDX-License-Identifier: Apache-2.0
"""`sonde draw`, `top` and `diff` with files of perf: real ones, whose totals are perf's own, and files that the test writes."""

import collections
import os
import platform
import shutil
import subprocess

from tests.cli import check, perf_files as made

SONDE = os.path.abspath("clients/cli/sonde")
NESTED = os.path.abspath("tests/cli/nested")
FOLDER = check.short_folder()
CHAIN = "main;outer;middle;inner"


def environment():
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SONDE_")}
    return {**clean, "XDG_RUNTIME_DIR": FOLDER, "SONDE_DATA_DIR": f"{FOLDER}/data"}


def sonde(*words, status=0, **options):
    done = subprocess.run([SONDE, *words], env=environment(), capture_output=True, text=True, timeout=120, check=False, cwd=FOLDER,
                          **options)
    check.equal(done.returncode, status, f"status of {words} ({done.stdout}{done.stderr})")
    return done


def write(content, name="perf.data"):
    with open(f"{FOLDER}/{name}", "wb") as file:
        file.write(content)
    return name


def stacks(path, *words, **options):
    """{stack: weight}, as collapsed text has it."""
    found = collections.Counter()
    for line in sonde("draw", path, "-o", "-", "--format", "collapsed", *words, **options).stdout.splitlines():
        stack, weight = line.rsplit(" ", 1)
        found[stack] += int(weight)
    return found


def comments(path):
    return [line[2:] for line in sonde("top", path, "-n", "1").stdout.splitlines() if line.startswith("# ")]


def refused(content, sentence):
    lines = sonde("top", write(content), status=2).stderr.splitlines()
    check.equal(lines, [f"sonde top: cannot read perf.data: {sentence}"], "error")


def record(name, *words, program=(NESTED, "60")):
    if not shutil.which("perf"):
        raise check.Skip("linux-perf is not installed")
    done = subprocess.run(["perf", "record", "-q", "-o", f"{FOLDER}/{name}", *words, *program], capture_output=True, text=True,
                          timeout=120, check=False)
    if done.returncode != 0:
        raise check.Skip(f"perf record failed: {done.stderr.strip()[-80:]}")
    return name


def perf_totals(name):
    """{event: (samples, their periods)} as `perf script` prints them."""
    text = subprocess.run(["perf", "script", "-i", f"{FOLDER}/{name}", "-F", "event,period"], capture_output=True, text=True, timeout=120,
                          check=True).stdout
    totals = collections.defaultdict(lambda: (0, 0))
    for line in text.splitlines():
        period, *event = line.split()
        event = event[0].rstrip(":") if event else ""
        totals[event] = (totals[event][0] + 1, totals[event][1] + int(period))
    return dict(totals)


# ---- real files -----------------------------------------------------------------------------------------------------------------


def check_nested(name, *words):
    """The file's samples and time are perf's, and nearly all of them are below the right callers."""
    samples, time_ns = next(iter(perf_totals(name).values()))
    found = stacks(name, *words)
    check.equal(sum(found.values()), samples, "samples")
    check.equal(sum(stacks(name, "--type", "cpu").values()), time_ns, "time")
    right = sum(weight for stack, weight in found.items() if f"{CHAIN}" in stack)
    assert right > 0.9 * samples, found


def test_copied_stacks_are_walked_with_our_tables():
    check_nested(record("copied.data", "-e", "cpu-clock", "-F", "499", "--call-graph", "dwarf"))


def test_compressed_records_are_read():
    name = record("packed.data", "-z", "-e", "cpu-clock", "-F", "499", "--call-graph", "dwarf")
    samples = sum(count for count, _ in perf_totals(name).values())
    assert os.path.getsize(f"{FOLDER}/{name}") < samples * 8192
    check_nested(name)


def test_frames_of_perfs_own_chains_are_shown():
    name = record("chains.data", "-e", "cpu-clock", "-F", "499", "-g")
    found = stacks(name)
    check.equal(sum(found.values()), next(iter(perf_totals(name).values()))[0], "samples")
    assert any("inner" in stack for stack in found), found


def test_several_events_are_types():
    name = record("events.data", "-e", "cpu-clock,page-faults", "-F", "499", "-g")
    totals = perf_totals(name)
    check.equal(len(totals), 2, "events")
    for event, (samples, amount) in totals.items():
        kind = {"cpu-clock": "cpu"}.get(event, event)
        check.equal(sum(stacks(name, "--type", kind).values()), amount, event)
        check.equal(sum(stacks(name, "--type", f"{kind}:samples").values()), samples, event)


def test_the_kernel_of_this_boot_has_names():
    with open("/proc/kallsyms", encoding="utf-8") as file:
        if int(file.readline().split()[0], 16) == 0 and int(file.readline().split()[0], 16) == 0:
            raise check.Skip("the kernel hides its addresses")
    found = stacks(record("faults.data", "-e", "page-faults", "-c", "1", "-g"))
    assert any("do_syscall_64" in stack for stack in found), found


def test_processes_are_frames_and_labels():
    command = ["sh", "-c", f"{NESTED} 30; {NESTED} 30; true"]
    name = record("several.data", "-e", "cpu-clock", "-F", "499", "--call-graph", "dwarf", program=command)
    found = stacks(name)
    check.equal(sum(found.values()), next(iter(perf_totals(name).values()))[0], "samples")
    assert any(stack.startswith("nested;") and CHAIN in stack for stack in found), found


def test_a_pipe_is_read_from_a_file_and_from_a_pipe():
    record("unused.data", "-e", "cpu-clock", program=("true",))  # skips without perf
    with open(f"{FOLDER}/piped.data", "wb") as file:
        subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "499", "--call-graph", "dwarf", "-o", "-", "--", "sh", "-c",
                        f"{NESTED} 60 >/dev/null"], stdout=file, stderr=subprocess.DEVNULL, timeout=120, check=True)
    from_file = stacks("piped.data")
    assert any(CHAIN in stack for stack in from_file), from_file
    with subprocess.Popen(["cat", f"{FOLDER}/piped.data"], stdout=subprocess.PIPE) as writer:
        check.equal(stacks("/dev/stdin", stdin=writer.stdout), from_file, "stacks")


def test_two_files_are_compared():
    base = record("base.data", "-e", "cpu-clock", "-F", "499", "--call-graph", "dwarf", program=(NESTED, "30"))
    now = record("now.data", "-e", "cpu-clock", "-F", "499", "--call-graph", "dwarf", program=(NESTED, "90"))
    table = sonde("diff", base, now, "-o", "-", "--format", "top").stdout
    check.contains(table, "inner")


# ---- written files --------------------------------------------------------------------------------------------------------------


def test_records_are_taken_in_order_of_time():
    late = [made.comm(0, "server"), made.sample(50, pid=8), made.fork(10, 8, 7), made.mmap(5), made.ROUND, made.sample(60), made.ROUND]
    check.equal(stacks(write(made.file(late))), {"server;[program]+0x1f;[program]+0x10": 2})


def test_exec_replaces_the_map_and_the_name():
    records = [made.mmap(1), made.comm(2, "shell"), made.sample(10), made.comm(20, "server", is_exec=True),
               made.mmap(21, path="/usr/bin/other"), made.sample(30)]
    found = stacks(write(made.file(records)))
    check.equal(sorted(found), ["[other]+0x1f;[other]+0x10", "[program]+0x1f;[program]+0x10"])


def test_threads_are_labels():
    records = [made.mmap(1), made.comm(2, "server"), made.fork(3, 7, 7, tid=9), made.comm(4, "worker", tid=9), made.sample(10, tid=9)]
    found = stacks(write(made.file(records)), "--split-threads")
    assert any("worker" in stack for stack in found), found


def test_samples_of_a_process_that_has_ended_have_no_files():
    records = [made.mmap(1), made.comm(2, "server"), made.sample(10), made.exit_of(20, 7), made.sample(30)]
    found = stacks(write(made.file(records)))
    check.equal(sum(found.values()), 2, "samples")
    check.equal(found["[program]+0x1f;[program]+0x10"], 1)


def test_a_thread_that_ends_does_not_end_its_process():
    records = [made.mmap(0), made.comm(0, "server"), made.comm(0, "worker", tid=9), made.exit_of(5, 7, tid=9), made.sample(10)]
    check.equal(stacks(write(made.file(records))), {"[program]+0x1f;[program]+0x10": 1})


def test_the_kernel_of_another_boot_has_no_names():
    records = [made.mmap(1), made.sample(10, kernel=[2**64 - 2**31, 2**64 - 2**30])]
    check.equal(stacks(write(made.file(records, release="4.0"))), {"[program]+0x1f;[program]+0x10;[kernel];[kernel]": 1})


def test_files_without_build_ids_are_found_by_their_path():
    path = "/bin/true"
    records = [made.mmap(1, path=path), made.sample(10)]
    assert any(line.startswith("files: 1 are not known") for line in comments(write(made.file(records)))), comments("perf.data")
    records = [made.mmap(1, path=path, build_id=bytes(20)), made.sample(10)]
    assert not any(line.startswith("files:") for line in comments(write(made.file(records)))), comments("perf.data")


def test_pieces_of_compressed_records_are_joined():
    records = [made.mmap(1)] + [made.sample(10 + number) for number in range(3000)]
    for kind in (81, 83):
        found = stacks(write(made.file([made.compressed(records, kind, pieces=7)])))
        check.equal(found, {"[program]+0x1f;[program]+0x10": 3000}, f"stacks of records {kind}")


def test_damage_in_compressed_records_is_reported():
    packed = bytearray(made.compressed([made.mmap(1), made.sample(10)]))
    packed[8] ^= 255
    notes = comments(write(made.file([bytes(packed)])))
    assert any(line.startswith("file: damaged") for line in notes), notes


def test_tables_are_kept_for_the_next_file():
    folder = f"{FOLDER}/new/.cache/sonde"
    write(made.file([made.mmap(1, path="/bin/true"), made.copied()], attrs=(made.attr(sample_type=made.COPIES),)))
    subprocess.run([SONDE, "top", "perf.data"], env={**environment(), "SONDE_DATA_DIR": folder}, cwd=FOLDER, stdout=subprocess.DEVNULL,
                   timeout=120, check=True)
    assert os.listdir(f"{folder}/unwind"), "no unwind table"


def test_every_name_that_perf_gives_its_files_is_a_file():
    for name in ("perf.data.old", "perf.data.2026112822123456", "server.data"):
        check.equal(sum(stacks(write(made.file([made.sample(10)]), name)).values()), 1)


def test_lost_records_are_reported():
    assert "dropped: 5 records that perf could not write" in comments(write(made.file([made.sample(10), made.lost(11, 5)])))
    # Newer kernels count the same losses in both records. Samples that a filter of perf left out are no losses.
    both = [made.sample(10), made.lost(11, 5), made.lost_samples(12, 5), made.lost_samples(13, 9, misc=1 << 15)]
    assert "dropped: 5 records that perf could not write" in comments(write(made.file(both)))


def test_a_file_that_was_cut_is_read_up_to_there():
    whole = made.file([made.mmap(1), made.sample(10), made.sample(20)])
    cut = whole[:whole.rindex(made.sample(20)) + 20]
    notes = comments(write(cut))
    assert any(line.startswith("file: it ends early") for line in notes), notes
    check.equal(sum(stacks("perf.data").values()), 1)


def test_a_file_whose_perf_was_killed_is_read():
    whole = made.file([made.mmap(1), made.sample(10)], size=0)
    notes = comments(write(whole[:whole.rindex(made.sample(10)) + len(made.sample(10))]))
    assert any(line.startswith("file: it ends early") for line in notes), notes


def test_a_damaged_record_ends_the_file():
    broken = made.file([made.mmap(1), made.sample(10), b"\1\0\0\0\0\0\0\0", made.sample(20)])
    notes = comments(write(broken))
    assert any(line.startswith("file: damaged") for line in notes), notes
    check.equal(sum(stacks("perf.data").values()), 1)


def test_damaged_fields_lose_their_record_only():
    short = made.record(9, made.sample(15)[8:40], misc=2)
    notes = comments(write(made.file([made.mmap(1), made.sample(10), short, made.sample(20)])))
    assert "skipped: 1 damaged records, 0 samples of unknown events" in notes, notes
    check.equal(sum(stacks("perf.data").values()), 2)


def test_samples_of_unknown_events_are_counted():
    attrs = (made.attr(made.CPU_CLOCK, made.SEVERAL), made.attr(made.PAGE_FAULTS, made.SEVERAL))
    records = [made.sample(10, identifier=1), made.sample(11, identifier=77)]
    notes = comments(write(made.file(records, attrs=attrs)))
    assert "skipped: 0 damaged records, 1 samples of unknown events" in notes, notes


def test_a_file_without_samples_is_drawn_empty():
    check.equal(sum(stacks(write(made.file([made.mmap(1)]))).values()), 0, "samples")
    check.contains(sonde("top", "perf.data").stdout, "no samples")
    assert not any(line.startswith("target:") for line in comments("perf.data")), comments("perf.data")


def test_files_that_cannot_be_read_are_refused_with_one_sentence():
    other = "aarch64" if platform.machine() != "aarch64" else "x86_64"
    refused(made.file([made.sample(1)], arch=other), f"it was recorded on another kind of machine ({other}); read it on one of those")
    refused(b"2ELIFREP" + made.file([])[8:], "it was recorded on a machine with another byte order; read it there")
    refused(b"PERFFILE" + made.file([])[8:], "a perf of before 2010 wrote it; record it again with a newer one")


def test_damaged_headers_are_refused():
    for cut, sentence in ((8, "not a perf.data file"), (60, "its header is damaged"), (110, "its list of events cannot be read")):
        lines = sonde("top", write(made.file([made.sample(1)])[:cut]), status=1 if cut > 8 else 2).stderr.splitlines()
        check.equal(lines, [f"sonde top: cannot read perf.data: {sentence}"])


def test_more_events_than_types_are_refused():
    attrs = [made.attr(number, made.SEVERAL, kind=4) for number in range(40)]
    records = [made.sample(number + 1, identifier=number + 1) for number in range(40)]
    content = made.file(records, attrs=attrs, names=[f"raw{number}" for number in range(40)])
    check.contains(sonde("top", write(content), status=2).stderr, "it has more than 31 events; record fewer at a time")


def test_other_files_are_no_perf_data():
    check.contains(sonde("top", write(b"hello, world" * 9), status=1).stderr, "as a pprof profile")
    os.makedirs(f"{FOLDER}/folder.data", exist_ok=True)
    check.contains(sonde("top", "folder.data", status=2).stderr, "folder.data is a directory")


def test_a_million_samples_need_little_memory():
    records = b"".join(made.sample(number * 10 + 100, pcs=(made.TEXT + number % 64, made.TEXT + 99)) for number in range(1000))
    parts = [made.mmap(1)] + [records] * 1000
    write(made.file(parts))
    done = subprocess.run(["/usr/bin/env", "python3", "-c", """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)""", SONDE, "top", "perf.data"], env=environment(), cwd=FOLDER, text=True,
                          capture_output=True, timeout=300, check=True)
    assert int(done.stdout) < 1 << 20, f"{done.stdout} KiB"
    check.equal(sum(stacks("perf.data").values()), 1000000)



try:
    check.main(globals())
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
