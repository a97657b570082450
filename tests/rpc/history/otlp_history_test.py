# SPDX-License-Identifier: Apache-2.0
"""sonde-history receives OTLP profiles: what arrives is what queries sum, names come from debug files, and bad messages are refused."""

import os
import re
import subprocess

import grpc

from tests.cli import check
from tests.rpc.history.deliveries import BEGIN, History, Service
from tests.rpc.history.otlp_messages import METHOD, Message, Request, export

ID = bytes(range(16))


def collapsed(service, /, split=False, **selection):
    events = list(service.QueryProfile(selection=selection, rendering={"format": "COLLAPSED", "split_threads": split}, timeout=30))
    text = b"".join(event.chunk for event in events[1:]).decode()
    return sorted(line for line in text.splitlines() if not line.startswith("[no samples]"))


def stacks(service, /, **selection):
    """{"main;work": value}"""
    return {stack: int(value) for stack, value in (line.rsplit(" ", 1) for line in collapsed(service, **selection))}


def _two_stacks(message):
    binary = message.mapping("/usr/bin/api", build_id="ab" * 20, start=0x1000, limit=0x9000, offset=0x1000)
    main, work = message.location("main", mapping=binary, address=0x1100), message.location("work", mapping=binary, address=0x1200)
    inlined = message.location("leaf", "helper", mapping=binary, address=0x1300)
    return message.stack(work, main), message.stack(inlined, main)


def test_profiles_become_history():
    with History() as history:
        message = Message(service_name="api", host_name="alpha", k8s_pod_uid="p1", process_pid=7)
        first, second = _two_stacks(message)
        profile = message.profile(identity=ID)
        message.sample(profile, first, 30_000_000, thread_name="io")
        message.sample(profile, first, 10_000_000, thread_name="io")
        message.sample(profile, second, 20_000_000, 40_000_000, thread_id=7, thread_name="api")
        for duplicates in (0, 1):
            answer = export(history.service.channel, message)
            check.equal(answer.partial_success.rejected_profiles, 0)
            check.equal(history.service.GetHistoryInfo(timeout=10).windows, 1, f"windows after {duplicates} duplicates")
        check.equal(stacks(history.service, service="api"), {"main;work": 40_000_000, "main;helper;leaf": 60_000_000})
        check.equal(stacks(history.service, selector="host = 'alpha' AND pod = 'p1'"), stacks(history.service, service="api"))
        check.equal(stacks(history.service, selector="pod = 'p2'"), {})
        threads = {line.split(";")[0] for line in collapsed(history.service, split=True, service="api")}
        check.equal(threads, {"api", "io"}, "the threads")  # the main one is called like the service


def test_kinds_of_values_have_their_events():
    counts = (("samples", "count"), ("cpu", "nanoseconds", 5_000_000))
    kinds = (  # type, period, event, values, times, expected
        (*counts, "on-cpu", (3,), (), 15_000_000),
        (*counts, "on-cpu", (), (1, 2, 3, 4), 20_000_000),
        (("events", "nanoseconds"), ("", "", 0), "off-cpu", (7,), (), 7),
        (("off_cpu", "microseconds"), ("", "", 0), "off-cpu", (7,), (), 7000),
        (("alloc_space", "bytes"), ("space", "bytes", 524288), "mem-alloc", (4096,), (), 4096),
        (("inuse_space", "bytes"), ("space", "bytes", 524288), "mem-inuse", (99,), (), 99),
        (("lock", "milliseconds"), ("", "", 0), "lock", (2,), (), 2_000_000),
        (("cpu", "nanoseconds"), ("", "", 0), "on-cpu", (2**63 - 1, 5), (), 2**63 - 1),
    )
    with History() as history:
        for number, (kind, period, event, values, times, expected) in enumerate(kinds):
            message = Message(service_name=f"s{number}")
            profile = message.profile(kind, period)
            message.sample(profile, message.stack(message.location("f")), *values, times=times)
            check.equal(export(history.service.channel, message).partial_success.rejected_profiles, 0, str(kind))
            check.equal(stacks(history.service, service=f"s{number}", event=event), {"f": expected}, str(kind))


def test_samples_of_several_processes_are_told_apart():
    with History() as history:
        message = Message(host_name="alpha")
        stack = message.stack(message.location("f"))
        profile = message.profile(identity=ID)
        for name, pid, value in (("nginx", 5, 1), ("redis", 6, 2), ("redis", 7, 4)):
            message.sample(profile, stack, value, process_pid=pid, process_executable_name=name)
        export(history.service.channel, message)
        services = {service.name: service.processes for service in history.service.ListServices(timeout=10).services}
        check.equal(services, {"nginx": 1, "redis": 2})
        check.equal(stacks(history.service, service="redis"), {"f": 6})


def test_what_cannot_be_stored_is_counted_and_the_rest_is_stored():
    with History() as history:
        message = Message(service_name="api")
        stack = message.stack(message.location("f"))
        refused = ((("alloc_objects", "count"), ("", "", 0), 10), (("heat", "kelvin"), ("", "", 0), 10),
                   (("cpu", "nanoseconds"), ("", "", 0), 3601))
        for kind, period, seconds in refused:
            message.sample(message.profile(kind, period, seconds=seconds), stack, 5)
        message.sample(message.profile(), stack, 5)
        answer = export(history.service.channel, message).partial_success
        check.equal(answer.rejected_profiles, len(refused))
        check.contains(answer.error_message, '"alloc_objects" in "count" cannot be stored')
        check.equal(stacks(history.service, service="api"), {"f": 5})


def _refusal(channel, message, token=None):
    try:
        export(channel, message, token)
    except grpc.RpcError as error:
        return error.code(), error.details()
    return None


def _nested(levels):
    """A value in `levels` arrays."""
    heads, size = [], 3
    for _ in range(levels):
        for key in (b"\x0a", b"\x2a"):
            rest, head = size, key
            while rest > 127:
                head, rest = head + bytes([rest & 127 | 128]), rest >> 7
            heads.append(head + bytes([rest]))
            size += len(heads[-1])
    return b"".join(reversed(heads)) + b"\x0a\x01x"


def test_deeply_nested_values_are_refused():
    def raw(levels):
        data = _nested(levels)
        for key in (0x12, 0x0a, 0x0a, 0x0a):  # value, attributes, resource, resource_profiles
            rest, head = len(data), bytes([key])
            while rest > 127:
                head, rest = head + bytes([rest & 127 | 128]), rest >> 7
            data = head + bytes([rest]) + data
        return data

    with History() as history:
        for levels in (60, 12_000):
            try:
                export(history.service.channel, raw(levels))
                raise AssertionError(f"{levels} levels were accepted")
            except grpc.RpcError as error:
                check.equal(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
                assert "levels deep" in error.details(), error.details()
        export(history.service.channel, raw(30))
        history.service.GetHistoryInfo(timeout=10)


def test_bad_messages_are_refused_and_do_no_harm():
    with History() as history:
        channel = history.service.channel
        check.equal(_refusal(channel, b"\xff\xff")[0], grpc.StatusCode.INVALID_ARGUMENT)
        export(channel, Request())
        message = Message()  # indexes that point nowhere
        profile = message.profile()
        profile.samples.add(stack_index=900, values=[5], attribute_indices=[77, -1], link_index=9)
        message.sample(profile, message.stack(5000, -1), 6)
        profile.samples.add(stack_index=-3, values=[7])
        export(channel, message)
        check.equal(sum(stacks(history.service, service="unknown").values()), 18)
        message = Message(service_name="deep")
        profile, location = message.profile(), message.location("f")
        for index in range(1100):  # many services times one deep stack
            message.sample(profile, 1, 1, service_name=f"s{index % 4}-{index}")
        message.stack(*[location] * 4000)
        code, text = _refusal(channel, message) or (None, "stored")
        check.equal(code, None, text)  # 1,100 * 1,024 frames are within the bound
        message = Message()
        profile, location = message.profile(), message.location("f")
        for index in range(4097):
            message.sample(profile, 1, 1, process_pid=index + 1)
        message.stack(location)
        code, text = _refusal(channel, message)
        check.equal(code, grpc.StatusCode.INVALID_ARGUMENT)
        check.contains(text, "more than 4096 processes")
        del profile.samples[4096:]
        check.equal(_refusal(channel, message), None)
        message.tables.stack_table[1].location_indices.extend([location] * 1023)
        code, text = _refusal(channel, message)
        check.contains(text, "more than 4194304 frames")
        message = Message()
        profile, name = message.profile(), "n" * 8192
        locations = [message.location(name, mapping=message.mapping("/m"), address=index) for index in range(8300)]
        for at in range(0, len(locations), 1000):
            message.sample(profile, message.stack(*locations[at:at + 1000]), 1)
        code, text = _refusal(channel, message)
        check.contains(text, "bytes; send fewer profiles at once")


def test_export_needs_the_scope_control_and_is_listed():
    folder = check.short_folder()
    with open(f"{folder}/tokens", "w", opener=lambda path, flags: os.open(path, flags, 0o600), encoding="ascii") as tokens:
        tokens.write("reading-token-0123456789 read\nwriting-token-0123456789 control\n")
    with History("--token-file", f"{folder}/tokens") as history:
        reader = Service(f"unix:{history.folder}/grpc", token="reading-token-0123456789")
        check.equal(_refusal(reader.channel, Message(), "reading-token-0123456789")[0], grpc.StatusCode.PERMISSION_DENIED)
        check.equal(_refusal(reader.channel, Message(), "writing-token-0123456789"), None)
        reader.close()


PROGRAM = "int quiet_function(int n) { volatile int s = 0; for (int i = 0; i < n; i++) s += i; return s; }\n" \
          "int main(void) { return quiet_function(3); }\n"


def check_native_names(compiler):
    """History names a frame of a program that this compiler makes. Its file is mapped from its first byte on."""
    folder = check.short_folder()
    with open(f"{folder}/p.c", "w", encoding="ascii") as source:
        source.write(PROGRAM)
    subprocess.run([*compiler, "-O0", "-g", "-Wl,--build-id=sha1", "-o", f"{folder}/p", f"{folder}/p.c"], check=True)
    notes = subprocess.run(["readelf", "-nlW", f"{folder}/p"], check=True, capture_output=True, text=True).stdout
    build_id = re.search(r"Build ID: (\w+)", notes)[1]
    offset, vaddr = (int(number, 16) for number in re.search(r"LOAD +(\w+) (\w+) .* R E ", notes).groups())
    symbols = subprocess.run(["nm", f"{folder}/p"], check=True, capture_output=True, text=True).stdout
    address = int(re.search(r"(\w+) T quiet_function", symbols)[1], 16) + 4 - (vaddr - offset)
    uploads = f"{folder}/symbols/uploads/.build-id/{build_id[:2]}"
    os.makedirs(uploads, mode=0o700)
    os.chmod(f"{folder}/symbols", 0o700)
    os.rename(f"{folder}/p", f"{uploads}/{build_id[2:]}.debug")
    with History("--symbols", f"{folder}/symbols") as history:
        message = Message(service_name="p")
        file = message.mapping("/opt/p", build_id=build_id, start=0x5000_0000, limit=0x5100_0000)
        message.sample(message.profile(), message.stack(message.location(mapping=file, address=0x5000_0000 + address)), 5)
        export(history.service.channel, message)
        check.until(lambda: stacks(history.service, service="p") == {"quiet_function": 5}, what="the name")


def test_native_frames_get_their_names_from_debug_files():
    check_native_names(["gcc"])


def test_frames_of_arm64_machines_get_their_names_from_debug_files():
    check_native_names(["clang", "--target=aarch64-linux-gnu", "-nostdlib", "-fuse-ld=lld", "-Wl,-e,main"])


if __name__ == "__main__":
    check.main(globals())
