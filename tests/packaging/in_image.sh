#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# in_image.sh IMAGE ROOM CAPABILITIES COMMAND...: starts a program as a container engine would by the DaemonSet's manifest, with the
# processes of the machine in view. container_test.sh starts it in mount and cgroup namespaces of its own.
set -euo pipefail
image=$1 room=$2 capabilities=$3
shift 3
# An engine makes the places of volumes.
mkdir -p "$image/var/lib/sonde" "$image/run/sonde"
mount --rbind "$image" "$image"
mount -o remount,bind,ro "$image"
mount -t tmpfs tmpfs "$image/var/log"
mkdir -p "$image/var/log/pods" "$image/var/log/containers"
mount --bind "$room/pods" "$image/var/log/pods"
mount --bind "$room/containers" "$image/var/log/containers"
mount --bind "$room/data" "$image/var/lib/sonde"
mount --bind "$room/tmp" "$image/tmp"
mount --bind "$room/service" "$image/run/sonde"
mount --rbind /dev "$image/dev"
mount -t proc proc "$image/proc"
mount -t sysfs sysfs "$image/sys"
exec chroot "$image" setpriv --bounding-set "$capabilities" --inh-caps "$capabilities" --no-new-privs "$@"
