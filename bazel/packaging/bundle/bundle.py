# SPDX-License-Identifier: Apache-2.0
"""Puts private copies of the shared libraries that programs need beside them: bundle.py PREFIX GLIBC_LATER.so UNSTRIPPED PROGRAM...

Each program finds PREFIX/lib/sonde/*.so by its own DT_RPATH, $ORIGIN/../lib/sonde, which also holds for the libraries of its
libraries and for dlopen; DT_RUNPATH would not. Only glibc stays the system's, and nothing here needs one newer than 2.34.
PREFIX/share/doc/sonde/libraries has a list of the files with their Debian packages, and the licences of these. The folder UNSTRIPPED has
the programs with their symbols, which show what is linked statically."""

import glob
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import debian_packages  # noqa: E402
import elf_versions  # noqa: E402

GLIBC = re.compile(r"(lib(c|m|pthread|dl|rt|resolv|util|anl|nsl|mvec|BrokenLocale)|ld-linux-x86-64|linux-vdso)\.so\.")
LIMIT = (2, 34)
REPLACED = ("_dl_find_object", "arc4random")
# Programs load these with dlopen: HTTP for history, exports and debuginfod, sonded's comparison of its unwinding, and its disassembler.
LOADED = ("libcurl.so.4", "libunwind-x86_64.so.8", "libcapstone.so.4")
RPATH = "$ORIGIN/../lib/sonde"


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def find_loaded():
    """The paths of LOADED."""
    known = dict(re.findall(r"^\s*(\S+) \(libc6,x86-64[^)]*\) => (\S+)", run("/sbin/ldconfig", "-p"), re.M))
    if absent := [name for name in LOADED if name not in known]:
        raise SystemExit(f"{', '.join(absent)} is not installed: run bazel/install_deps.sh --tests")
    return [known[name] for name in LOADED]


def find_libraries(files):
    """{"libz.so.1": path} of all libraries that the files need, without glibc's."""
    libraries = {}
    for file in files:
        said = run("ldd", file)
        if absent := re.findall(r"^\s*(\S+) => not found", said, re.M):
            raise SystemExit(f"{file} needs {', '.join(absent)}, which is not installed: run bazel/install_deps.sh --tests")
        libraries.update(re.findall(r"^\s*(\S+) => (/\S+)", said, re.M))
    return {name: path for name, path in libraries.items() if not GLIBC.match(name)}


def copy(path, to):
    """A private copy, without what a path of its own would change."""
    shutil.copyfile(os.path.realpath(path), to)
    os.chmod(to, 0o755)
    if run("patchelf", "--print-rpath", to).strip():
        run("patchelf", "--remove-rpath", to)
    if elf_versions.newest(to) > LIMIT:
        elf_versions.lower(to, LIMIT, REPLACED)
        run("patchelf", "--add-needed", "libsonde-glibc.so", to)


def copy_licences(package, folder):
    """The package's copyright file, and the texts that it only refers to."""
    try:
        with open(f"/usr/share/doc/{package}/copyright", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError as error:
        raise SystemExit(f"the licence of {package} cannot be read: {error}") from error
    with open(f"{folder}/{package}.copyright", "w", encoding="utf-8") as file:
        file.write(text)
    for name in set(re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", text)):
        if os.path.isfile(f"/usr/share/common-licenses/{name}"):
            shutil.copyfile(f"/usr/share/common-licenses/{name}", f"{folder}/{name}")


def find_sources(libraries, programs):
    """(file below the prefix, package): the copies, and the programs with what is linked into them."""
    sources = []
    for name, path in libraries.items():
        if not (owner := debian_packages.find_owner(path)):
            raise SystemExit(f"{path} does not belong to a Debian package, so its licence is not known")
        sources.append((f"lib/sonde/{name}", owner))
    for program in programs:
        sources += [(f"bin/{os.path.basename(program)}", owner) for owner in debian_packages.find_static(program)]
    return sorted(sources)


def write_list(sources, folder):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/LIBRARIES.tsv", "w", encoding="utf-8") as file:
        file.write("file\tpackage\tversion\tsource\n")
        for name, owner in sources:
            file.write("\t".join((name,) + owner) + "\n")
            copy_licences(owner.name, folder)


def check(files):
    for file in files:
        if elf_versions.newest(file) > LIMIT:
            raise SystemExit(f"{file} needs glibc {'.'.join(map(str, elf_versions.newest(file)))}, newer than 2.34")


def main():
    prefix, later, unstripped, programs = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    folder = f"{prefix}/lib/sonde"
    libraries = find_libraries(programs + find_loaded())
    libraries.update({os.path.basename(path): path for path in find_loaded()})
    os.makedirs(folder, exist_ok=True)
    for name, path in libraries.items():
        copy(path, f"{folder}/{name}")
    shutil.copyfile(later, f"{folder}/libsonde-glibc.so")
    os.chmod(f"{folder}/libsonde-glibc.so", 0o755)
    for program in programs:
        run("patchelf", "--force-rpath", "--set-rpath", RPATH, program)
    sources = find_sources(libraries, sorted(glob.glob(f"{unstripped}/*")))
    write_list(sources, f"{prefix}/share/doc/sonde/libraries")
    check(programs + glob.glob(f"{folder}/*"))


main()
