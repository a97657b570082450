# SPDX-License-Identifier: Apache-2.0
"""The boots, and the settings that are asked in each. A row: name, shell command that makes the setting, command that takes it
back, questions of root, questions of another user."""

ALL = "record waits bpf machine guest threads curl doctor"
USER = "record guest threads curl doctor"


def sysctl(name, value, undo, root, user):
    path = f"/proc/sys/kernel/{name}"
    return (f"{name.rsplit('/', 1)[-1]}={value}", f"echo {value} >{path}", f"echo {undo} >{path}" if undo is not None else "true", root, user)


DEFAULT = ("as installed", "true", "true", ALL, USER)
PARANOID_2 = sysctl("perf_event_paranoid", 2, 3, ALL, USER)
NO_BTF = ("no BTF", "[ ! -d /sys/kernel/btf ] || mount -t tmpfs none /sys/kernel/btf", "umount /sys/kernel/btf 2>/dev/null; true",
          "bpf waits", "")
# The last three of the settings cannot be taken back.
SETTINGS = [
    DEFAULT,
    *[sysctl("perf_event_paranoid", level, 3, "record machine guest", USER) for level in (-1, 0, 1)],
    PARANOID_2,
    sysctl("perf_event_paranoid", 4, 3, "record waits machine guest", "record guest threads"),
    ("perf_event_paranoid 3, then 2", "true", "echo 3 >/proc/sys/kernel/perf_event_paranoid", "change", "change"),
    sysctl("kptr_restrict", 2, 0, "record machine", "guest"),
    NO_BTF,
    ("user namespaces off", "echo 0 >/proc/sys/user/max_user_namespaces", "true", "record threads guest", "guest threads"),
    ("/tmp noexec", "mount -o remount,noexec /tmp", "mount -o remount,exec /tmp", "record threads guest", "guest threads"),
    ("/proc hidepid=2", "mount -o remount,hidepid=2 /proc", "mount -o remount,hidepid=0 /proc", "record machine threads guest curl",
     "guest threads curl"),
    sysctl("yama/ptrace_scope", 1, 0, "record waits threads", "record threads guest"),
    sysctl("yama/ptrace_scope", 2, 0, "record waits threads", "record threads guest"),
    ("cgroup v1", "mkdir -p /run/v1 && mount -t cgroup -o cpu,cpuacct none /run/v1 && mkdir /run/v1/x && cat /tmp/root/pid >/run/v1/x/cgroup.procs",
     "cat /tmp/root/pid >/run/v1/cgroup.procs && rmdir /run/v1/x && umount /run/v1", "record machine", ""),
    ("AppArmor confines the target", "cat /confined.policy >/sys/kernel/security/apparmor/.load", "true", "confined", ""),
    ("unprivileged_bpf_disabled=1", "echo 1 >/proc/sys/kernel/unprivileged_bpf_disabled", "true", "bpf", ""),
    ("modules_disabled=1", "echo 1 >/proc/sys/kernel/modules_disabled", "true", "record curl", "curl"),
    sysctl("yama/ptrace_scope", 3, None, "record threads guest", "guest threads"),
]

SMALL = [DEFAULT, PARANOID_2, sysctl("perf_event_paranoid", 4, 3, "record waits machine guest", "record guest threads"), NO_BTF]

# name: (suites, settings, cpus, MiB, options of the kernel, seconds)
BOOTS = {
    "settings": (("bookworm",), SETTINGS, 2, 1024, "", 700),
    "kernels": (("bullseye", "trixie"), SMALL, 2, 1024, "", 300),
    "1 CPU, 512 MiB": (("bookworm",), [("1 CPU, 512 MiB", "true", "true", "record waits machine guest threads", "guest threads")], 1, 512, "", 200),
    "8 CPUs": (("bookworm",), [("8 CPUs", "true", "true", "record machine hotplug", "guest")], 8, 1024, "", 300),
    "lockdown": (("bookworm",), [("lockdown=confidentiality", "true", "true", "record waits bpf machine guest threads", "guest threads")], 2, 1024,
                 "lockdown=confidentiality", 200),
    "integrity": (("bookworm",), [("lockdown=integrity", "true", "true", "record waits bpf machine guest threads", "guest threads")], 2, 1024,
                  "lockdown=integrity", 200),
}


def script(settings):
    """The settings as guest.sh takes them."""
    lines = []
    for name, make, undo, root, user in settings:
        lines.append(f"setting '{name}' '{make}'")
        lines += [f"ask {who} {questions}" for who, questions in (("root", root), ("nobody", user)) if questions]
        lines.append(f"sh -c '{undo}'")
    return "\n".join(lines) + "\n"
