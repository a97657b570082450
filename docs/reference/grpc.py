# SPDX-License-Identifier: Apache-2.0
"""Writes the reference of the gRPC services as Markdown: grpc.py DESCRIPTORS FILE..., with the descriptors of protoc
--include_source_info. The text is that of the comments in the protos."""

import sys

from google.protobuf import descriptor_pb2

FIELD = descriptor_pb2.FieldDescriptorProto


def comments(file):
    """The comment of each element, by its path in the file's descriptor."""
    return {tuple(place.path): "\n".join(line.strip() for line in (place.leading_comments + place.trailing_comments).splitlines()).strip()
            for place in file.source_code_info.location}


def header(path):
    """The comment at the top of a proto."""
    lines = []
    with open(path, encoding="utf-8") as source:
        for line in source:
            if not line.startswith("//"):
                break
            if "SPDX" not in line:
                lines.append(line[2:].rstrip().removeprefix(" "))
    return "\n".join(lines).strip()


def kind_of(field):
    kind = field.type_name.rsplit(".", 1)[-1] or FIELD.Type.Name(field.type).removeprefix("TYPE_").lower()
    return ("repeated " if field.label == FIELD.LABEL_REPEATED else "") + kind


def cell(text):
    return " ".join(text.split()).replace("|", "\\|")


def write_enum(name, enum, path, notes):
    print(f"\n### enum {name}{enum.name}\n\n{notes.get(path, '')}\n\n| value | number | |\n|---|---|---|")
    for index, value in enumerate(enum.value):
        print(f"| `{value.name}` | {value.number} | {cell(notes.get((*path, 2, index), ''))} |")


def write_message(name, message, path, notes):
    print(f"\n### {name}{message.name}\n\n{notes.get(path, '')}")
    if message.field:
        print("\n| field | number | type | |\n|---|---|---|---|")
    for index, field in enumerate(message.field):
        print(f"| `{field.name}` | {field.number} | {kind_of(field)} | {cell(notes.get((*path, 2, index), ''))} |")
    for index, nested in enumerate(message.nested_type):
        write_message(f"{name}{message.name}.", nested, (*path, 3, index), notes)
    for index, enum in enumerate(message.enum_type):
        write_enum(f"{name}{message.name}.", enum, (*path, 4, index), notes)


def write_service(service, index, notes):
    print(f"\n## service {service.name}\n\n{notes.get((6, index), '')}")
    for at, method in enumerate(service.method):
        words = [("stream " if stream else "") + kind.rsplit(".", 1)[-1] for stream, kind in
                 ((method.client_streaming, method.input_type), (method.server_streaming, method.output_type))]
        print(f"\n### {service.name}.{method.name}\n\n`{words[0]}` → `{words[1]}`\n\n{notes.get((6, index, 2, at), '')}")


def main():
    with open(sys.argv[1], "rb") as data:
        files = descriptor_pb2.FileDescriptorSet.FromString(data.read()).file
    print("# gRPC services")
    for path in sys.argv[2:]:
        file = next(file for file in files if path.endswith(file.name))
        notes = comments(file)
        print(f"\n# {file.name}\n\n{header(path)}")
        for index, service in enumerate(file.service):
            write_service(service, index, notes)
        print(f"\n## Messages of {file.name}")
        for index, message in enumerate(file.message_type):
            write_message("", message, (4, index), notes)
        for index, enum in enumerate(file.enum_type):
            write_enum("", enum, (5, index), notes)


main()
