#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian 12 packages that Sonde's build needs and that are missing; with --tests also those of the tests.
# demo.sh and test.sh run this script. Building the packages (bazel/packaging) takes what --tests installs.
set -euo pipefail

build_packages=(
    bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto bazel-skylib
    gcc g++ git curl python3 python3-protobuf python3-yaml clang llvm bpftool libbpf-dev
    binutils-dev libcurl4-openssl-dev libdw-dev libelf-dev libgrpc-dev libh2o-evloop-dev libiberty-dev libisal-dev libjansson-dev libjemalloc-dev
    liblzma-dev libmicrohttpd-dev libnanopb-dev libpcre2-dev libprotobuf-c-dev libseccomp-dev libsqlite3-dev libssl-dev libunwind-dev libzstd-dev nanopb pkg-config
    protobuf-c-compiler protobuf-compiler systemtap-sdt-dev zlib1g-dev
)
test_packages=(
    chromium chromium-driver clang-format clickhouse-server haproxy wrk libclang-rt-14-dev lld golang-go google-perftools
    libgoogle-perftools-dev libgrpc++-dev libprotobuf-dev graphviz libjemalloc2 musl-tools libmimalloc2.0 linux-perf nodejs prometheus
    protobuf-compiler-grpc python3-grpcio python3-protobuf python3-selenium redis-server redis-tools librsvg2-bin xz-utils binutils
    nghttp2-client debuginfod dwz elfutils procps libcap2-bin bind9 iproute2 libzookeeper-java varnish fish zsh
    debhelper debootstrap dpkg-dev lintian mmdebstrap patchelf systemd systemd-container
)

missing() {
    local package
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || echo "$package"
    done
}

# Ends with one sentence if the system has no apt-get, or if nobody here may run it.
check_system() { # packages that are missing
    if ! command -v apt-get >/dev/null; then
        echo "Sonde is built on Debian 12, and this system has no apt-get to install: $*;" \
            "run the archive instead, which a Debian 12 makes (docs/operations.md, \"Other distributions\")" >&2
        exit 1
    fi
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        echo "packages are missing and there is no sudo: run as root: apt-get install --no-install-recommends $*" >&2
        exit 1
    fi
}

# Ends with one sentence if this distribution does not have a package. Debian 13, for example, has no h2o.
check_available() { # packages that are missing
    local absent
    absent=$(comm -23 <(printf '%s\n' "$@" | sort -u) <(apt-cache pkgnames | sort -u) | paste -sd' ')
    [ -z "$absent" ] && return
    echo "$(. /etc/os-release && echo "$PRETTY_NAME") does not have the packages $absent:" \
        "build on Debian 12, or run the archive that it makes (docs/operations.md, \"Other distributions\")" >&2
    exit 1
}

install_packages() {
    local as_root=""
    [ $# -eq 0 ] && return
    check_system "$@"
    echo "installing: $*" >&2
    [ "$(id -u)" = 0 ] || as_root=sudo
    export DEBIAN_FRONTEND=noninteractive
    $as_root apt-get update -qq
    check_available "$@"
    $as_root apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# Installs npm packages outside the source tree: two for the test of the Node client, speedscope's released files, and Firefox
# Profiler's own reader of profiles, which wants a newer Node than Debian's in package.json, but runs with it. Without npm or a
# registry these tests are skipped.
install_node_modules() {
    local folder="${XDG_CACHE_HOME:-$HOME/.cache}/sonde/node"
    [ -d "$folder/node_modules/@grpc/proto-loader" ] && [ -d "$folder/node_modules/@firefox-devtools/profiler-cli" ] &&
        [ -d "$folder/node_modules/speedscope" ] && return
    command -v npm >/dev/null || return 0
    mkdir -p "$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" \
        @grpc/grpc-js@1 @grpc/proto-loader@0.8 @firefox-devtools/profiler-cli@0.10 speedscope@1.25 >&2 ||
        echo "npm could not install packages for tests: node_test, firefox_test and speedscope_test will be skipped" >&2
}

wanted=("${build_packages[@]}")
[ "${1:-}" = --tests ] && wanted+=("${test_packages[@]}")
mapfile -t packages < <(missing "${wanted[@]}")
install_packages "${packages[@]}"
if [ "${1:-}" = --tests ]; then
    install_node_modules
fi
