#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bazel run //:install -- --prefix DIR
# Installs everything in DIR (default /usr/local), or in $DESTDIR/DIR. The installed files do not depend on Bazel. Each file is
# renamed into place, so that servers that have mapped an older libsonde.so keep using it.
set -euo pipefail

usage() {
    echo "usage: bazel run //:install -- [--prefix DIR]" >&2
    exit 2
}

prefix=/usr/local
while [ $# -gt 0 ]; do
    case "$1" in
    --prefix) [ $# -ge 2 ] || usage; prefix=$2; shift 2 ;;
    --prefix=*) prefix=${1#--prefix=}; shift ;;
    *) usage ;;
    esac
done
[ -n "$prefix" ] || usage
case "$prefix" in /*) ;; *) prefix="${BUILD_WORKING_DIRECTORY:-$PWD}/$prefix" ;; esac
to="${DESTDIR:-}$prefix"

put() { # mode, source, destination below the prefix; /usr/bin/install because this script is also called install
    /usr/bin/install -D -m "$1" "$2" "$to/$3.new"
    mv -f "$to/$3.new" "$to/$3"
}

put 755 clients/cli/sonde bin/sonde
put 755 service/sonded bin/sonded
put 755 service/host/sampler/sonde-sampler bin/sonde-sampler
put 755 service/sonde-history bin/sonde-history
put 755 clients/collect/sonde-collect bin/sonde-collect
put 755 gateway/sonde-gateway bin/sonde-gateway
put 755 service/guest/libsonde.so lib/libsonde.so
# `sonde run` preloads PREFIX/$LIB/libsonde.so. glibc's dynamic linker replaces $LIB by one of these names; other libcs do not,
# and so do not load the guest.
for lib in lib64 lib/x86_64-linux-gnu; do
    mkdir -p "$to/$lib"
    ln -sfn "$(realpath -m --relative-to="$to/$lib" "$to/lib/libsonde.so")" "$to/$lib/libsonde.so"
done
put 644 api/sonde.h include/sonde.h
for proto in profiler history controller; do
    put 644 "proto/sonde/v1/$proto.proto" "share/sonde/proto/sonde/v1/$proto.proto"
done
for page in README.md CHANGELOG.md ARCHITECTURE.md CONTRIBUTING.md LICENSE docs/*.md docs/reference/*.md; do
    put 644 "$page" "share/doc/sonde/$(basename "$page")"
done
for picture in docs/pictures/*.svg; do
    put 644 "$picture" "share/doc/sonde/pictures/$(basename "$picture")"
done
for page in docs/man/*.[158]; do
    put 644 "$page" "share/man/man${page##*.}/$(basename "$page")"
done
put 644 bazel/packaging/grafana/sonde-dashboard.json share/sonde/grafana/sonde-dashboard.json
for rules in sonde-alerts sonde-collect-alerts; do
    put 644 "bazel/packaging/prometheus/$rules.yml" "share/sonde/prometheus/$rules.yml"
done

completions=$(mktemp -d)
trap 'rm -rf "$completions"' EXIT
for shell in bash zsh fish; do
    clients/cli/sonde completions "$shell" >"$completions/$shell"
done
put 644 "$completions/bash" share/bash-completion/completions/sonde
put 644 "$completions/zsh" share/zsh/site-functions/_sonde
put 644 "$completions/fish" share/fish/vendor_completions.d/sonde.fish
echo "installed in $prefix: try $prefix/bin/sonde run -- COMMAND"
