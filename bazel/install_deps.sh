#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian 12 packages that Sonde's build needs and that are missing; with --tests also those of the tests.
# With --kernels it also gets what emulated machines need (tests/kernels): qemu, busybox, and kernels of Debian, which are not installed.
# With --containers it gets what makes an image for containers.
# With --arm64 it gets what --config=arm64 needs: a cross compiler, qemu-user, and the libraries for 64-bit Arm, which are unpacked into the
# cache and not installed.
# demo.sh and test.sh run this script. Building the packages (bazel/packaging) takes what --tests installs.
set -euo pipefail

build_packages=(
    bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto bazel-skylib
    gcc g++ git curl python3 python3-protobuf python3-yaml clang llvm bpftool libbpf-dev
    binutils-dev libcapstone-dev libcurl4-openssl-dev libdw-dev libelf-dev libgrpc-dev libh2o-evloop-dev libiberty-dev libisal-dev libjansson-dev libjemalloc-dev
    liblzma-dev libnanopb-dev libpcre2-dev libprotobuf-c-dev libseccomp-dev libsqlite3-dev libssl-dev libunwind-dev libzstd-dev nanopb pkg-config
    protobuf-c-compiler protobuf-compiler systemtap-sdt-dev zlib1g-dev
)
test_packages=(
    chromium chromium-driver clang-format clickhouse-server haproxy nginx-light wrk libclang-rt-14-dev lld golang-go google-perftools
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

# Installs npm packages outside the source tree: two for the test of the Node client, speedscope's released files, the SDK of the
# Model Context Protocol, and Firefox Profiler's own reader of profiles, which wants a newer Node than Debian's in package.json,
# but runs with it. Without npm or a registry these tests are skipped.
install_node_modules() {
    local folder="${XDG_CACHE_HOME:-$HOME/.cache}/sonde/node"
    [ -d "$folder/node_modules/@grpc/proto-loader" ] && [ -d "$folder/node_modules/@firefox-devtools/profiler-cli" ] &&
        [ -d "$folder/node_modules/speedscope" ] && [ -d "$folder/node_modules/@modelcontextprotocol/sdk" ] && return
    command -v npm >/dev/null || return 0
    mkdir -p "$folder"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" \
        @grpc/grpc-js@1 @grpc/proto-loader@0.8 @firefox-devtools/profiler-cli@0.10 speedscope@1.25 \
        @modelcontextprotocol/sdk@1 >&2 ||
        echo "npm could not install packages for tests: node_test, firefox_test, speedscope_test and mcp_sdk_test will be skipped" >&2
}

kernel_packages=(busybox-static cpio curl debootstrap qemu-system-x86)

# Puts the newest kernel of a suite into the cache, from the same mirror as the other packages. Nothing of it is installed.
get_kernel() {
    local suite=$1 to=$2/$1 work mirror options package kernel
    ls "$to"/vmlinuz* >/dev/null 2>&1 && return
    work=$(mktemp -d)
    mirror=$(apt-get indextargets --format '$(SITE)' | grep -v security | sed -n 1p)
    mkdir -p "$work/lists/partial" "$to"
    echo "deb $mirror $suite main" >"$work/list"
    options=(-qq -o "Dir::Etc::sourcelist=$work/list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists" -o APT::Sandbox::User=root)
    # This machine's own suite is in its lists already.
    [ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" != "$suite" ] || options=(-qq)
    if (
        cd "$work" && apt-get "${options[@]}" update &&
            package=$(apt-cache "${options[@]}" depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | sed -n 1p) &&
            for package in "$package" "${package/image/binary}"; do
                apt-get "${options[@]}" download "$package" 2>/dev/null || continue
                dpkg-deb -x "$package"_*.deb files
            done
        kernel=$(find files -name 'vmlinuz*' -type f | sed -n 1p) && [ -n "$kernel" ] && cp "$kernel" "$to/vmlinuz.new" && mv "$to/vmlinuz.new" "$to/vmlinuz"
    ) >&2; then :; else
        echo "could not get the kernel of $suite; tests that boot it are skipped" >&2
    fi
    rm -rf "$work"
}

install_kernels() { # install_kernels SUITE...
    local folder=${SONDE_KERNELS:-${XDG_CACHE_HOME:-$HOME/.cache}/sonde/kernels} suite
    for suite in "$@"; do get_kernel "$suite" "$folder"; done
}

# Unpacks the libraries of the build, and all they need, for another architecture. apt thinks that nothing is installed.
unpack_libraries() { # unpack_libraries ARCHITECTURE FOLDER
    local work package options mirror link wanted=()
    for package in "${build_packages[@]}"; do
        case "$package" in lib*-dev | binutils-dev | systemtap-sdt-dev | zlib1g-dev) wanted+=("$package:$1") ;; esac
    done
    [ "$(cat "$2/packages" 2>/dev/null)" != "${wanted[*]}" ] || return 0
    work=$(mktemp -d)
    mirror=$(apt-get indextargets --format '$(SITE)' | grep -v security | sed -n 1p)
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    echo "deb $mirror $(. /etc/os-release && echo "$VERSION_CODENAME") main" >"$work/list"
    touch "$work/status"
    options=(-qq -o "APT::Architecture=$1" -o "APT::Architectures=$1" -o "Dir::State::lists=$work/lists" -o "Dir::State::status=$work/status"
        -o "Dir::Etc::sourcelist=$work/list" -o Dir::Etc::sourceparts=- -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
    (apt-get "${options[@]}" update && apt-get "${options[@]}" install --download-only -y --no-install-recommends "${wanted[@]}" >/dev/null) >&2
    rm -rf "$2" && mkdir -p "$2"
    rm -f "$work"/cache/archives/libc6-dev_*.deb # the cross compiler has its own
    for package in "$work"/cache/archives/*.deb; do dpkg-deb -x "$package" "$2"; done
    find "$2" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do ln -sfn "$2$(readlink "$link")" "$link"; done
    echo "${wanted[*]}" >"$2/packages"
    rm -rf "$work"
}

wanted=("${build_packages[@]}")
[ "${1:-}" = --tests ] && wanted+=("${test_packages[@]}" "${kernel_packages[@]}")
[ "${1:-}" = --kernels ] && wanted+=("${kernel_packages[@]}" apparmor)
[ "${1:-}" = --arm64 ] && wanted+=(crossbuild-essential-arm64 libc6-arm64-cross qemu-user-static)
[ "${1:-}" = --containers ] && wanted+=(buildah debootstrap)
mapfile -t packages < <(missing "${wanted[@]}")
install_packages "${packages[@]}"
case "${1:-}" in
--tests)
    install_node_modules
    install_kernels bookworm
    ;;
--arm64) unpack_libraries arm64 "${XDG_CACHE_HOME:-$HOME/.cache}/sonde/packages-aarch64" ;;
--kernels) install_kernels bullseye bookworm trixie ;;
esac
