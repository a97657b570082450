# SPDX-License-Identifier: Apache-2.0
"""Debian's kernels in an emulator (qemu without KVM). A machine is an installed Sonde with busybox, guest.sh as /init and the
questions to ask; it prints its answers on the console."""

import glob
import os
import re
import shutil
import subprocess
import tempfile

SUITES = {"bullseye": "5.10", "bookworm": "6.1", "trixie": "6.12"}
HERE = os.path.dirname(os.path.abspath(__file__))
LOADER = "/lib64/ld-linux-x86-64.so.2"


def kernel(folder, suite):
    """The path of a suite's kernel, or None. bazel/install_deps.sh --kernels has put it there."""
    return next(iter(sorted(glob.glob(os.path.join(folder or "/nonexistent", suite, "vmlinuz*")))), None)


def libraries(program):
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/[^ ]+) \(", listed)


def copy(path, root, to=None):
    target = root + (to or path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy(path, target)


def make_root(root, prefix, spin):
    """A folder with everything that the emulated machine needs but the questions."""
    for folder in ("bin", "proc", "sys", "dev", "tmp", "run", "root", "etc", "var/lib"):
        os.makedirs(os.path.join(root, folder))
    copy("/bin/busybox", root)
    copy("/usr/bin/curl", root, "/bin/curl")
    copy(spin, root, "/spin")
    copy(LOADER, root)
    shutil.copytree(prefix, os.path.join(root, "sonde"), symlinks=True)
    programs = [*glob.glob(f"{prefix}/bin/*"), f"{prefix}/lib/libsonde.so", "/usr/bin/curl", spin]
    for library in sorted({found for program in programs for found in libraries(program)} - {LOADER}):
        copy(library, root)
    for name in ("passwd", "group", "nsswitch.conf"):
        copy(f"/etc/{name}", root)
    copy(os.path.join(HERE, "guest.sh"), root, "/init")
    os.chmod(os.path.join(root, "init"), 0o755)


def add_policy(root, spin):
    """A program and the compiled profile of AppArmor that confines it."""
    copy(spin, root, "/confined/spin")
    with open(os.path.join(root, "confined.policy"), "wb") as policy:
        subprocess.run(["apparmor_parser", "--quiet", "--stdout", "--skip-kernel-load", "--skip-cache", os.path.join(HERE, "confined.profile")],
                       stdout=policy, check=True)


def pack(root, image):
    with open(image, "wb") as out:
        subprocess.run("find . -print0 | cpio -0 -o -H newc --quiet | gzip -1", shell=True, cwd=root, stdout=out, check=True)


class Machine:
    def __init__(self, prefix, spin):
        self.folder = tempfile.mkdtemp(prefix="kernels.")
        self.root = os.path.join(self.folder, "root")
        os.makedirs(self.root)
        make_root(self.root, prefix, spin)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def boot(self, path, cells, seconds, cpus=2, mib=1024, options=""):
        """Boots a kernel and asks the questions in `cells` (shell). Returns the console's lines. A machine that does not power itself
        off in that time is stopped."""
        with open(os.path.join(self.root, "cells"), "w", encoding="utf-8") as file:
            file.write(cells)
        image = os.path.join(self.folder, "initrd")
        pack(self.root, image)
        command = ["timeout", "-k", "5", str(seconds), "qemu-system-x86_64", "-cpu", "max", "-smp", str(cpus), "-m", str(mib), "-nographic",
                   "-no-reboot", "-kernel", path, "-initrd", image, "-append", f"console=ttyS0 quiet panic=-1 {options}"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.stdout.decode("utf-8", "replace").replace("\r", "").splitlines()


def answers(lines):
    """[(setting, user, question, yes/no/FAIL, text)] of a console; a machine that did not come to its end adds a FAIL with the
    console's last lines."""
    found = [tuple(line[2:].split("|", 4)) for line in lines if re.match(r"= [^|]+(\|[^|]*){4}", line)]
    if "= end" not in lines:
        found.append(("boot", "root", "end", "FAIL", "the machine hung or died: " + " / ".join(lines[-5:])))
    return found
