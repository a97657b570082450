#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# arm64_libraries.sh PROGRAM: gets Debian's libraries for arm64 by apt, from the mirror of this machine, and runs the comparison with
# readelf over them. Nothing is installed.
set -euo pipefail

program=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p lists/partial files
mirror=$(apt-get indextargets --format '$(SITE)' | grep debian.org | grep -v security | sed -n 1p)
echo "deb $mirror bookworm main" >list
options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State::lists=$work/lists" -o Dir::State::status=/dev/null
    -o "Dir::Etc::sourcelist=$work/list" -o Dir::Etc::sourceparts=- -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root)
apt-get "${options[@]}" update
apt-get "${options[@]}" download libc6 libstdc++6 libssl3 libgrpc29 redis-tools redis-server python3.11-minimal >/dev/null
for package in *.deb; do dpkg-deb -x "$package" files; done
libraries=files/usr/lib/aarch64-linux-gnu
libc=$(find files -name libc.so.6 | sed -n 1p)
"$program" "$libc" "$(dirname "$libc")"/{libm.so.6,ld-linux-aarch64.so.1} "$libraries"/{libstdc++.so.6,libcrypto.so.3,libssl.so.3,libgrpc.so.29} \
    files/usr/bin/{redis-server,python3.11}
