/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine around the services: kernel settings, systemd's units, clocks, and other sonded. */
#include "clients/cli/services.h"
#include "clients/cli/verbs/doctor/doctor.h"
#include "clients/cli/verbs/source/run_program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/timex.h>
#include <unistd.h>

/* ---- Kernel settings ---- */

static const struct {
    const char *path, *name;
    long worst; /* the smallest value that is a problem, or with is_low the largest */
    bool is_low;
    const char *lost, *fix;
} sysctls[] = {
    {"/proc/sys/kernel/perf_event_paranoid", "kernel.perf_event_paranoid", 3, false,
     "perf is for root alone; other users start what they profile with `sonde run`",
     "sysctl -w kernel.perf_event_paranoid=2"},
    {"/proc/sys/kernel/kptr_restrict", "kernel.kptr_restrict", 2, false,
     "functions of the kernel have no names, not even for root",
     "sysctl -w kernel.kptr_restrict=1"},
    {"/proc/sys/kernel/yama/ptrace_scope", "kernel.yama.ptrace_scope", 3, false,
     "`sonde threads` has no stacks", "reboot: the kernel never lowers 3"},
    {"/proc/sys/kernel/perf_event_mlock_kb", "kernel.perf_event_mlock_kb", 127, true,
     "users other than root have no room for the rings of their samples",
     "sysctl -w kernel.perf_event_mlock_kb=516"},
    {"/proc/sys/fs/file-max", "fs.file-max", 65535, true,
     "a capture of many threads runs out of files", "sysctl -w fs.file-max=1000000"},
};

static bool read_long(const char *path, long *number) {
    FILE *file = fopen(path, "re");
    bool is_read = file && fscanf(file, "%ld", number) == 1;
    if (file)
        fclose(file);
    return is_read;
}

void doctor_check_sysctls(struct doctor *doctor) {
    size_t bad = 0;
    for (size_t i = 0; i < COUNT_OF(sysctls); i++) {
        long number;
        if (!read_long(sysctls[i].path, &number) ||
            (sysctls[i].is_low ? number > sysctls[i].worst : number < sysctls[i].worst))
            continue;
        bad++;
        doctor_report(doctor, FINDING_NOTE, "sysctl", sysctls[i].fix, "%s is %ld: %s",
                      sysctls[i].name, number, sysctls[i].lost);
    }
    if (!bad)
        doctor_report(doctor, FINDING_OK, "sysctl", NULL,
                      "no other setting of the kernel limits Sonde");
}

/* ---- Clocks ---- */

/* History stores wall-clock times, and a fleet compares those of many machines. */
void doctor_check_time(struct doctor *doctor) {
    char source[32] = "";
    struct timex state = {0};
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    if (file && fscanf(file, "%31s", source) != 1)
        source[0] = 0;
    if (file)
        fclose(file);
    if (strcmp(source, "hpet") == 0 || strcmp(source, "acpi_pm") == 0)
        doctor_report(doctor, FINDING_NOTE, "time",
                      "echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource",
                      "the kernel reads its clock from %s, which takes a microsecond each time",
                      source);
    if (adjtimex(&state) == TIME_ERROR || (state.status & STA_UNSYNC))
        doctor_report(doctor, FINDING_NOTE, "time", "timedatectl set-ntp true",
                      "the clock is not synchronized, so times in the history may be wrong");
    else
        doctor_report(doctor, FINDING_OK, "time", NULL, "the clock is synchronized");
}

/* ---- Units ---- */

static const char *const units[] = {"sonded", "sonde-gateway", "sonde-history", "sonde-collect"};

/* The value of NAME in "NAME=value" lines; "" = none. */
static void value_of(const char *text, const char *name, char *value, size_t size) {
    size_t len = strlen(name);
    value[0] = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == '=')
            snprintf(value, size, "%.*s", (int)strcspn(line + len + 1, "\n"), line + len + 1);
    }
}

static void report_unit(struct doctor *doctor, const char *unit, const char *text) {
    char active[32], enabled[32], reload[8], fix[120] = "";
    const char *problem = NULL;
    enum finding_state state = FINDING_FIX;
    value_of(text, "ActiveState", active, sizeof active);
    value_of(text, "UnitFileState", enabled, sizeof enabled);
    value_of(text, "NeedDaemonReload", reload, sizeof reload);
    if (strcmp(active, "failed") == 0) {
        problem = "has failed";
        snprintf(fix, sizeof fix, "journalctl -u %s -n 20; systemctl restart %s", unit, unit);
    } else if (strcmp(reload, "yes") == 0) {
        problem = "has a changed unit file, which systemd has not read";
        snprintf(fix, sizeof fix, "systemctl daemon-reload && systemctl restart %s", unit);
    } else if (strcmp(active, "active") != 0 || strcmp(enabled, "enabled") != 0) {
        problem = strcmp(active, "active") == 0 ? "is running but does not start at boot"
                                                : "is installed but not running";
        state = FINDING_NOTE;
        snprintf(fix, sizeof fix, "systemctl enable --now %s", unit);
    }
    if (problem)
        doctor_report(doctor, state, "units", fix, "%s.service %s", unit, problem);
    else
        doctor_report(doctor, FINDING_OK, "units", NULL,
                      "%s.service is running, and starts at boot", unit);
}

void doctor_check_units(struct doctor *doctor) {
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        char text[1024], loaded[32], unit[40];
        snprintf(unit, sizeof unit, "%s.service", units[i]);
        const char *const argv[] = {
            "systemctl", "show", "-p", "LoadState,ActiveState,UnitFileState,NeedDaemonReload",
            unit,        NULL};
        if (!run_program(argv, DOCTOR_PROGRAM_S, text, sizeof text))
            return; /* systemd does not run here */
        value_of(text, "LoadState", loaded, sizeof loaded);
        if (strcmp(loaded, "loaded") == 0)
            report_unit(doctor, units[i], text);
    }
}

/* ---- Other sonded ---- */

/* Those of `sonde run` belong to their command. */
void doctor_check_services(struct doctor *doctor) {
    struct found_services found;
    char list[300] = "";
    size_t count = 0, len = 0;
    services_find(&found);
    for (size_t i = 0; i < found.count; i++) {
        if (found.items[i].is_of_run)
            continue;
        count++;
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%.120s", len ? ", " : "",
                                found.items[i].address);
        len = len < sizeof list ? len : sizeof list - 1;
    }
    if (count > 1)
        doctor_report(
            doctor, FINDING_NOTE, "service",
            "systemctl stop sonded, or end the one that nobody needs; otherwise name one "
            "with --service ADDR",
            "%zu sonded are running, and each sees only the guests that connect to it: %s", count,
            list);
}
