#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs in a fresh Debian 12 as root: in_chroot.sh OLD NEW, two folders with the same packages in different versions. Installs OLD,
# starts what the units would start, profiles a server with the guest, upgrades to NEW under it, removes and purges. There is no
# systemd in a chroot, so the ExecStart lines are run by hand as the units' users.
set -uo pipefail
old=$1 new=$2 failed=0
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
check() { # sentence, command...
    local sentence=$1
    shift
    if "$@" >/tmp/said 2>&1; then echo "ok      $sentence"; else
        echo "FAILED  $sentence"
        tail -5 /tmp/said
        failed=1
    fi
}
until_true() { # command...: within a minute
    for _ in $(seq 120); do "$@" >/tmp/said 2>&1 && return 0; sleep 0.5; done
    return 1
}
says() { grep -q -- "$1" <("${@:2}" 2>&1); } # text, command...
setting() { sed -n "s/^$2=//p" "/lib/systemd/system/$1.service" | tail -1; }
start() { # unit, with the user, groups, environment and directories of its unit; sets $started
    local user runtime
    user=$(setting "$1" User)
    runtime=$(setting "$1" RuntimeDirectory)
    [ -z "$runtime" ] || install -d -m 755 -o "$user" "/run/$runtime"
    [ -z "$(setting "$1" StateDirectory)" ] || install -d -m 700 -o "$user" "/var/lib/$(setting "$1" StateDirectory)"
    local as=(env)
    [ "$user" = root ] || as=(setpriv --reuid "$user" --regid "$user" --groups "$(getent group sonde | cut -d: -f3)" env)
    read -ra command <<<"$(setting "$1" ExecStart)"
    setsid "${as[@]}" "$(setting "$1" Environment)" "${command[@]}" >"/tmp/$1.out" 2>"/tmp/$1.err" </dev/null &
    started=$!
}

apt-get install -y --no-install-recommends "$old"/*.deb >/tmp/install.log 2>&1
check "apt installs the packages" test $? -eq 0
check "all are configured" bash -c '[ "$(dpkg-query -W -f "\${db:Status-Status}\n" sonded sonde sonde-gateway sonde-history sonde-collect libsonde0 | sort -u)" = installed ]'
check "users and the group were created" getent passwd sonde-gateway sonde-history sonde-collect sonded
check "the token is the gateway's alone" test "$(stat -c '%a %U:%G' /etc/sonde/sonde-gateway.token)" = "640 root:sonde-gateway"
check "the units are enabled, except that of the controller" bash -c 'ls /etc/systemd/system/multi-user.target.wants/{sonded,sonde-gateway,sonde-history}.service && ! ls /etc/systemd/system/multi-user.target.wants/sonde-collect.service'
check "man finds its page's file" test -e /usr/share/man/man8/sonded.8.gz
token=$(cat /etc/sonde/sonde-gateway.token)

start sonded; sonded=$started
check "sonded starts as its unit says" until_true test -S /run/sonde/grpc.sock
check "its gRPC socket is for the group" test "$(stat -c '%a %G' /run/sonde/grpc.sock)" = "660 sonde"
start sonde-gateway; gateway=$started
check "the gateway starts as its own user" until_true grep -q '^http: ' /tmp/sonde-gateway.out
check "and reaches sonded through the group" until_true says ready perl -MIO::Socket::INET -e '
    my $s = IO::Socket::INET->new("127.0.0.1:20180") or die; print $s "GET /readyz HTTP/1.0\r\n\r\n"; print <$s>'
start sonde-history; history=$started
check "sonde-history starts as its own user" until_true test -S /run/sonde-history/grpc.sock

ask() { # path, header line: the status line
    perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new("127.0.0.1:20180") or die;
        print $s "GET $ARGV[0] HTTP/1.0\r\nHost: 127.0.0.1\r\n$ARGV[1]\r\n\r\n"; print scalar <$s>' "$1" "$2"
}
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups bash -c "$(declare -f ask); ask \"\$1\" \"\$2\"" - "$@"; }
check "a user without the token is refused" says ' 401 ' as_nobody /v1/targets X-None:1
check "a user with the token is served" says ' 200 ' as_nobody /v1/targets "Authorization: Bearer $token"

perl -e '$0 = "unprepared"; 1 while 1' </dev/null >/dev/null 2>&1 &
unprepared=$!
check "a process that nobody prepared has a history" until_true says 'perl\|unprepared' sonde history --list
check "doctor says since when every process has one" says 'every process is recorded since' sonde doctor
kill "$unprepared"

LD_PRELOAD=libsonde.so.0 SONDE_SOCKET=/run/sonde/guest.sock setsid setpriv --reuid 1234 --regid 1234 --clear-groups \
    perl -e 'sub spin { my $x; $x += $_ for 1 .. 1000 } spin() while 1' </dev/null >/dev/null 2>&1 &
server=$!
check "a server of another user attaches with the guest" until_true says perl sonde targets
check "a capture has samples of it" says samples sonde record perl -d 2 -o /tmp/perl.pb.gz
check "a whole machine can be recorded" says samples sonde record --all -d 2 -o /tmp/all.pb.gz
check "its history begins" until_true says perl sonde history --list
check "doctor finds nothing that needs a restart or an installation" bash -c '! sonde doctor | grep "^fix .*\(programs\|settings\|service\)"'

cp /etc/sonde/sonde-gateway.conf /tmp/kept.conf
echo 'lisen = 127.0.0.1:1' >>/etc/sonde/sonde-gateway.conf
check "doctor finds a mistake in the settings of a service" says "sonde-gateway.conf:[0-9]*: .*lisen" sonde doctor
kill -HUP "$gateway"
check "a reload refuses it" until_true grep -q 'reload: the settings stay as they were' /tmp/sonde-gateway.err
cp /tmp/kept.conf /etc/sonde/sonde-gateway.conf
kill -HUP "$gateway"
check "and the next one is done" until_true grep -q 'reload: done' /tmp/sonde-gateway.err

kill -KILL "$sonded"
start sonded; sonded=$started
check "after kill -9 the server attaches to the next sonded" until_true says perl sonde targets

sonde record perl -d 60 -o /tmp/long.pb.gz >/tmp/long.said 2>&1 &
long=$!
sleep 2
apt-get install -y --no-install-recommends "$new"/*.deb >/tmp/upgrade.log 2>&1
check "apt upgrades the packages" test $? -eq 0
check "the server runs on with the old guest" grep -q 'libsonde.so.0.*deleted' "/proc/$server/maps"
kill -TERM "$sonded" # what systemctl restart does
wait "$sonded"
start sonded; sonded=$started
wait "$long"
check "the capture that ran ends with an error and not with nothing" test -s /tmp/long.said
check "the old guest attaches to the new sonded" until_true says perl sonde targets
check "and is profiled" says samples sonde record perl -d 2 --source guest -o /tmp/perl2.pb.gz
check "history goes on after the upgrade" until_true says perl sonde history --list
check "the token is still the same" test "$token" = "$(cat /etc/sonde/sonde-gateway.token)"
check "the server still runs" kill -0 "$server"

echo '# mine' >>/etc/sonde/sonded.conf
kill -TERM "$gateway" "$history" "$sonded"
wait "$gateway" "$history" "$sonded" 2>/dev/null
apt-get remove -y sonded sonde-gateway sonde-history sonde-collect sonde libsonde0 >/tmp/remove.log 2>&1
check "apt removes them" test $? -eq 0
check "settings and data stay" grep -qx '# mine' /etc/sonde/sonded.conf
check "the server survives the removal" kill -0 "$server"
kill "$server"
apt-get purge -y sonded sonde-gateway sonde-history sonde-collect sonde libsonde0 >/tmp/purge.log 2>&1
check "apt purges them" test $? -eq 0
left=$(find /etc /usr /lib /var/lib -name '*sonde*' -not -path '/var/lib/apt/*' -not -path '/var/lib/dpkg/*' -not -path '/proc/*' 2>/dev/null)
check "nothing stays" test -z "$left"
[ -z "$left" ] || echo "$left"
exit $failed
