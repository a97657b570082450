# SPDX-License-Identifier: Apache-2.0
"""OTLP profiles for tests, made with classes that protoc generates from the pinned protos."""

import os
import subprocess
import sys

from tests.cli import check

PROTOS = ("opentelemetry/profiles.proto", "opentelemetry/profiles_service.proto")


def _generate():
    folder = check.short_folder()
    subprocess.run(["protoc", "-Iproto", f"--python_out={folder}", *(f"proto/{path}" for path in PROTOS)], check=True)
    sys.path.insert(0, folder)


_generate()
from opentelemetry import profiles_pb2, profiles_service_pb2  # noqa: E402

Request, Response = profiles_service_pb2.ExportProfilesServiceRequest, profiles_service_pb2.ExportProfilesServiceResponse
METHOD = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"


class Message:
    """An Export request that grows: each method returns the index of what it added."""

    def __init__(self, **resource):
        self.request = Request()
        self.tables = self.request.dictionary
        self._strings = {}
        self.string("")
        for table in ("mapping", "location", "function", "link", "attribute", "stack"):
            getattr(self.tables, table + "_table").add()
        self.resource = self.request.resource_profiles.add()
        for name, value in resource.items():
            attribute = self.resource.resource.attributes.add(key=name.replace("_", "."))
            setattr(attribute.value, "int_value" if isinstance(value, int) else "string_value", value)
        self.scope = self.resource.scope_profiles.add()

    def string(self, text):
        if text not in self._strings:
            self._strings[text] = len(self.tables.string_table)
            self.tables.string_table.append(text)
        return self._strings[text]

    def attribute(self, name, value):
        attribute = self.tables.attribute_table.add(key_strindex=self.string(name))
        setattr(attribute.value, "int_value" if isinstance(value, int) else "string_value", value)
        return len(self.tables.attribute_table) - 1

    def mapping(self, file, build_id=None, start=0, limit=0, offset=0):
        indices = [self.attribute("process.executable.build_id.gnu", build_id)] if build_id else []
        self.tables.mapping_table.add(memory_start=start, memory_limit=limit, file_offset=offset,
                                      filename_strindex=self.string(file), attribute_indices=indices)
        return len(self.tables.mapping_table) - 1

    def location(self, *names, mapping=0, address=0, kind=None):
        lines = []
        for name in names:
            self.tables.function_table.add(name_strindex=self.string(name), filename_strindex=self.string("a.c"))
            lines.append(profiles_pb2.Line(function_index=len(self.tables.function_table) - 1, line=7))
        indices = [self.attribute("profile.frame.type", kind)] if kind else []
        self.tables.location_table.add(mapping_index=mapping, address=address, lines=lines, attribute_indices=indices)
        return len(self.tables.location_table) - 1

    def stack(self, *locations):
        self.tables.stack_table.add(location_indices=locations)
        return len(self.tables.stack_table) - 1

    def profile(self, kind=("cpu", "nanoseconds"), period=("cpu", "nanoseconds", 10_000_000), begin=1_700_000_000, seconds=10,
                identity=b""):
        return self.scope.profiles.add(
            sample_type=self._type(*kind), period_type=self._type(*period[:2]), period=period[2],
            time_unix_nano=begin * 10**9, duration_nano=seconds * 10**9, profile_id=identity)

    def _type(self, name, unit):
        return profiles_pb2.ValueType(type_strindex=self.string(name), unit_strindex=self.string(unit))

    def sample(self, profile, stack, *values, times=(), **attributes):
        profile.samples.add(stack_index=stack, values=values, timestamps_unix_nano=times,
                            attribute_indices=[self.attribute(name.replace("_", "."), value) for name, value in attributes.items()])


def export(channel, message, token=None):
    """Sends a Message, a Request, or bytes; returns the response."""
    request = getattr(message, "request", message)
    data = request if isinstance(request, bytes) else request.SerializeToString()
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    return Response.FromString(channel.unary_unary(METHOD)(data, timeout=20, metadata=metadata))
