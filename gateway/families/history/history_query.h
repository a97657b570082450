/* SPDX-License-Identifier: Apache-2.0
 *
 * What the paths of history have in common: the parameters that select windows, and how a call to
 * the History service ends. In the loop only. */
#ifndef SONDE_GATEWAY_FAMILIES_HISTORY_HISTORY_QUERY_H
#define SONDE_GATEWAY_FAMILIES_HISTORY_HISTORY_QUERY_H

#include "gateway/reply/relay.h"
#include "proto/sonde/v1/history.pb-c.h"

#define HISTORY_DEADLINE_MS 130000 /* after the service's own */
#define HISTORY_NS_PER_S    1000000000

/* Reads `service`, `event`, `selector`, `from`, `until` and `host_totals`, each with the prefix
 * ("base_") in front. Parameters that are absent leave the selection unchanged. Texts live in the
 * arena. SONDE_INVALID_ARGUMENT, also if the range is empty. */
SONDE_MUST_USE sonde_err history_read_selection(const struct query *query, const char *prefix,
                                                struct sonde_arena *arena,
                                                Sonde__V1__Selection *selection,
                                                struct sonde_diag *diag);
/* The last hour, of everything. */
Sonde__V1__Selection history_default_selection(void);
/* A parameter as nanoseconds since the Unix epoch; unchanged if it is absent. */
SONDE_MUST_USE sonde_err history_read_time(const struct query *query, const char *key,
                                           int64_t now_ns, int64_t *unix_ns,
                                           struct sonde_diag *diag);
int64_t history_now(void);
/* A parameter as text in the arena; unchanged if it is absent. Refuses NUL and invalid UTF-8. */
SONDE_MUST_USE sonde_err history_read_text(const struct query *query, const char *key,
                                           struct sonde_arena *arena, char **text,
                                           struct sonde_diag *diag);
/* A missing store has the same sentence on every path, and fields have the names of parameters. May
 * return diag or one that lives until the next call. */
sonde_err history_explain(sonde_err err, const struct sonde_diag **diag);
/* For relay_events.on_end of a call that answers with its only message. */
void history_on_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag);

#endif
