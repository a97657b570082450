#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# build_tarball.sh TREE OUT: sonde-VERSION-linux-x86_64.tar.gz for distributions other than Debian 12. It has private copies of all
# libraries but glibc's (bundle/bundle.py). NEEDS.txt says what it needs of a system (measured), and beside it is the SBOM.
set -euo pipefail
tree=$1 out=$2
. "$(awk -F'\t' '$1 == "bazel/packaging/tree.sh" { print $2 }' "$tree")" "$tree" "$out"
cd "$work"
PATH=$PATH:/usr/sbin:/sbin
name=sonde-$version-linux-x86_64 packaging=tree/bazel/packaging
command -v patchelf >/dev/null || { echo "patchelf is not installed: run bazel/install_deps.sh --tests" >&2; exit 1; }
(cd tree && DESTDIR=$work bash bazel/install/install.sh --prefix "/$name" >/dev/null)
install -m 755 tree/service/host/sampler/sonde-sampler-static "$name/bin/sonde-sampler"
mkdir -p "$name/share/sonde/systemd/examples" "$name/share/sonde/config" unstripped
cp $packaging/systemd/*.service "$name/share/sonde/systemd/"
cp $packaging/systemd/examples/*.conf "$name/share/sonde/systemd/examples/"
cp $packaging/config/* "$name/share/sonde/config/"

# strip comes before patchelf, whose output it cannot change.
programs=("$name"/bin/*)
cp "${programs[@]}" unstripped/
for file in "${programs[@]}" "$name/lib/libsonde.so"; do strip --strip-unneeded "$file"; done
/usr/bin/python3 -B $packaging/bundle/bundle.py "$name" $packaging/bundle/libsonde-glibc.so unstripped "${programs[@]}"
/usr/bin/python3 -B $packaging/sbom.py "$version" "$SOURCE_DATE_EPOCH" "$name" unstripped/* "$name/lib/libsonde.so" >"$name/sbom.spdx.json"

newest() { # files; the newest version of glibc that one of them needs
    for file in "$@"; do objdump -T "$file"; done | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1
}
{
    echo "The programs of this archive need Linux on x86-64 with these libraries of glibc, and nothing else:"
    for file in "${programs[@]}" "$name"/lib/sonde/*; do objdump -p "$file"; done | sed -n 's/^  NEEDED */    /p' |
        grep -vxFf <(cd "$name/lib/sonde" && printf '    %s\n' *) | sort -u
    echo
    echo "Newest version of glibc's functions that they use, measured when the archive was built:"
    for file in "${programs[@]}" "$name/lib/libsonde.so"; do echo "    $(newest "$file")  ${file#"$name"/}"; done
    echo "    $(newest "$name"/lib/sonde/*)  lib/sonde/* ($(ls "$name/lib/sonde" | wc -l) libraries)"
} >"$name/NEEDS.txt"

mkdir -p "$out"
cp "$name/sbom.spdx.json" "$out/$name.spdx.json"
cp "$name/NEEDS.txt" "$out/"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
