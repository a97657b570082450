#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The image and the DaemonSet's manifest (bazel/packaging/container): buildah makes the image as the recipe says, and sonded runs
# in it with the manifest's command, capabilities and read-only root, in mount and cgroup namespaces of its own. It sees the
# processes of the machine, and one of them is in the cgroup of a pod. It needs root, buildah, debootstrap and the network; where
# that is refused, it says so. Manual, because it takes some minutes and optimized packages:
#     bazel test -c opt //tests/packaging:container_test
# A folder SONDE_BARE with a chroot per suite (SONDE_BARE/bookworm) saves the download.
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin
failed=0
check() { # sentence, command...
    local sentence=$1
    shift
    if "$@"; then echo "ok      $sentence"; else echo "FAILED  $sentence"; failed=1; fi
}
skip() {
    echo "SKIP: container_test: $1"
    exit $failed
}
[ "$(id -u)" = 0 ] || skip "only root may build an image with a chroot"
command -v buildah >/dev/null || skip "buildah is missing: run bazel/install_deps.sh --containers"
room=$(mktemp -d "${SONDE_CHROOTS:-/var/tmp}/sonde-image.XXXXXX")
started=() cgroup=
finish() {
    [ ${#started[@]} = 0 ] || { kill "${started[@]}" && wait "${started[@]}"; } 2>/dev/null
    [ -z "$cgroup" ] || find "$cgroup/kubepods" -depth -type d -exec rmdir {} + 2>/dev/null
    [ -z "${image:-}" ] || umount "$image/run/sonde" 2>/dev/null
    images umount --all >/dev/null 2>&1
    rm -rf --one-file-system "$room"
}
images() { buildah --storage-driver vfs --root "$room/store" --runroot "$room/run" "$@"; }
trap finish EXIT

base=${SONDE_BARE:+$SONDE_BARE/bookworm}
if [ -z "$base" ]; then
    base=$room/base
    debootstrap --variant=minbase bookworm "$base" http://deb.debian.org/debian >"$room/log" 2>&1 || skip "debootstrap: $(tail -1 "$room/log")"
fi
tar -C "$base" --exclude='./dev/*' -cf "$room/base.tar" . && container=$(images from scratch) &&
    images add -q "$container" "$room/base.tar" / >/dev/null && images commit -q "$container" localhost/debian:12-slim >/dev/null ||
    skip "buildah cannot make the base image"
mkdir "$room/context"
cp -L bazel/packaging/debs/*.deb "$room/context/"
builds() {
    images bud --isolation chroot -q -t sonde:0.2.0 -f bazel/packaging/container/Dockerfile "$room/context" >"$room/log" 2>&1 ||
        { tail -5 "$room/log"; false; }
}
check "the recipe makes an image" builds
[ $failed = 0 ] || exit 1
image=$(images mount "$(images from sonde:0.2.0)")

# A pod of this node, as the kubelet would have made it.
uid=11111111-2222-3333-4444-555555555555 id=$(printf 'ab%.0s' $(seq 32))
mkdir -p "$room/pods/shop_web-1_$uid/nginx" "$room/containers" "$room/service" "$room/data" "$room/tmp"
ln -s nowhere "$room/containers/web-1_shop_nginx-$id.log"
for cgroup in /sys/fs/cgroup /sys/fs/cgroup/pids; do
    pod=$cgroup/kubepods/burstable/pod$uid/$id
    [ -e "$cgroup/cgroup.procs" ] && mkdir -p "$pod" 2>/dev/null && (echo "$BASHPID" >"$pod/cgroup.procs") 2>/dev/null && break
    cgroup=
done
[ -n "$cgroup" ] || skip "no cgroup can be made in /sys/fs/cgroup"
cp tests/packaging/burner "$room/pod-burner"
(echo "$BASHPID" >"$pod/cgroup.procs" && exec "$room/pod-burner") &
started+=($!)

python3 tests/packaging/manifest.py bazel/packaging/container/daemonset.yaml >"$room/manifest" || exit 1
mapfile -t manifest <"$room/manifest" # capabilities, then the command
unshare -m --cgroup --propagation private tests/packaging/in_image.sh "$image" "$room" "${manifest[@]}" >"$room/said" 2>&1 &
started+=($!)
sonde() { chroot "$image" /usr/bin/sonde "$@"; }
mkdir -p "$image/run/sonde" && mount --bind "$room/service" "$image/run/sonde" || exit 1
asks() { sonde history "$@" --service unix:/run/sonde/grpc.sock; }
within() { # seconds, command...
    local end=$((SECONDS + $1))
    shift
    until "$@" >"$room/last" 2>&1; do
        [ $SECONDS -lt $end ] || { cat "$room/last" "$room/said" "$room/stacks"; return 1; }
        sleep 1
    done
}
has_stacks() { asks --selector "$1" --format collapsed | tee "$room/stacks" | grep -q 'burn_here'; }
check "sonded starts with the manifest's rights" within 30 test -S "$room/service/grpc.sock"
[ $failed = 0 ] || exit 1
check "processes of the node are recorded with stacks" within 40 has_stacks "service = 'pod-burner'"
for label in "pod = '$uid'" "container = '$id'" "namespace = 'shop'" "pod_name = 'web-1'" "container_name = 'nginx'"; do
    check "they have the label $label" within 20 has_stacks "$label"
done
exit $failed
