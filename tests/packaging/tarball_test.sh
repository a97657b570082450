#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The archive for other distributions: two builds are equal, its programs need glibc and what is beside them, and they work in bare
# Debian 12, 13 and sid (in_bare.sh). It needs root, and the network for debootstrap; where that is refused, it says so and skips
# that part. Manual, because it takes some minutes and optimized programs:
#     bazel test -c opt //tests/packaging:tarball_test
# SONDE_SUITES names other suites. A folder SONDE_BARE with a chroot per suite (SONDE_BARE/trixie) saves the download.
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin
failed=0
check() { # sentence, command...
    local sentence=$1
    shift
    if "$@"; then echo "ok      $sentence"; else echo "FAILED  $sentence"; failed=1; fi
}
skip() {
    echo "SKIP: tarball_test: $1"
    exit $failed
}
made=bazel/packaging/tarball again=bazel/packaging/tarball_again
equal() { diff <(cd "$1" && sha256sum ./*) <(cd "$2" && sha256sum ./*); }
check "two builds are equal, bit for bit" equal "$made" "$again"

room=$(mktemp -d "${SONDE_CHROOTS:-/var/tmp}/sonde-tarball.XXXXXX")
trap 'rm -rf --one-file-system "$room"' EXIT
tar -C "$room" -xzf "$made"/*.tar.gz
mv "$room"/sonde-* "$room/sonde"
check "its programs need glibc and what is beside them" tests/packaging/only_own_libraries.sh "$room/sonde"
check "NEEDS.txt names glibc's libraries alone" bash -c "! sed -n 's/^    \(.*\.so\..*\)/\1/p' '$made/NEEDS.txt' |
    grep -vxE '(libc|libm|libresolv|ld-linux-x86-64)\.so\.[0-9]+' >&2"
check "and glibc 2.34" bash -c "[ \"\$(grep -o 'GLIBC_[0-9.]*' '$made/NEEDS.txt' | sort -Vu | tail -1)\" = GLIBC_2.34 ]"

[ "$(id -u)" = 0 ] || skip "only root may chroot"
for suite in ${SONDE_SUITES:-bookworm trixie sid}; do
    root=$room/$suite
    if [ -n "${SONDE_BARE:-}" ]; then
        cp -a "$SONDE_BARE/$suite" "$root" || skip "$SONDE_BARE/$suite cannot be copied"
    else
        command -v debootstrap >/dev/null || skip "debootstrap is missing: run bazel/install_deps.sh --tests"
        debootstrap --variant=minbase "$suite" "$root" http://deb.debian.org/debian >"$room/log" 2>&1 ||
            skip "debootstrap $suite: $(tail -1 "$room/log")"
    fi
    mkdir -p "$root/opt/any-folder"
    cp -a "$room/sonde" "$root/opt/any-folder/sonde"
    cp tests/packaging/burner "$root/usr/local/bin/"
    check "everything works in a bare $suite" unshare -mnpf --kill-child tests/packaging/in_bare.sh "$root" /opt/any-folder/sonde
    rm -rf --one-file-system "$root"
done
exit $failed
