# SPDX-License-Identifier: Apache-2.0
"""Writes an SBOM (SPDX 2.3, JSON) of what programs are linked with: sbom.py VERSION TIME PROGRAM...

Shared libraries come from the programs' NEEDED entries. Static ones leave no such trace, so they are listed here, with a symbol that
shows that they are in. The Debian package that owns a library has its name and version."""

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys

# Debian package: a name that a program has if it contains the library.
STATIC = {"libiberty-dev": "cplus_demangle_fill_name", "libnanopb-dev": "pb_decode"}


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def needed(program):
    return re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", program))


def find_paths(program):
    """The file of each library: {"libz.so.1": "/lib/..."}."""
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", program), re.M))


def owner(path):
    """(package, version) of a file; the package may know it without /usr."""
    real = os.path.realpath(path)
    for name in (real, real.removeprefix("/usr"), path):
        found = re.match(r"([^:,\s]+)[^\s]*: ", run("dpkg-query", "-S", name))
        if found:
            return found[1], run("dpkg-query", "-W", "-f", "${Version}", found[1]).split("\n")[0]
    return os.path.basename(path), "NOASSERTION"


def package(name, version, purpose="LIBRARY"):
    # NOASSERTION: the licence of a Debian package is in /usr/share/doc/PACKAGE/copyright, in more words than one.
    entry = {"SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name), "name": name, "versionInfo": version,
             "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
             "licenseDeclared": "Apache-2.0" if purpose == "APPLICATION" else "NOASSERTION", "copyrightText": "NOASSERTION",
             "primaryPackagePurpose": purpose}
    if purpose == "LIBRARY":
        entry["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                  "referenceLocator": f"pkg:deb/debian/{name}@{version}?arch=amd64&distro=debian-12"}]
    return entry


def main():
    version, time, programs = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    packages, relations, digest = {}, set(), hashlib.sha256()
    for program in programs:
        name, paths = os.path.basename(program), find_paths(program)
        with open(program, "rb") as file:
            digest.update(file.read())
        packages[name] = package(name, version, "APPLICATION")
        relations.add(("SPDXRef-DOCUMENT", "DESCRIBES", packages[name]["SPDXID"]))
        libraries = [owner(paths[library]) + ("DYNAMIC_LINK",) for library in needed(program) if library in paths]
        symbols = run("nm", program)
        libraries += [(source, run("dpkg-query", "-W", "-f", "${Version}", source), "STATIC_LINK")
                      for source, symbol in STATIC.items() if re.search(rf" [Tt] {symbol}\b", symbols)]
        for library, library_version, kind in libraries:
            packages.setdefault(library, package(library, library_version))
            relations.add((packages[name]["SPDXID"], kind, packages[library]["SPDXID"]))
    created = datetime.datetime.fromtimestamp(time, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    json.dump({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"sonde-{version}",
        "documentNamespace": f"urn:sonde:{version}:{digest.hexdigest()}",
        "creationInfo": {"created": created, "creators": [f"Tool: sonde-sbom-{version}"]},
        "packages": [packages[name] for name in sorted(packages)],
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in sorted(relations)],
    }, sys.stdout, indent=1)
    print()


main()
