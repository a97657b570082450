#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The packages of the guest: contents, control fields, what it needs of libc, debug symbols, and that two builds are equal.
# debs_test.sh does this and more for all packages.
set -uo pipefail
failed=0
check() { # sentence, command...
    local sentence=$1
    shift
    if "$@"; then echo "ok      $sentence"; else echo "FAILED  $sentence"; failed=1; fi
}
debs=bazel/packaging/guest_debs again=bazel/packaging/guest_debs_again
version=$(sed -n 's/^#define SONDE_VERSION "\(.*\)"$/\1/p' api/version.h)
guest=$debs/libsonde0_$version-1_amd64.deb dev=$debs/libsonde-dev_$version-1_amd64.deb

# grep reads to the end, because dpkg-deb fails when nobody reads it any more.
lists() { dpkg-deb -c "$1" | grep -E " \./$2( -> .*)?\$" >/dev/null; }
field() { [ "$(dpkg-deb -f "$1" "$2")" = "$3" ]; }
equal() { diff <(cd "$1" && sha256sum ./*.deb) <(cd "$2" && sha256sum ./*.deb); }
own_root() { ! dpkg-deb -c "$1" | awk '{ print $2 }' | grep -vx root/root >/dev/null; }

check "two builds are equal, bit for bit" equal "$debs" "$again"
check "there are three packages" test "$(ls "$debs" | wc -l)" = 3
check "the guest is in the folder of its architecture" lists "$guest" 'usr/lib/x86_64-linux-gnu/libsonde\.so\.0'
check "its package has the version" field "$guest" Version "$version-1"
check "can be installed beside other architectures" field "$guest" Multi-Arch same
check "and needs libc alone" grep -qxE 'libc6 \(>= 2\.[0-9]+\)' <(dpkg-deb -f "$guest" Depends)
check "everything belongs to root" own_root "$guest"
check "the header is in the other package" lists "$dev" 'usr/include/sonde\.h'
check "the protos of guests stay inside" bash -c "! dpkg-deb -c '$dev' | grep -q guest"
check "it depends on the same version" field "$dev" Depends "libsonde0 (= $version-1)"
check "linking finds the library by its name" lists "$dev" 'usr/lib/x86_64-linux-gnu/libsonde\.so'

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
dpkg-deb -x "$guest" "$room"
dpkg-deb -x "$debs/libsonde0-dbgsym_$version-1_amd64.deb" "$room"
library=$room/usr/lib/x86_64-linux-gnu/libsonde.so.0
id=$(readelf -n "$library" | sed -n 's/.*Build ID: //p')
debug=$room/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
check "its name for the linker has the number of the ABI" grep -q 'SONAME.*\[libsonde\.so\.0\]' <(readelf -d "$library")
check "it is stripped" bash -c "! readelf -S '$library' | grep -q '\.symtab'"
check "its symbols are in the package of debug symbols" grep -q '\.debug_line' <(readelf -S "$debug")
check "no path of the build is in either" bash -c "! strings -a '$library' '$debug' | grep -qE '/sandbox/|execroot|/root/|bazel-out'"
check "a program runs with it preloaded" env LD_PRELOAD="$library" SONDE_SOCKET="$room/none" /bin/true

if command -v lintian >/dev/null; then
    check "lintian finds no errors" lintian --fail-on error --allow-root "$guest" "$dev"
else
    echo "SKIP: guest_debs_test: lintian is not installed"
fi
exit $failed
