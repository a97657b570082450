#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The systemd units: systemd's own checks of them, how exposed they are, and whether the programs accept what they are given.
set -uo pipefail
failed=0
check() { # sentence, command...
    local sentence=$1
    shift
    if "$@"; then echo "ok      $sentence"; else echo "FAILED  $sentence"; failed=1; fi
}
packaging=bazel/packaging room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

# The most that a unit may have; sonded runs as root with capabilities, see the comments in its unit.
most() {
    case $1 in
    sonded) echo 3.9 ;; # CAP_SYS_ADMIN, for an opener of perf events
    sonde-gateway) echo 1.5 ;;
    *) echo 1.5 ;;
    esac
}
exposure() { # unit: "1.2"
    systemd-analyze security --offline=true "$room/$1.service" 2>/dev/null | sed -n 's/.*Overall exposure level for [^:]*: \([0-9.]*\) .*/\1/p'
}
at_most() { [ -n "$1" ] && awk -v a="$1" -v b="$2" 'BEGIN { exit !(a <= b) }'; }
accepts() { # unit, program: it gets as far as its socket or data, and refuses no setting
    local config=$packaging/config/$1.conf
    SONDE_CONFIG=$config "$2" --version >/dev/null
}

# Without the man pages, which are not installed here.
for unit in "$packaging"/systemd/*.service; do
    sed -e '/^Documentation=/d' -e "s|^ExecStart=/usr/bin/[^ ]*|ExecStart=/bin/true|" -e '/^EnvironmentFile=/d' \
        "$unit" >"$room/$(basename "$unit")"
done
if ! command -v systemd-analyze >/dev/null; then
    echo "SKIP: units_test: systemd-analyze is not installed"
else
    for unit in sonded sonde-gateway sonde-history sonde-collect; do
        systemd-analyze verify "$room/$unit.service" >"$room/said" 2>&1
        grep "$unit.service:" "$room/said"
        check "$unit.service has no mistake" bash -c "! grep -q '$unit.service:' '$room/said'"
        level=$(exposure "$unit")
        check "$unit.service is exposed to $level, at most $(most "$unit")" at_most "$level" "$(most "$unit")"
    done
fi
for unit in "$packaging"/systemd/*.service; do
    name=$(basename "$unit" .service)
    check "$name tells systemd when it is ready" grep -qx 'Type=notify' "$unit"
    check "$name can be reloaded" grep -qx 'ExecReload=/bin/kill -HUP $MAINPID' "$unit"
done
check "sonded accepts its settings" accepts sonded service/sonded
check "sonde-gateway accepts its settings" accepts sonde-gateway gateway/sonde-gateway
check "sonde-history accepts its settings" accepts sonde-history service/sonde-history
sed -n 's/^#SONDE_COLLECT_OPTIONS="\(.*\)"$/\1/p' "$packaging/config/sonde-collect.default" >"$room/options"
check "sonde-collect accepts its options" bash -c "clients/collect/sonde-collect $(cat "$room/options") --version >/dev/null"
for snippet in "$packaging"/systemd/examples/*.conf; do
    check "$(basename "$snippet") is a snippet for a service" grep -qx '\[Service\]' "$snippet"
done
exit $failed
