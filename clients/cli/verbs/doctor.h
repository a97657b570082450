/* SPDX-License-Identifier: Apache-2.0
 *
 * What `sonde doctor` finds: one row a finding, "ok", "note" or "fix", and for the last the line
 * that mends it. The checks of the machine are in doctor_machine.c, those that ask the service in
 * doctor_service.c. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_DOCTOR_H
#define SONDE_CLIENTS_CLI_VERBS_DOCTOR_H

#include "clients/cli/service.h"

#define DOCTOR_MAX_FINDINGS 64

enum finding_state { FINDING_OK, FINDING_NOTE, FINDING_FIX };

struct finding {
    enum finding_state state;
    const char *subject; /* "clock" */
    char text[400];
    char fix[300]; /* "" = nothing to do */
};

struct doctor {
    const struct service_settings *settings;
    struct finding findings[DOCTOR_MAX_FINDINGS];
    size_t count;
};

/* mend NULL = none; text is printf-like. */
void doctor_report(struct doctor *doctor, enum finding_state state, const char *subject,
                   const char *fix, const char *format, ...) __attribute__((format(printf, 5, 6)));

void doctor_check_programs(struct doctor *doctor);
void doctor_check_clock(struct doctor *doctor);
void doctor_check_limits(struct doctor *doctor);
void doctor_check_data(struct doctor *doctor);
/* Reachable, of our version; its targets, their clocks and their symbols. */
void doctor_check_service(struct doctor *doctor);

#endif
