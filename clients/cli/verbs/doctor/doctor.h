/* SPDX-License-Identifier: Apache-2.0
 *
 * The findings of `sonde doctor`: each is "ok", "note" or "fix", with a command or setting that
 * fixes the problem. The checks of this machine are in doctor_machine.c, doctor_system.c and
 * doctor_settings.c, those that call sonded in doctor_service.c, doctor_rights.c and
 * doctor_history.c. `sonde doctor --unwind` is in doctor_unwind.c. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_DOCTOR_DOCTOR_H
#define SONDE_CLIENTS_CLI_VERBS_DOCTOR_DOCTOR_H

#include "clients/cli/cli.h"
#include "clients/cli/service.h"

#define DOCTOR_MAX_FINDINGS 96
#define DOCTOR_PROGRAM_S    10 /* how long a program may take that it runs */

enum finding_state { FINDING_OK, FINDING_NOTE, FINDING_FIX };

struct finding {
    enum finding_state state;
    const char *subject; /* "clock" */
    char text[400];
    char fix[400]; /* "" = none */
};

struct doctor {
    const struct service_settings *settings;
    struct finding findings[DOCTOR_MAX_FINDINGS];
    size_t count;
};

/* Adds a finding. `fix` is NULL only if there is nothing to fix, or the text ends with it. */
void doctor_report(struct doctor *doctor, enum finding_state state, const char *subject,
                   const char *fix, const char *format, ...) __attribute__((format(printf, 5, 6)));

void doctor_check_programs(struct doctor *doctor);
void doctor_check_clock(struct doctor *doctor);
void doctor_check_limits(struct doctor *doctor);
void doctor_check_data(struct doctor *doctor);
/* Settings of the kernel, the synchronization of its clock, systemd's units, and other sonded. */
void doctor_check_sysctls(struct doctor *doctor);
void doctor_check_time(struct doctor *doctor);
void doctor_check_units(struct doctor *doctor);
void doctor_check_services(struct doctor *doctor);
/* Settings files and certificates. */
void doctor_check_settings(struct doctor *doctor);
/* Whether sonded is reachable and of this version; its targets, their clocks and their symbols. */
void doctor_check_service(struct doctor *doctor);
/* What the service may not sample from outside, and what would allow it. */
void doctor_check_rights(struct doctor *doctor, const Sonde__V1__Info *info);
/* Size, age and gaps of what the service records. Reports nothing if it has no history. */
void doctor_check_history(struct doctor *doctor, struct service *service);
/* Has the service compare its stack walks of a process with libunwind's, and prints the result.
 * save_path: where to write a SavedStack; NULL = nowhere. Returns the exit status. */
int doctor_check_unwind(const struct verb *verb, const struct service_settings *settings,
                        const char *target, double seconds, bool as_json, const char *save_path);

#endif
