# SPDX-License-Identifier: Apache-2.0
"""Which Debian packages the code in a program or library comes from."""

import os
import re
import subprocess
from collections import namedtuple

# The package that has a file; source is "openssl=3.0.17-1~deb12u2".
Package = namedtuple("Package", "name version source")

# A package whose library is linked statically, and a function that a program then has.
STATIC = {
    "libiberty-dev": "cplus_demangle_fill_name",
    "libnanopb-dev": "pb_decode",
    "libbpf-dev": "bpf_object__load",
    "libelf-dev": "elf_begin",
    "zlib1g-dev": "inflate",
    "libseccomp-dev": "seccomp_load",
}


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def describe(name):
    fields = run("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${source:Package}=${source:Version}\n", name).split("\n")[0].split("\t")
    return Package(*fields) if len(fields) == 3 else None


def find_owner(path):
    """The package of a file, or None. dpkg may know the file without /usr."""
    real = os.path.realpath(path)
    for name in (real, real.removeprefix("/usr"), path):
        if found := re.match(r"([^:,\s]+)", run("dpkg-query", "-S", name)):
            return describe(found[1] + ":amd64") or describe(found[1])
    return None


def find_static(program):
    """The packages of libraries that were linked into the program, which must not be stripped."""
    symbols = run("nm", program)
    return [describe(name) for name, symbol in STATIC.items() if re.search(rf" [Tt] {symbol}\b", symbols)]


def find_needed(file):
    return re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", file))


def find_paths(file):
    """The file of each library: {"libz.so.1": "/lib/..."}."""
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", file), re.M))
