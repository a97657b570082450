#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs in a booted Debian 12 with systemd and redis-server: in_system.sh install|reboot OLD NEW. "install" follows docs/operations.md
# as a new user would, breaks things, and upgrades; "reboot" is for the next boot, and removes everything at the end.
set -uo pipefail
step=$1 old=$2 new=$3 failed=0
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root
check() { # sentence, command...
    local sentence=$1
    shift
    if "$@" >/tmp/said 2>&1; then echo "ok      $sentence"; else
        echo "FAILED  $sentence"
        tail -40 /tmp/said
        failed=1
    fi
}
until_true() { # command...: within two minutes
    for _ in $(seq 240); do "$@" >/tmp/said 2>&1 && return 0; sleep 0.5; done
    return 1
}
says() { # text, command...
    "${@:2}" >/tmp/output 2>&1
    grep -qe "$1" /tmp/output || { cat /tmp/output; return 1; }
}
status() { setpriv --reuid 65534 --regid 65534 --clear-groups curl -s -o /dev/null -w '%{http_code}' "$@"; } # as a user without rights
main_pid() { systemctl show -P MainPID "$1"; }
is_active() { systemctl is-active --quiet "$@"; }
has_redis() { says redis sonde history --list; }
page=http://127.0.0.1:20180

install() {
    apt-get install -y --no-install-recommends "$old"/{libsonde0,sonded,sonde-gateway,sonde}_*.deb >/tmp/install.log 2>&1
    check "apt installs what docs/operations.md names" test $? -eq 0
    check "sonded and the gateway run" is_active sonded sonde-gateway
    check "they have told so (Type=notify)" test "$(systemctl show -P SubState sonded)" = running
    check "doctor finds nothing that needs a restart or an installation" bash -c '! sonde doctor | grep "^fix .*\(programs\|settings\|service\|units\)"'
    token=$(cat /etc/sonde/sonde-gateway.token)
    check "a user without the token is refused" test "$(status $page/v1/targets)" = 401
    check "with the token the same user is served" test "$(status -H "Authorization: Bearer $token" $page/v1/targets)" = 200
    check "the page is there" says '<title>Sonde' curl -s -H 'Accept: text/html' $page/
    redis-benchmark -t set -n 1000000000 -q -l >/dev/null 2>&1 &
    check "the whole machine can be recorded, as a service without a guest" says samples sonde record --all -d 3 -o /tmp/all.pb.gz
    check "redis is in it" says redis sonde top --full-names -n 500 /tmp/all.pb.gz
    check "the CPU time of every process is recorded by itself" until_true says redis-server sonde history --processes

    mkdir -p /etc/systemd/system/redis-server.service.d
    cp /usr/share/doc/sonde/systemd/redis*.conf /etc/systemd/system/redis-server.service.d/
    systemctl daemon-reload
    systemctl restart redis-server
    check "the snippet puts the guest into Debian's redis, sandbox and all" until_true says redis sonde targets
    check "which is profiled by it" says samples sonde record redis-server -d 2 --source guest -o /tmp/redis.pb.gz
    check "its history begins by itself" until_true has_redis
    check "a heap profile of it can be taken" sonde heap status redis-server
}

break_things() {
    local before
    for unit in sonded sonde-gateway; do
        before=$(main_pid $unit)
        kill -KILL "$before"
        check "$unit starts again after kill -9" until_true bash -c "[ \$(systemctl show -P MainPID $unit) != $before ] && systemctl is-active --quiet $unit"
    done
    check "redis attaches to the new sonded" until_true says redis sonde targets
    check "systemctl reload works" systemctl reload sonded sonde-gateway
    check "the journal says so" until_true says 'reload: done' journalctl -u sonded --no-pager
    echo 'lisen = 127.0.0.1:1' >>/etc/sonde/sonde-gateway.conf
    check "doctor finds a mistake in the settings before a restart does" says "sonde-gateway.conf:[0-9]*: .*lisen" sonde doctor
    sed -i '$d' /etc/sonde/sonde-gateway.conf
}

# sonded frees some of its space, so the others take that as well.
fill_up() { dd if=/dev/zero bs=64k >>/var/lib/sonde/filler 2>/dev/null; }
doctor_sees_a_full_disk() {
    fill_up
    says '^fix .*GiB .* left' sonde doctor
}

# A disk of its own for the data of sonded, which somebody else fills.
fill_disk() {
    systemctl stop sonded
    mount -t tmpfs -o size=48m,mode=700 tmpfs /var/lib/sonde
    systemctl start sonded
    check "sonded starts with an empty directory" until_true says redis sonde targets
    check "history begins anew" until_true has_redis
    fill_up
    check "with a full disk a capture still works" says samples sonde record redis-server -d 2 -o /tmp/full.pb.gz
    check "doctor says so" until_true doctor_sees_a_full_disk
    sleep 25
    check "sonded runs on" is_active sonded
    rm /var/lib/sonde/filler
    sleep 25
    check "history goes on when there is room" says samples sonde history redis-server --from -20s -o /tmp/after.pb.gz
    systemctl stop sonded
    umount /var/lib/sonde
    systemctl start sonded
    check "the former history is there again" until_true has_redis
}

upgrade() {
    sonde record redis-server -d 60 -o /tmp/long.pb.gz >/tmp/long.said 2>&1 &
    long=$!
    sleep 2
    apt-get install -y --no-install-recommends "$new"/{libsonde0,sonded,sonde-gateway,sonde}_*.deb >/tmp/upgrade.log 2>&1
    check "apt upgrades during a capture" test $? -eq 0
    wait "$long"
    check "the capture ends with what it had, or a sentence" test -s /tmp/long.said
    check "both services run the new version" is_active sonded sonde-gateway
    check "redis was not restarted and runs the old guest" grep -q 'libsonde.so.0.*deleted' "/proc/$(main_pid redis-server)/maps"
    check "which attaches to the new sonded" until_true says redis sonde targets
    check "and is profiled" says samples sonde record redis-server -d 2 --source guest -o /tmp/redis2.pb.gz
    check "the token is the same" test "$token" = "$(cat /etc/sonde/sonde-gateway.token)"
    date +%s >/root/before-reboot
}

after_reboot() {
    check "the system is up without a failed unit" until_true test "$(systemctl list-units --state=failed --plain --no-legend | wc -l)" = 0
    check "sonded and the gateway were started" until_true is_active sonded sonde-gateway
    check "redis attaches" until_true says redis sonde targets
    redis-benchmark -t set -n 1000000000 -q -l >/dev/null 2>&1 &
    check "history from before the boot is there" says samples sonde history redis-server --from -1h --until "$(cat /root/before-reboot)" -o /tmp/before.pb.gz
    check "and new history is recorded" until_true says samples sonde history redis-server --from "$(($(cat /root/before-reboot) + 1))" -o /tmp/new.pb.gz
    apt-get purge -y sonded sonde-gateway sonde libsonde0 >/tmp/purge.log 2>&1
    check "apt purges everything" test $? -eq 0
    check "no unit is left" bash -c '! systemctl list-unit-files | grep sonde'
    check "redis survives it" is_active redis-server
}

case $step in
install)
    install
    break_things
    fill_disk
    upgrade
    ;;
reboot) after_reboot ;;
esac
exit $failed
