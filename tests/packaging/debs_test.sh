#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# All Debian packages: two builds are equal, lintian finds no errors, and a fresh Debian 12 installs, upgrades, removes and purges
# them (in_chroot.sh). It needs root and the network, for mmdebstrap and apt; where that is refused, it says so and skips that part.
# Manual, because it takes up to half an hour:
#     bazel test -c opt //tests/packaging:debs_test
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin
failed=0
check() { # sentence, command...
    local sentence=$1
    shift
    if "$@"; then echo "ok      $sentence"; else echo "FAILED  $sentence"; failed=1; fi
}
skip() {
    echo "SKIP: debs_test: $1"
    exit $failed
}
debs=bazel/packaging/debs again=bazel/packaging/debs_again
check "there are seven packages with debug symbols of six" bash -c "[ \$(ls $debs/*.deb | wc -l) = 13 ] && [ \$(ls $debs/*-dbgsym_* | wc -l) = 6 ]"
check "two builds are equal, bit for bit" diff <(cd "$debs" && sha256sum ./*.deb) <(cd "$again" && sha256sum ./*.deb)
lintian --fail-on error --allow-root "$debs"/*.deb >lintian.said 2>&1
check "lintian finds no errors" test $? -eq 0
grep '^E:' lintian.said

[ "$(id -u)" = 0 ] || skip "only root may chroot"
room=$(mktemp -d "${SONDE_CHROOTS:-/var/tmp}/sonde-debs.XXXXXX")
trap 'rm -rf --one-file-system "$room"' EXIT
# Its own mounts, processes and, with "-n", network: the services listen at their default port, and nothing of them is left. Without
# Bazel's environment, which names folders that only its tests have.
inside() { # flags of unshare, command
    unshare -mpf --kill-child $1 bash -c 'ip link set lo up 2>/dev/null
        mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount -t tmpfs tmpfs "$0/run" && mount -t sysfs sysfs "$0/sys" &&
        chroot "$0" env -i PATH="$PATH" bash -c "$1"' "$room/root" "$2"
}
# A chroot that exists already (mmdebstrap --variant=minbase bookworm BASE.tar) saves the download.
if [ -n "${SONDE_CHROOT_BASE:-}" ]; then
    mkdir "$room/root" && tar -C "$room/root" --exclude='./dev/*' -xf "$SONDE_CHROOT_BASE" || skip "$SONDE_CHROOT_BASE cannot be unpacked"
else
    mmdebstrap --variant=minbase bookworm "$room/root" >"$room/log" 2>&1 || skip "mmdebstrap: $(tail -1 "$room/log")"
fi
inside "" true 2>"$room/log" || skip "$(tail -1 "$room/log")"
cp /etc/resolv.conf "$room/root/etc/"

# The next version is the same but for its number.
mkdir -p "$room/root/debs/old" "$room/root/debs/new"
for deb in "$debs"/*.deb; do
    case $deb in *-dbgsym_* | */libsonde-dev_*) continue ;; esac
    cp "$deb" "$room/root/debs/old/"
    rm -rf "$room/next"
    dpkg-deb -R "$deb" "$room/next"
    sed -i 's/^Version: .*/&+next/' "$room/next/DEBIAN/control"
    dpkg-deb --root-owner-group -Znone -b "$room/next" "$room/root/debs/new/" >/dev/null
done
cp tests/packaging/in_chroot.sh "$room/root/debs/"
inside "" 'apt-get update -qq && apt-get install -y --no-install-recommends --download-only /debs/old/*.deb' >"$room/log" 2>&1 ||
    skip "apt: $(tail -1 "$room/log")"
inside -n 'bash /debs/in_chroot.sh /debs/old /debs/new'
check "everything works in a fresh Debian 12" test $? -eq 0
exit $failed
