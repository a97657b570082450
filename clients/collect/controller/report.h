/* SPDX-License-Identifier: Apache-2.0
 *
 * What people see of the controller: a line for its log, sums for its metrics, and its hosts with
 * the reason why each is not connected. Thread safety: any thread, between controller_create and
 * controller_destroy. */
#ifndef SONDE_CLIENTS_COLLECT_CONTROLLER_REPORT_H
#define SONDE_CLIENTS_COLLECT_CONTROLLER_REPORT_H

#include "api/bytes.h"
#include "clients/collect/controller/controller.h"

#define MAX_LOSSES 8 /* causes; more share the last */

struct loss {
    char cause[32]; /* as the host says it; "" = unused */
    uint64_t count;
};

/* WAITING: for the next try, or for the breaker. REFUSED: the host said no, and is asked again.
 * ELSEWHERE: another controller of the group has it. */
enum host_state {
    HOST_WAITING,
    HOST_CONNECTING,
    HOST_CONNECTED,
    HOST_REFUSED,
    HOST_ELSEWHERE,
    HOST_STATES
};

const char *host_state_name(enum host_state state);

struct controller_report {
    size_t hosts[HOST_STATES];
    uint64_t targets; /* that connected hosts record */
    bool is_paused, is_breaker_open;
    uint64_t windows, rows, samples, bytes; /* received; bytes of packed messages */
    uint64_t merged_windows, lost_samples;  /* as the hosts that are listed count them now */
    uint64_t kept_bytes;                    /* that wait on them */
    struct loss lost[MAX_LOSSES];           /* windows, on hosts */
    uint64_t too_large;                     /* windows that no request of History can hold */
    struct deliver_state deliver;
    struct spool_state spool;
    int64_t lag_ns; /* age of the oldest window in the spool */
};

void controller_report(struct controller *controller, struct controller_report *report);
/* Windows that were lost, whatever the cause. */
uint64_t report_lost(const struct controller_report *report);

/* One line: hosts by state, what arrived, what waits, what was lost, and what to do about it. */
void controller_line(struct controller *controller, char *text, size_t size);

/* A JSON array of the hosts in the order of their names, those called `name` only, or all with
 * NULL. */
void controller_hosts_json(struct controller *controller, const char *name, struct sonde_buf *out);
/* A line for each host: those that are not connected or report trouble first, each group in the
 * order of names. */
void controller_hosts_text(struct controller *controller, struct sonde_buf *out);

#endif
