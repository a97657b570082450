/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings files of the services: mistakes in them, and the certificates that they name. A file
 * that this user may not read is left out. */
#include "api/os/secrets/tls_files.h"
#include "api/settings/settings_file.h"
#include "clients/cli/verbs/doctor/doctor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DAY_S     86400
#define SOON_DAYS 14

static const struct {
    const char *path, *program;
} files[] = {
    {"/etc/sonde.conf", "sonded"},
    {"/etc/sonde.conf", "sonde-gateway"},
    {"/etc/sonde.conf", "sonde-history"},
    {"/etc/sonde/sonded.conf", "sonded"},
    {"/etc/sonde/sonde-gateway.conf", "sonde-gateway"},
    {"/etc/sonde/sonde-history.conf", "sonde-history"},
};

/* Settings that name certificates. */
static const char *const names[] = {"tls-cert",     "tls-client-ca", "service-ca",
                                    "service-cert", "register-ca",   "register-cert",
                                    "otlp-ca",      "otlp-cert",     "pyroscope-ca"};

struct reading {
    struct doctor *doctor;
    const char *program;
};

static sonde_err check_certificate(void *context, size_t name, const char *place,
                                   const char *value) {
    struct reading *reading = context;
    int64_t end_s = 0;
    char fix[300];
    struct sonde_diag diag = {0};
    (void)place;
    sonde_err err = tls_file_end(value, &end_s, &diag);
    double days = (double)(end_s - time(NULL)) / DAY_S;
    snprintf(fix, sizeof fix, "renew %.200s, then systemctl reload %s", value, reading->program);
    if (err && diag.os_error == EACCES)
        return SONDE_OK;
    if (err)
        doctor_report(reading->doctor, FINDING_FIX, "tls", fix, "%s of %s: %.250s", names[name],
                      reading->program, sonde_diag_text(&diag, err));
    else if (days < 0)
        doctor_report(reading->doctor, FINDING_FIX, "tls", fix, "%.200s expired %.0f days ago",
                      value, -days);
    else if (days < SOON_DAYS)
        doctor_report(reading->doctor, FINDING_NOTE, "tls", fix, "%.200s expires in %.1f days",
                      value, days);
    else
        doctor_report(reading->doctor, FINDING_OK, "tls", NULL,
                      "%.200s is valid for %.0f more days", value, days);
    return SONDE_OK;
}

static void check_file(struct doctor *doctor, const char *path, const char *program) {
    struct reading reading = {doctor, program};
    const struct sonde_settings_reader reader = {program, names, COUNT_OF(names), check_certificate,
                                                 &reading};
    struct sonde_diag diag = {0};
    char fix[200];
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    sonde_err err = sonde_settings_read(file, path, &reader, &diag);
    fclose(file);
    snprintf(fix, sizeof fix, "edit %.100s, then systemctl restart %s", path, program);
    if (err)
        doctor_report(doctor, FINDING_FIX, "settings", fix, "%.380s", sonde_diag_text(&diag, err));
}

void doctor_check_settings(struct doctor *doctor) {
    const char *named = getenv("SONDE_CONFIG");
    if (named && *named) {
        check_file(doctor, named, "sonded");
        return;
    }
    for (size_t i = 0; i < COUNT_OF(files); i++)
        check_file(doctor, files[i].path, files[i].program);
}
