/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by `history`, `diff`, `gate` and `annotate`: options that select a range of the history,
 * and reading one profile of it. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_HISTORY_H
#define SONDE_CLIENTS_CLI_HISTORY_H

#include "api/profile/event.h"
#include "clients/cli/capture.h"
#include "clients/cli/cli.h"
#include "proto/sonde/v1/history.pb-c.h"

#define HISTORY_TIMEOUT_MS 150000 /* a query may take 2 minutes in the service */

/* Rows of an option table: --from, --until, --event and --selector. `type` is the verb's struct of
 * settings; it needs a `const char *` field for each option, with the option's name. */
#define HISTORY_OPTION(type, name, argument, field, help) \
    { name, 0, argument, NULL, SONDE_OPTION_TEXT, offsetof(type, field), 0, 0, help }
#define HISTORY_OPTIONS(type)                                                         \
    HISTORY_OPTION(type, "from", "TIME", from,                                        \
                   "begin: -1h (default), -2d, 10:00, 2025-11-23T03:42:02Z or Unix"), \
        HISTORY_OPTION(type, "until", "TIME", until, "end (default now)"),            \
        HISTORY_OPTION(type, "event", "EVENT", event, SONDE_EVENT_NAMES),             \
        HISTORY_OPTION(type, "selector", "TEXT", selector,                            \
                       "condition on labels: \"host = 'a'\" or '{host=\"a\"}'")

struct history_range {
    int64_t from_unix_ns, until_unix_ns;
};

/* Reads the times of two options. until NULL = now; from NULL = an hour before until. now_unix_ns
 * is the same for all options of a command. SONDE_INVALID_ARGUMENT, also if the range is empty;
 * diag names the option. */
SONDE_MUST_USE sonde_err history_read_range(const char *from_option, const char *from,
                                            const char *until_option, const char *until,
                                            int64_t now_unix_ns, struct history_range *range,
                                            struct sonde_diag *diag);
int64_t history_now_ns(void);

/* Fills a selection, which borrows the texts. event and selector may be NULL. */
void history_select(Sonde__V1__Selection *selection, const char *service, const char *event,
                    const char *selector, const struct history_range *range);
/* The format for --format and --output; both NULL: a table on stdout. Returns NULL if it is
 * unknown. */
const struct sonde_format_info *history_choose_format(const char *name, const char *path,
                                                      unsigned subjects);

/* Makes a query that answers with CaptureEvents, and writes the result to an open output.
 * SONDE_NOT_FOUND: the range has no windows. */
SONDE_MUST_USE sonde_err history_receive(struct service *service,
                                         const struct client_method *method,
                                         const ProtobufCMessage *request,
                                         const struct history_range *range, struct output *output,
                                         struct capture_result *result, struct sonde_diag *diag);
/* The same to a file, which only appears on success; prints how complete the answer is on stderr.
 */
SONDE_MUST_USE sonde_err history_fetch(struct service *service, const struct client_method *method,
                                       const ProtobufCMessage *request,
                                       const struct history_range *range, const char *path,
                                       struct sonde_diag *diag);
/* SONDE_NOT_FOUND with what history has instead. found is the completeness of the answer or
 * NULL. */
sonde_err history_refuse_empty(struct service *service, const struct history_range *range,
                               const struct capture_completeness *found, struct sonde_diag *diag);
/* Replaces the error of a service that has no history by one that says how to switch it on. */
sonde_err history_explain(sonde_err err, struct sonde_diag *diag);

#endif
