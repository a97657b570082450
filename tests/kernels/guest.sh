#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
#
# /init of an emulated machine. /cells calls `setting` and `ask`; each answer is a line on the console:
#     = SETTING|USER|QUESTION|yes, no or FAIL|last line of what was printed
# "no" is a refusal that names its reason; everything else that does not work is FAIL.
export PATH=/bin:/sonde/bin HOME=/root
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t securityfs security /sys/kernel/security 2>/dev/null
mount -t tracefs tracing /sys/kernel/tracing 2>/dev/null
chmod 1777 /tmp
mkdir -m 700 /tmp/root /tmp/nobody
chown nobody /tmp/nobody
ip link set lo up
reasons='perf_event_paranoid|as root|CAP_[A-Z]+|needs Linux|ptrace_scope|lockdown|CONFIG_|sonde doctor|another user'

as() { # as USER COMMAND: its output in /tmp/USER/out
    if [ "$1" = root ]; then
        sh -c "$2" >/tmp/root/out 2>&1
    else
        su nobody -s /bin/sh -c "export HOME=/tmp/nobody XDG_RUNTIME_DIR=/tmp/nobody; $2" >/tmp/nobody/out 2>&1
    fi
}

answer() { # answer STATUS
    word=FAIL
    grep -qE "$reasons" "/tmp/$user/out" && word=no
    [ "$1" = 0 ] && word=yes
    echo "= $where|$user|$question|$word|$(grep -E "$reasons" "/tmp/$user/out" | tail -n 1 | tr '|\r' '/ ' | cut -c1-240)"
    [ $word != FAIL ] || sed 's/^/    /' "/tmp/$user/out" | tail -n 12
}

has() { # has PATTERN [FILE below the user's folder]
    grep -qE -- "$1" "/tmp/$user/${2:-out}" 2>/dev/null
}

ask_record() { # callers of a leaf without a frame pointer
    rm -f "/tmp/$user"/?.collapsed
    as "$user" "sonde record $pid -d 1 -F 199 -o /tmp/$user/x.collapsed"
    has 'spin_worker;spin_caller;spin_leaf' x.collapsed
    answer $?
}
ask_machine() { # in the second that a capture lasts, a slow machine may not find all names
    for _ in 1 2 3; do
        as "$user" "sonde top --all -d 1 -n 20"
        has spin_leaf && break
    done
    has spin_leaf
    answer $?
}
ask_waits() { # where threads wait
    rm -f "/tmp/$user"/?.collapsed
    as "$user" "sonde record $pid -d 1 --mode off-cpu -o /tmp/$user/y.collapsed"
    has 'main' y.collapsed
    answer $?
}
ask_bpf() { # measured at each switch, and not by looking
    rm -f "/tmp/$user"/?.collapsed
    as "$user" "sonde record $pid -d 1 --mode off-cpu -o /tmp/$user/y.collapsed"
    has 'main' y.collapsed && ! has 'by looks'
    answer $?
}
ask_guest() {
    rm -f "/tmp/$user"/?.collapsed
    as "$user" "sonde record $user-guest --source guest -d 1 -o /tmp/$user/z.collapsed"
    has 'spin_worker;spin_caller;spin_leaf' z.collapsed
    answer $?
}
ask_threads() {
    as "$user" "sonde threads $user-guest"
    has 'spin_caller' && has 'main'
    answer $?
}
ask_confined() { # a process that AppArmor confines
    /confined/spin 100000 >/dev/null 2>&1 &
    sleep 0.5
    rm -f "/tmp/$user"/?.collapsed
    as "$user" "grep enforce /proc/$!/attr/current && sonde record $! -d 1 -F 199 -o /tmp/$user/x.collapsed && sonde threads $!"
    has 'spin_worker;spin_caller;spin_leaf' x.collapsed && has enforce && has spin_caller
    answer $?
    kill $!
}
ask_curl() {
    as "$user" "curl -s -m 20 http://127.0.0.1:$port/v1/targets"
    has '"pid"'
    answer $?
}
ask_doctor() { # no finding denies another
    as "$user" "sonde doctor"
    word=yes
    has '^ok +sysctl' && has 'sysctl .*perf_event_paranoid=2' && word=FAIL
    has '^ok +rights' && has 'Permission denied' && word=FAIL
    has '^(ok|note|fix) ' || word=FAIL
    echo "= $where|$user|doctor|$word|"
    [ $word != FAIL ] || sed 's/^/    /' "/tmp/$user/out"
}
ask_hotplug() { # CPUs come and go during a capture
    (for cpu in 1 2 3 1 2 3; do
        echo 0 >/sys/devices/system/cpu/cpu$cpu/online
        sleep 0.2
        echo 1 >/sys/devices/system/cpu/cpu$cpu/online
    done) 2>/dev/null &
    rm -f "/tmp/$user"/?.collapsed
    as "$user" "sonde record $pid -d 3 -F 199 -o /tmp/$user/x.collapsed"
    wait $!
    has 'spin_worker;spin_caller;spin_leaf' x.collapsed
    answer $?
}
ask_change() { # perf is refused, then allowed, during captures of the guest, which goes on
    echo 3 >/proc/sys/kernel/perf_event_paranoid
    rm -f "/tmp/$user"/?.collapsed
    as "$user" "sonde record $user-guest --source guest -d 6 -o /tmp/$user/z.collapsed" &
    sleep 2
    echo 2 >/proc/sys/kernel/perf_event_paranoid
    wait $!
    has 'spin_worker;spin_caller;spin_leaf' z.collapsed
    answer $?
}

setting() { # setting NAME COMMAND
    where=$1
    sh -c "$2" >/tmp/setting 2>&1 || echo "= $where|root|setting|FAIL|$(tail -n 1 /tmp/setting)"
}
ask() { # ask USER QUESTION...
    user=$1
    shift
    pid=$(cat "/tmp/$user/pid")
    port=$(cat "/tmp/$user/port")
    for question in "$@"; do "ask_$question"; done
}
begin() { # begin USER PORT: a process of its own, and one under the guest; the first captures of a slow machine may lack names
    echo "$2" >"/tmp/$1/port"
    as "$1" "/spin 100000 >/dev/null 2>&1 & echo \$! >/tmp/$1/pid
             sonde run --name $1-guest --http 127.0.0.1:$2 -- /spin 100000 >/tmp/$1/run 2>&1 &"
    for _ in $(seq 200); do
        if grep -q '^http: ' "/tmp/$1/run" 2>/dev/null; then
            as "$1" "sonde record $(cat /tmp/$1/pid) -d 1 -o /tmp/$1/x.collapsed"
            as "$1" "sonde record $1-guest --source guest -d 1 -o /tmp/$1/x.collapsed"
            return
        fi
        sleep 0.1
    done
    echo "= begin|$1|run|FAIL|$(tail -n 1 "/tmp/$1/run")"
}

echo # the firmware leaves an unfinished line
begin root 20180
begin nobody 20181
. /cells
echo "= end"
poweroff -f
