#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# build_tarball.sh TREE OUT: sonde-VERSION-linux-x86_64.tar.gz for distributions other than Debian, with NEEDS.txt, which says what
# it needs of them (measured), and beside it the SBOM.
set -euo pipefail
tree=$1 out=$2
. "$(awk -F'\t' '$1 == "bazel/packaging/tree.sh" { print $2 }' "$tree")" "$tree" "$out"
cd "$work"
name=sonde-$version-linux-x86_64
(cd tree && DESTDIR=$work bash bazel/install/install.sh --prefix "/$name" >/dev/null)
mkdir -p "$name/share/sonde/systemd/examples" "$name/share/sonde/config"
cp tree/bazel/packaging/systemd/*.service "$name/share/sonde/systemd/"
cp tree/bazel/packaging/systemd/examples/*.conf "$name/share/sonde/systemd/examples/"
cp tree/bazel/packaging/config/* "$name/share/sonde/config/"

programs=("$name"/bin/* "$name/lib/libsonde.so")
newest() { # file, prefix of symbol versions
    objdump -T "$1" | grep -o "$2_[0-9.]*" | sort -Vu | tail -1
}
{
    echo "What the programs of this archive need of a distribution, measured when it was built:"
    for file in "${programs[@]}"; do
        echo
        echo "${file#"$name"/}: $(newest "$file" GLIBC)"
        objdump -p "$file" | sed -n 's/^  NEEDED */    /p' | sort
    done
} >"$name/NEEDS.txt"
/usr/bin/python3 tree/bazel/packaging/sbom.py "$version" "$SOURCE_DATE_EPOCH" "${programs[@]}" >"$name/sbom.spdx.json"

mkdir -p "$out"
cp "$name/sbom.spdx.json" "$out/$name.spdx.json"
cp "$name/NEEDS.txt" "$out/"
for file in "${programs[@]}"; do strip --strip-unneeded "$file"; done
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
