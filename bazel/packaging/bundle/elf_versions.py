# SPDX-License-Identifier: Apache-2.0
"""Makes an ELF file ask for some functions of glibc without a version, so that an older glibc loads it if another library has them.

A file lists the versions that it needs in .gnu.version_r, and the version of each symbol in .gnu.version. If the list names one that
glibc does not have, ld.so refuses the file, whatever the symbol is. patchelf clears the symbol's version but leaves the list."""

import struct

DYNSYM, VERSYM, VERNEED = 11, 0x6FFFFFFF, 0x6FFFFFFE
GLOBAL = 1  # the index of symbols without a version


def read_sections(data):
    """{type: (offset, size, linked section's offset)}"""
    assert data[:6] == b"\x7fELF\x02\x01", "not a 64-bit little-endian ELF file"
    table, = struct.unpack_from("<Q", data, 40)
    entry, count = struct.unpack_from("<HH", data, 58)
    headers = [struct.unpack_from("<IIQQQQII", data, table + entry * i) for i in range(count)]
    return {header[1]: (header[4], header[5], headers[header[6]][4] if header[6] < count else 0) for header in headers}


def read_text(data, at):
    return bytes(data[at:data.index(b"\0", at)]).decode()


def read_needed_versions(data, section):
    """Entries of libraries' versions: (library, version, index, offset of the entry)."""
    at, size, strings = section
    entries = []
    while size:
        _, count, file, first, following = struct.unpack_from("<HHIII", data, at)
        entry = at + first
        for _ in range(count):
            _, _, index, name, later = struct.unpack_from("<IHHII", data, entry)
            entries.append((read_text(data, strings + file), read_text(data, strings + name), index, entry))
            entry += later
        if not following:
            break
        at += following
    return entries


def number(version):
    """(2, 34) of GLIBC_2.34; nothing of GLIBC_PRIVATE."""
    digits = version.removeprefix("GLIBC_").split(".")
    return tuple(int(digit) for digit in digits) if version.startswith("GLIBC_") and digits[0].isdigit() else ()


def newest(path):
    """The newest version of glibc that a file needs: (2, 34)."""
    with open(path, "rb") as file:
        data = file.read()
    section = read_sections(data).get(VERNEED)
    return max((number(entry[1]) for entry in read_needed_versions(data, section)), default=()) if section else ()


def find_symbols(data, sections, index):
    """{name: offset of its version} of the symbols that have a version's index."""
    symbols, size, strings = sections[DYNSYM]
    versions = sections[VERSYM][0]
    found = {}
    for i in range(size // 24):
        if struct.unpack_from("<H", data, versions + 2 * i)[0] & 0x7FFF == index:
            found[read_text(data, strings + struct.unpack_from("<I", data, symbols + 24 * i)[0])] = versions + 2 * i
    return found


def lower(path, limit, replaced):
    """Changes the file so that it needs no glibc newer than limit. Only functions in `replaced` may be newer."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    sections = read_sections(data)
    entries = read_needed_versions(data, sections[VERNEED])
    for library, version, index, at in entries:
        if number(version) <= limit:
            continue
        symbols = find_symbols(data, sections, index)
        if unknown := sorted(set(symbols) - set(replaced)):
            raise SystemExit(f"{path} needs {version} for {', '.join(unknown)}: add it to glibc_later.c")
        for offset in symbols.values():
            struct.pack_into("<H", data, offset, GLOBAL)
        # The entry cannot be removed. It becomes a second one of the newest version that is allowed.
        kept = max((entry for entry in entries if entry[0] == library and number(entry[1]) <= limit), key=lambda entry: number(entry[1]))
        struct.pack_into("<I", data, at, struct.unpack_from("<I", data, kept[3])[0])
        struct.pack_into("<I", data, at + 8, struct.unpack_from("<I", data, kept[3] + 8)[0])
    with open(path, "wb") as file:
        file.write(data)
