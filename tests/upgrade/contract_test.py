# SPDX-License-Identifier: Apache-2.0
"""Nothing that a client, a service or a guest of an earlier release relies on has gone from the protos or has changed.

contract-VERSION.txt has a line for each field, enum value and method of that release: `contract_test.py --write` prints those of
this tree. Add a file for each release; never change one."""

import glob
import os
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

PROTOS = ("profiler", "history", "controller", "guest")
FIELD = descriptor_pb2.FieldDescriptorProto


def descriptors():
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "all.desc")
        subprocess.run(["protoc", "-Iproto", f"--descriptor_set_out={out}", *(f"proto/sonde/v1/{name}.proto" for name in PROTOS)],
                       check=True)
        with open(out, "rb") as file:
            return descriptor_pb2.FileDescriptorSet.FromString(file.read())


def of_enum(prefix, enum):
    for value in enum.value:
        yield f"value {prefix}.{enum.name}.{value.name} {value.number}"


def of_message(prefix, message):
    name = f"{prefix}.{message.name}"
    for field in message.field:
        kind = field.type_name.lstrip(".") or FIELD.Type.Name(field.type).removeprefix("TYPE_").lower()
        repeated = "repeated " if field.label == FIELD.LABEL_REPEATED else ""
        yield f"field {name}.{field.name} {field.number} {repeated}{kind}"
    for enum in message.enum_type:
        yield from of_enum(name, enum)
    for nested in message.nested_type:
        yield from of_message(name, nested)


def of_service(prefix, service):
    for method in service.method:
        words = [("stream " if stream else "") + kind.lstrip(".") for stream, kind in
                 ((method.client_streaming, method.input_type), (method.server_streaming, method.output_type))]
        yield f"method {prefix}.{service.name}.{method.name} {words[0]} -> {words[1]}"


def contract():
    for file in descriptors().file:
        for message in file.message_type:
            yield from of_message(file.package, message)
        for enum in file.enum_type:
            yield from of_enum(file.package, enum)
        for service in file.service:
            yield from of_service(file.package, service)


def main():
    now = set(contract())
    if sys.argv[1:] == ["--write"]:
        print("\n".join(sorted(now)))
        return 0
    failed = 0
    files = glob.glob("tests/upgrade/contract-*.txt")
    for path in files:
        with open(path, encoding="ascii") as lines:
            gone = sorted(set(lines.read().splitlines()) - now)
        print(f"{'FAILED' if gone else 'ok'}  {path}: {len(gone)} promises are broken", *gone, sep="\n  ")
        failed += bool(gone)
    return 1 if failed or not files else 0


sys.exit(main())
