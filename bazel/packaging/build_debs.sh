#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# build_debs.sh TREE OUT [PACKAGE...]: builds the Debian packages, or only those named, with debhelper. The result depends on nothing
# but the files: the date is that of the version in CHANGELOG.md, and paths of the build are not in it.
set -euo pipefail
tree=$1 out=$2
. "$(awk -F'\t' '$1 == "bazel/packaging/tree.sh" { print $2 }' "$tree")" "$tree" "$out"
shift 2

cd "$work"
mkdir -p build/debian build/stage/guest
cp -r tree/bazel/packaging/debian/. build/debian/
cp tree/CHANGELOG.md build/
for unit in tree/bazel/packaging/systemd/*.service; do
    [ -e "$unit" ] && cp "$unit" build/debian/
done
if [ -e tree/clients/cli/sonde ]; then
    (cd tree && DESTDIR=$work/build/stage bash bazel/install/install.sh --prefix /usr >/dev/null)
    rm -r build/stage/usr/lib build/stage/usr/lib64 2>/dev/null || true
    rm build/stage/usr/share/doc/sonde/LICENSE
    cp tree/bazel/packaging/config/sonde-collect.default build/debian/
    for file in tree/bazel/packaging/config/*.conf; do
        install -D -m 644 "$file" "build/stage/etc/sonde/$(basename "$file")"
    done
    for file in tree/bazel/packaging/systemd/examples/*.conf; do
        install -D -m 644 "$file" "build/stage/usr/share/doc/sonde/systemd/$(basename "$file")"
    done
else # only the guest's packages
    install -D -m 644 tree/api/sonde.h build/stage/usr/include/sonde.h
    mkdir -p build/stage/usr/share/sonde/proto
    cp -r tree/proto/sonde build/stage/usr/share/sonde/proto/
    find build/stage -name 'guest.*' -delete
fi
install -m 755 tree/service/guest/libsonde.so.0 build/stage/guest/

cat >build/debian/changelog <<CHANGELOG
sonde ($version-1) unstable; urgency=medium

  * New release; see changelog.gz for what has changed.

 -- $(sed -n 's/^Maintainer: //p' build/debian/control)  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGELOG

only=()
for package in "$@"; do only+=("-p$package"); done
cd build
export DPKG_DEB_THREADS_MAX=1 DH_INTERNAL_OPTIONS= DEB_BUILD_OPTIONS=parallel=1 HOME=$work
if ! DH_OPTIONS="${only[*]:-}" dh binary --without autoreconf >"$work/log" 2>&1; then
    tail -40 "$work/log" >&2
    exit 1
fi
grep warning "$work/log" | grep -v 'useless dependency\|No packages to build' >&2 || true
mkdir -p "$out"
cp "$work"/*.deb "$out/"
