#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# docs/operations.md on a Debian 12 that boots: installs the packages beside redis, breaks services and the disk, upgrades during a
# capture, restarts the system and purges (in_system.sh), with systemd, the units' sandboxes and a real reboot, in systemd-nspawn.
# It needs root, the network (mmdebstrap, apt) and the packages systemd-container and mmdebstrap; where that is refused, it says so.
# Manual, because it takes some minutes and optimized packages:
#     bazel test -c opt //tests/packaging:boot_test
# SONDE_BOOT_BASE=BASE.tar saves the download (the command is below).
set -uo pipefail
skip() {
    echo "SKIP: boot_test: $1"
    exit 0
}
[ "$(id -u)" = 0 ] || skip "only root may boot a container"
command -v systemd-nspawn >/dev/null || skip "systemd-nspawn is missing; install systemd-container"
debs=bazel/packaging/debs
room=$(mktemp -d "${SONDE_CHROOTS:-/var/tmp}/sonde-boot.XXXXXX")
root=$room/root
finish() {
    [ -z "${nspawn:-}" ] || { kill -KILL -- "-$nspawn" && wait "$nspawn"; } 2>/dev/null
    rm -rf --one-file-system "$room"
}
trap finish EXIT
if [ -n "${SONDE_BOOT_BASE:-}" ]; then
    mkdir "$root" && tar -C "$root" --exclude='./dev/*' -xf "$SONDE_BOOT_BASE" || skip "$SONDE_BOOT_BASE cannot be unpacked"
else
    mmdebstrap --variant=minbase --include=systemd,systemd-sysv,dbus,procps,curl,iproute2,redis-server,redis-tools bookworm "$root" >"$room/log" 2>&1 ||
        skip "mmdebstrap: $(tail -1 "$room/log")"
fi

# The next version is the same but for its number. What both depend on is downloaded before the system boots without a network.
mkdir -p "$root/debs/old" "$root/debs/new"
for deb in "$debs"/*.deb; do
    case $deb in *-dbgsym_* | */libsonde-dev_*) continue ;; esac
    cp "$deb" "$root/debs/old/"
    rm -rf "$room/next"
    dpkg-deb -R "$deb" "$room/next"
    sed -i 's/^Version: .*/&+next/' "$room/next/DEBIAN/control"
    dpkg-deb --root-owner-group -Znone -b "$room/next" "$root/debs/new/" >/dev/null
done
cp tests/packaging/in_system.sh "$root/debs/"
cp /etc/resolv.conf "$root/etc/"
systemd-nspawn -q -D "$root" --register=no --keep-unit --console=pipe --resolv-conf=copy-host sh -c 'apt-get update -qq && apt-get install -y --no-install-recommends --download-only /debs/old/*.deb' >"$room/log" 2>&1 ||
    skip "apt: $(tail -1 "$room/log")"

# systemd in the container uses the controllers as this machine has them: version 1, if there are any.
arguments=()
[ -d /sys/fs/cgroup/systemd ] && arguments=(systemd.unified_cgroup_hierarchy=0)
# Without a service manager outside, nspawn ends with 133 for a reboot, and is started again.
boot='while systemd-nspawn -D "$1" -b --register=no --keep-unit --private-network --capability=all --console=interactive \
    --system-call-filter="perf_event_open bpf @debug @privileged" -- $2; [ $? = 133 ]; do :; done'
setsid script -qefc "bash -c '$boot' - '$root' '${arguments[*]}'" "$room/console" </dev/null >/dev/null 2>&1 &
nspawn=$!

# Process 1 of the system: another one after a reboot.
leader() {
    local outer
    outer=$(pgrep -f "^systemd-nspawn -D $root " | head -1) && pgrep -P "$outer" | head -1
}
# Without Bazel's environment, which names folders that only its tests have.
inside() { nsenter -t "$(leader)" -a -- env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
is_up() { [ -n "$(leader)" ] && [[ $(inside systemctl is-system-running 2>/dev/null) =~ running|degraded ]]; }
until_up() { # leader of the last boot
    for _ in $(seq 120); do
        [ "$(leader)" != "$1" ] && is_up && return 0
        sleep 1
    done
    return 1
}
until_up "" || skip "the system did not boot: $(tail -2 "$room/console")"
failed=0
inside bash /debs/in_system.sh install /debs/old /debs/new || failed=1
first=$(leader)
inside systemctl reboot
if until_up "$first"; then
    echo "ok      the system boots again"
    inside bash /debs/in_system.sh reboot /debs/old /debs/new || failed=1
else
    echo "FAILED  the system boots again"
    tail -20 "$room/console"
    failed=1
fi
exit $failed
