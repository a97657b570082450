/* SPDX-License-Identifier: Apache-2.0
 *
 * A change on its way to the store, the log and the webhook. Thread safety: any thread. Blocks. */
#ifndef SONDE_SERVICE_WATCH_REPORT_H
#define SONDE_SERVICE_WATCH_REPORT_H

#include "service/watch/slots.h"
#include "service/watch/webhook.h"

struct report {
    struct store *store;
    struct webhook *webhook; /* NULL = none */
    void (*log)(const char *line);
    const struct store_stop *stop;
    const struct slots *slots;
    struct level_result *result; /* loses the functions that were reported before */
    int64_t now_unix_s;
};

/* Each slot finds a change again until it is LEVEL_SLOTS old. The store knows which changes of the
 * service were reported, also by the watcher before a restart. A function that gets slower twice
 * within twice that time is reported once. A change of more than STORE_MAX_CHANGE_BYTES loses
 * callers, then its smallest functions. Errors: the store's. */
SONDE_MUST_USE sonde_err report_change(const struct report *report, bool *is_repeated,
                                       struct sonde_diag *diag);

#endif
