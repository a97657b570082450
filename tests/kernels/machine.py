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
EMULATOR = ["qemu-system-x86_64", "-cpu", "max"]
ARM64_LOADER = "/lib/ld-linux-aarch64.so.1"
ARM64_EMULATOR = ["qemu-system-aarch64", "-M", "virt", "-cpu", "max,pauth-impdef=on"]


def kernel(folder, suite):
    """The path of a suite's kernel, or None. bazel/install_deps.sh --kernels has put it there."""
    return next(iter(sorted(glob.glob(os.path.join(folder or "/nonexistent", suite, "vmlinuz*")))), None)


def libraries(program):
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/[^ ]+) \(", listed)


def arm64_libraries(programs, folders):
    """{name: path} of the libraries that programs for 64-bit Arm need, found in these folders."""
    found, left = {}, list(programs)
    while left:
        needed = subprocess.run(["readelf", "-d", left.pop()], capture_output=True, text=True, check=False).stdout
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", needed):
            path = next((path for path in (f"{folder}/{name}" for folder in folders) if os.path.exists(path)), None)
            if path and name not in found:
                found[name] = path
                left.append(path)
    return found


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


def make_arm64_root(root, prefix, spin, packages):
    """The same for 64-bit Arm, without curl. packages: the folder into which bazel/install_deps.sh --arm64 has unpacked Debian's."""
    for folder in ("bin", "proc", "sys", "dev", "tmp", "run", "root", "etc", "var/lib"):
        os.makedirs(os.path.join(root, folder))
    copy(f"{packages}/bin/busybox", root, "/bin/busybox")
    copy(spin, root, "/spin")
    shutil.copytree(prefix, os.path.join(root, "sonde"), symlinks=True)
    programs = [*glob.glob(f"{prefix}/bin/*"), f"{prefix}/lib/libsonde.so", spin]
    folders = ["/usr/aarch64-linux-gnu/lib", f"{packages}/usr/lib/aarch64-linux-gnu", f"{packages}/lib/aarch64-linux-gnu"]
    for name, path in arm64_libraries(programs, folders).items():
        copy(path, root, f"/lib/{name}")
    copy(f"/usr/aarch64-linux-gnu{ARM64_LOADER}", root, ARM64_LOADER)
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
    def __init__(self, prefix, spin, packages=None):
        """packages: of 64-bit Arm, if the programs are for that."""
        self.folder = tempfile.mkdtemp(prefix="kernels.")
        self.root = os.path.join(self.folder, "root")
        os.makedirs(self.root)
        self.emulator = ARM64_EMULATOR if packages else EMULATOR
        self.console = "ttyAMA0" if packages else "ttyS0"
        if packages:
            make_arm64_root(self.root, prefix, spin, packages)
        else:
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
        command = ["timeout", "-k", "5", str(seconds), *self.emulator, "-smp", str(cpus), "-m", str(mib), "-nographic",
                   "-no-reboot", "-kernel", path, "-initrd", image, "-append", f"console={self.console} quiet panic=-1 {options}"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.stdout.decode("utf-8", "replace").replace("\r", "").splitlines()


def answers(lines):
    """[(setting, user, question, yes/no/FAIL, text)] of a console; a machine that did not come to its end adds a FAIL with the
    console's last lines."""
    found = [tuple(line[2:].split("|", 4)) for line in lines if re.match(r"= [^|]+(\|[^|]*){4}", line)]
    if "= end" not in lines:
        found.append(("boot", "root", "end", "FAIL", "the machine hung or died: " + " / ".join(lines[-5:])))
    return found
