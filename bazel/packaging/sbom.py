# SPDX-License-Identifier: Apache-2.0
"""Writes an SBOM (SPDX 2.3, JSON) of what programs are linked with and carry: sbom.py VERSION TIME PREFIX PROGRAM...

Shared libraries come from the programs' NEEDED entries, and the private copies from the list that bundle.py wrote below PREFIX. The
Debian package that owns a library has its name and version. Static libraries are found by a function that a program then has."""

import csv
import datetime
import hashlib
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "bundle"))
import debian_packages  # noqa: E402


def make_id(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def package(name, version, purpose="LIBRARY"):
    # NOASSERTION: the licence of a Debian package is in /usr/share/doc/PACKAGE/copyright, in more words than one.
    entry = {"SPDXID": make_id(name), "name": name, "versionInfo": version,
             "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
             "licenseDeclared": "Apache-2.0" if purpose == "APPLICATION" else "NOASSERTION", "copyrightText": "NOASSERTION",
             "primaryPackagePurpose": purpose}
    if purpose == "LIBRARY":
        entry["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                  "referenceLocator": f"pkg:deb/debian/{name}@{version}?arch=amd64&distro=debian-12"}]
    return entry


def file_entry(prefix, name):
    path = os.path.join("lib/sonde", name)
    with open(os.path.join(prefix, path), "rb") as file:
        data = file.read()
    return {"SPDXID": make_id("File-" + name), "fileName": "./" + path, "licenseConcluded": "NOASSERTION",
            "copyrightText": "NOASSERTION", "fileTypes": ["BINARY"],
            "checksums": [{"algorithm": kind, "checksumValue": hashlib.new(kind, data).hexdigest()} for kind in ("SHA1", "SHA256")]}


class Document:
    def __init__(self, version, prefix):
        self.version, self.prefix = version, prefix
        self.packages, self.files, self.relations, self.digest = {}, [], set(), hashlib.sha256()

    def add_program(self, program):
        name, paths = os.path.basename(program), debian_packages.find_paths(program)
        with open(program, "rb") as file:
            self.digest.update(file.read())
        self.packages[name] = package(name, self.version, "APPLICATION")
        self.relations.add(("SPDXRef-DOCUMENT", "DESCRIBES", make_id(name)))
        shared = [debian_packages.find_owner(paths[library]) for library in debian_packages.find_needed(program) if library in paths]
        for kind, owners in (("DYNAMIC_LINK", shared), ("STATIC_LINK", debian_packages.find_static(program))):
            for owner in filter(None, owners):
                self.packages.setdefault(owner.name, package(owner.name, owner.version))
                self.relations.add((make_id(name), kind, make_id(owner.name)))

    def add_copies(self):
        """The files of lib/sonde, and which of them need which."""
        with open(f"{self.prefix}/share/doc/sonde/libraries/LIBRARIES.tsv", encoding="utf-8", newline="") as table:
            rows = [row for row in csv.DictReader(table, delimiter="\t") if row["file"].startswith("lib/sonde/")]
        owners = {os.path.basename(row["file"]): row["package"] for row in rows}
        for row in rows:
            name = os.path.basename(row["file"])
            self.packages.setdefault(row["package"], package(row["package"], row["version"]))
            self.files.append(file_entry(self.prefix, name))
            self.relations.add((make_id(row["package"]), "CONTAINS", make_id("File-" + name)))
            for needed in debian_packages.find_needed(os.path.join(self.prefix, row["file"])):
                if owners.get(needed, row["package"]) != row["package"]:
                    self.relations.add((make_id(row["package"]), "DYNAMIC_LINK", make_id(owners[needed])))

    def write(self, time, out):
        created = datetime.datetime.fromtimestamp(time, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        json.dump({
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"sonde-{self.version}",
            "documentNamespace": f"urn:sonde:{self.version}:{self.digest.hexdigest()}",
            "creationInfo": {"created": created, "creators": [f"Tool: sonde-sbom-{self.version}"]},
            "packages": [self.packages[name] for name in sorted(self.packages)],
            "files": self.files,
            "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                              for a, kind, b in sorted(self.relations)],
        }, out, indent=1)
        print(file=out)


def main():
    document = Document(sys.argv[1], sys.argv[3])
    for program in sys.argv[4:]:
        document.add_program(program)
    document.add_copies()
    document.write(int(sys.argv[2]), sys.stdout)


main()
