# SPDX-License-Identifier: Apache-2.0
"""Writes small pprof files for tests of the page."""


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    """A number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


class ProfileFile:
    """Collects stacks. Frames are names, or (name, module, file, line); names may be bytes. build_id: of all modules."""

    def __init__(self, types=(("samples", "count"), ("cpu", "nanoseconds")), build_id=""):
        self.build_id = build_id
        self.strings, self.modules, self.frames, self.parts = {b"": 0}, {}, {}, []
        for kind, unit in types:
            self.parts.append(field(1, field(1, self.text(kind)) + field(2, self.text(unit))))

    def text(self, text):
        return self.strings.setdefault(text.encode() if isinstance(text, str) else text, len(self.strings))

    def module(self, path):
        if path not in self.modules:
            number = self.modules[path] = len(self.modules) + 1
            self.parts.append(field(3, field(1, number) + field(2, number << 24) + field(3, (number + 1) << 24) + field(5, self.text(path)) + (field(6, self.text(self.build_id)) if self.build_id else b"")))
        return self.modules[path]

    def frame(self, frame):
        name, module, file, line = (frame if isinstance(frame, tuple) else (frame,)) + ("", "", 0)[len(frame) - 1 if isinstance(frame, tuple) else 0:]
        key = (name, module, file, line)
        if key not in self.frames:
            mapping = self.module(module or "/srv/program")
            number = self.frames[key] = len(self.frames) + 1
            self.parts.append(field(5, field(1, number) + field(2, self.text(name)) + field(4, self.text(file))))
            self.parts.append(field(4, field(1, number) + field(2, mapping) + field(3, (mapping << 24) + number)
                                    + field(4, field(1, number) + field(2, line))))
        return self.frames[key]

    def add(self, stack, values, labels=()):
        """A stack, outermost first."""
        locations = b"".join(varint(self.frame(frame)) for frame in reversed(stack))
        sample = field(1, locations) + field(2, b"".join(varint(value) for value in values))
        for key, value in labels:
            sample += field(3, field(1, self.text(key)) + (field(3, value) if isinstance(value, int) else field(2, self.text(value))))
        self.parts.append(field(2, sample))
        return self

    def bytes(self):
        return b"".join(self.parts) + b"".join(field(6, text) for text in self.strings)
