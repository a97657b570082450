/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports what the service may sample from outside, which it found by trying. */
#include "clients/cli/verbs/doctor/doctor.h"

#include <string.h>

/* Several rights can have one command; it is shown once. */
static bool is_shown(const Sonde__V1__Info *info, size_t at) {
    for (size_t i = 0; i < at; i++)
        if (!info->rights[i]->is_granted &&
            strcmp(info->rights[i]->command, info->rights[at]->command) == 0)
            return true;
    return false;
}

void doctor_check_rights(struct doctor *doctor, const Sonde__V1__Info *info) {
    size_t missing = 0;
    for (size_t i = 0; i < info->n_rights; i++) {
        const Sonde__V1__Right *right = info->rights[i];
        if (right->is_granted)
            continue;
        missing++;
        doctor_report(doctor, FINDING_NOTE, "rights", is_shown(info, i) ? NULL : right->command,
                      "%.40s: %.160s; %.160s", right->name, right->reason, right->lost);
    }
    if (info->n_rights > 0 && missing == 0)
        doctor_report(doctor, FINDING_OK, "rights", NULL,
                      "any process can be sampled from outside, with kernel frames and off-CPU "
                      "time");
}
