# SPDX-License-Identifier: Apache-2.0
"""Local users attack servers of others that are profiled by the same sonded, which is root's and serves everybody."""

import gzip
import os
import re
import subprocess

from tests.cli import check
from tests.e2e import stack
from tests.e2e.users.users import GUESTS, PROGRAM, RPC, as_nobody, guest_environment, install, server, sonded, start, stop, targets

FLOOD = os.path.join(stack.WORK, "map_flood")
LIBRARY = os.path.join(stack.WORK, "flood.so")
MARK = "SONDE-FLOOD-ID".encode().hex()


def compiled(name, *flags, code):
    path = os.path.join(stack.WORK, name)
    subprocess.run(["gcc", "-g", "-O1", "-D_GNU_SOURCE", *flags, "-x", "c", "-", "-o", path], input=code, text=True, check=True)
    return path


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """The fields of a protobuf message in order, as (number, value)."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        yield key >> 3, value


def packed(data):
    at = 0
    while at < len(data):
        value, at = varint(data, at)
        yield value


def record(name):
    """Captures a target by its name for a second. Returns its stacks as [(frames, count)], leaf first, and what the profile
    says about itself: its comments, and its duration in seconds as "duration"."""
    path = os.path.join(stack.WORK, "honest.pb.gz")
    stack.sonde("record", name, "--service", RPC, "-d", "1", "-F", "499", "-o", path, timeout=300)
    with gzip.open(path) as file:
        profile = list(fields(file.read()))
    strings = [value.decode() for number, value in profile if number == 6]
    names = {part[1]: strings[part.get(2, 0)] for part in (dict(fields(value)) for number, value in profile if number == 5)}
    frames = {part[1]: names[dict(fields(part[4]))[1]] if 4 in part else "?"
              for part in (dict(fields(value)) for number, value in profile if number == 4)}
    samples = [dict(fields(value)) for number, value in profile if number == 2]
    stacks = [([frames[number] for number in packed(sample[1])], next(packed(sample[2]))) for sample in samples]
    about = dict(strings[value].split(": ", 1) for number, value in profile if number == 13)
    about["duration"] = next(value for number, value in profile if number == 10) / 1e9
    return stacks, about


def fresh(name):
    """Starts root's server `name`, whose program sonded has never seen."""
    path = compiled(name, "-Wl,--build-id=0x" + os.urandom(20).hex(), code=PROGRAM)
    process = start(path, env=guest_environment(name), stdout=subprocess.DEVNULL)
    check.until(lambda: name in targets(), seconds=60, what="root's server")
    return process


def share(stacks, *leaves):
    """The share of the samples whose innermost frames are these."""
    return sum(count for frames, count in stacks if tuple(frames[:len(leaves)]) == leaves) / stack.total(stacks)


def check_complete(name, calm=None):
    """Captures the server and checks that its time, stacks and names are there. `calm` is what an earlier capture without an
    attack said."""
    stacks, about = record(name)
    print(about)
    assert share(stacks, "burn", "main") > 0.9, stacks
    check.equal(about["dropped"], "none")
    assert "cut stacks" not in about, about
    sampled, used = map(float, re.search(r"([\d.]+) s sampled of ([\d.]+) s", about["coverage"]).groups())
    assert sampled > 0.6 * used, about
    assert "ended" not in about["target"], about
    if calm:
        assert about["duration"] < 3 * calm["duration"] + 1, (about, calm)
    return about


def flood(way):
    folder = os.path.join(stack.WORK, "flood-" + way)
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    process = start(*as_nobody(FLOOD, GUESTS, way, LIBRARY, folder), stdout=subprocess.PIPE)
    check.until(lambda: "flood" in targets(), seconds=120, what="the attacker")
    check.equal(process.stdout.readline(), "flooding\n")
    return process


def attacked_by(way):
    service, attacker, honest = sonded("--everybody"), None, []
    try:
        honest.append(fresh("calm-" + way))
        calm = check_complete("calm-" + way)
        attacker = flood(way)
        honest.append(fresh("stormy-" + way))
        check_complete("stormy-" + way, calm)
        assert attacker.poll() is None
    finally:
        for process in filter(None, (attacker, *honest, service)):
            stop(process)


def test_a_flood_of_real_mappings_costs_a_neighbour_no_stacks_and_names():
    attacked_by("real")


def test_a_flood_of_claimed_mappings_costs_a_neighbour_no_stacks_and_names():
    attacked_by("claimed")


def test_frames_without_end_cost_a_neighbour_nothing():
    attacked_by("frames")


def test_another_user_cannot_take_a_servers_name():
    service, honest, squatter = sonded("--everybody"), server(uid=0, name="honest"), None
    try:
        check.until(lambda: "honest" in targets(), what="root's server")
        squatter = server(name="honest")
        check.until(lambda: targets().count("honest") == 2, what="the other user's server")
        assert share(record("honest")[0], "burn") > 0.9
        check.contains(targets(), str(squatter.pid))
    finally:
        for process in filter(None, (squatter, honest, service)):
            stop(process)


install()
with open("tests/hostile/map_flood.c", encoding="utf-8") as source:
    compiled("map_flood", "-Wall", code=source.read())
compiled("flood.so", "-shared", "-fPIC", "-Wl,--build-id=0x" + MARK, code="int flood(int n) { return n ? flood(n - 1) + 1 : 0; }\n")
check.main(globals())
