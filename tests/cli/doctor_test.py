# SPDX-License-Identifier: Apache-2.0
"""`sonde doctor` on machines with problems: each finding that is not ok has the command that fixes it."""

import json
import os
import subprocess

from tests.cli import check

SONDE = os.path.abspath("clients/cli/sonde")
FOLDER = check.short_folder()
BIN = os.path.join(FOLDER, "bin")


def write(name, text, mode=0o644):
    path = os.path.join(FOLDER, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def doctor(**env):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SONDE_")}
    clean.update(XDG_RUNTIME_DIR=FOLDER, SONDE_SERVICE=f"unix:{FOLDER}/nobody.sock", PATH=f"{BIN}:/usr/bin:/bin", **env)
    done = subprocess.run([SONDE, "doctor", "--json"], env=clean, capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL, cwd=FOLDER)
    return json.loads(done.stdout)["findings"]


def of(subject, findings):
    return [(finding["state"], finding["text"], finding["mend"]) for finding in findings if finding["subject"] == subject]


def systemctl(**properties):
    """What systemctl says of sonded.service; the other units are not there."""
    lines = "".join(f"{name}={value}\n" for name, value in properties.items())
    write("bin/systemctl", f"""#!/bin/sh
case "$*" in *sonded.service) printf '{lines}' ;; *) echo LoadState=not-found ;; esac
""".replace("\n'", "'"), 0o755)


def certificate(days):
    path = os.path.join(FOLDER, f"{days}.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x",
                    "-days", str(days), "-keyout", "/dev/null", "-out", path], check=True, capture_output=True)
    return path


def test_every_finding_that_is_not_ok_says_what_to_do():
    for finding in doctor(SONDE_DATA_DIR="/etc/passwd/x"):
        if finding["state"] != "ok" and finding["subject"] != "names":
            assert finding["mend"], finding


def test_a_failed_unit_is_to_be_fixed():
    systemctl(LoadState="loaded", ActiveState="failed", UnitFileState="enabled", NeedDaemonReload="no")
    check.equal(of("units", doctor()), [
        ("fix", "sonded.service has failed", "journalctl -u sonded -n 20; systemctl restart sonded")])


def test_a_unit_that_does_not_start_at_boot_is_noted():
    systemctl(LoadState="loaded", ActiveState="active", UnitFileState="disabled", NeedDaemonReload="no")
    check.equal(of("units", doctor()), [
        ("note", "sonded.service is running but does not start at boot", "systemctl enable --now sonded")])


def test_a_changed_unit_file_is_to_be_read():
    systemctl(LoadState="loaded", ActiveState="active", UnitFileState="enabled", NeedDaemonReload="yes")
    check.equal(of("units", doctor())[0][2], "systemctl daemon-reload && systemctl restart sonded")


def test_a_unit_that_runs_is_ok():
    systemctl(LoadState="loaded", ActiveState="active", UnitFileState="enabled", NeedDaemonReload="no")
    check.equal(of("units", doctor()), [("ok", "sonded.service is running, and starts at boot", "")])


def test_without_systemd_there_is_nothing_to_say_of_units():
    write("bin/systemctl", "#!/bin/sh\nexit 1\n", 0o755)
    check.equal(of("units", doctor()), [])


def test_certificates_are_watched():
    good, soon = certificate(400), certificate(3)
    path = write("sonde.conf", f"tls_cert = {good}\nservice_cert = {soon}\n[sonded]\nregister_cert = {soon}\n")
    found = of("tls", doctor(SONDE_CONFIG=path))
    check.equal([state for state, _, _ in found], ["ok", "note", "note"])
    check.contains(found[1][1], "expires in")
    check.equal(found[1][2], f"renew {soon}, then systemctl reload sonded")


def test_what_is_not_a_certificate_is_to_be_fixed():
    path = write("sonde.conf", f"tls_cert = {write('x.pem', 'no certificate')}\n")
    found = of("tls", doctor(SONDE_CONFIG=path))
    check.equal(found[0][0], "fix")
    check.contains(found[0][1], "is not a certificate")


def test_programs_of_another_version_are_found():
    for name in ("sonded", "sonde-gateway"):
        write(f"lib/{name}", "#!/bin/sh\necho 0.0.9\n", 0o755)
    found = of("programs", doctor(SONDE_LIBDIR=os.path.join(FOLDER, "lib")))
    old = [text for state, text, _ in found if state == "fix" and "is version 0.0.9" in text]
    check.equal(len(old), 2, found)


check.main(globals())
