/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/history/selection.h"

#include "api/profile/event.h"
#include "service/rpc/base/text.h"
#include "service/rpc/history/names.h"
#include "service/store/selector/selector.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECOND INT64_C(1000000000)

/* A window belongs to the range if it begins at `from` or later, and before `until`. Windows begin
 * at whole seconds, so both bounds are rounded up. */
static int64_t round_up(int64_t unix_ns) {
    return unix_ns / SECOND + (unix_ns % SECOND > 0);
}

static sonde_err read_range(int64_t from_unix_ns, int64_t until_unix_ns, const char *prefix,
                            struct store_query *query, struct sonde_diag *diag) {
    if (from_unix_ns < 0 || until_unix_ns < 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s%s: a time before 1970", prefix,
                          from_unix_ns < 0 ? "from_unix_ns" : "until_unix_ns");
    if (until_unix_ns && from_unix_ns > until_unix_ns)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%sfrom_unix_ns: %lld is later than until_unix_ns, %lld", prefix,
                          (long long)from_unix_ns, (long long)until_unix_ns);
    query->from_unix_s = round_up(from_unix_ns);
    query->until_unix_s = until_unix_ns ? round_up(until_unix_ns) : (int64_t)time(NULL) + 1;
    return SONDE_OK;
}

/* A range that reaches into the windows that are open now has what they have. */
static void refresh(const struct rpc_history *history, const struct store_query *query) {
    if (history->refresh && query->until_unix_s > (int64_t)time(NULL) - HISTORY_WINDOW_S)
        history->refresh(history->recorder_context);
}

static sonde_err read_selector(const char *text, const char *prefix,
                               struct history_selection *selection, struct sonde_diag *diag) {
    struct sonde_diag inner = {0};
    sonde_err err = selector_parse(text, NULL, NULL, &selection->selector, &inner);
    selection->query.selector = selection->selector;
    return err ? sonde_fail(diag, err, "%sselector: %s", prefix, sonde_diag_text(&inner, err))
               : err;
}

static sonde_err check_text(const char *text, const char *prefix, const char *name,
                            struct sonde_diag *diag) {
    if (strlen(text) <= STORE_MAX_TEXT)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s%s: %zu bytes are too long; at most %d",
                      prefix, name, strlen(text), STORE_MAX_TEXT);
}

sonde_err history_selection_read(const struct history_query *query,
                                 const Sonde__V1__Selection *sent, const char *field,
                                 struct history_selection *selection, struct sonde_diag *diag) {
    const Sonde__V1__Selection everything = SONDE__V1__SELECTION__INIT;
    char prefix[40];
    snprintf(prefix, sizeof prefix, "%s.", field);
    sent = sent ? sent : &everything;
    *selection = (struct history_selection){.host_totals = sent->host_totals};
    selection->query.service = sent->service;
    selection->query.event = *sent->event ? sent->event : sonde_events[SONDE_ON_CPU].name;
    selection->query.stop = &query->stop;
    sonde_err err = check_text(sent->service, prefix, "service", diag);
    if (!err)
        err = check_text(sent->event, prefix, "event", diag);
    if (!err && sent->host_totals &&
        strcmp(selection->query.event, sonde_events[SONDE_ON_CPU].name) != 0)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "%shost_totals: only for the event on-cpu, not for \"%.64s\"", prefix,
                         sent->event);
    if (!err)
        err = read_range(sent->from_unix_ns, sent->until_unix_ns, prefix, &selection->query, diag);
    if (!err)
        err = read_selector(sent->selector, prefix, selection, diag);
    if (!err)
        refresh(query->history, &selection->query);
    return err;
}

sonde_err history_range_read(const struct history_query *query, int64_t from_unix_ns,
                             int64_t until_unix_ns, char *selector,
                             struct history_selection *selection, struct sonde_diag *diag) {
    *selection = (struct history_selection){.query = {.service = "", .stop = &query->stop}};
    sonde_err err = read_range(from_unix_ns, until_unix_ns, "", &selection->query, diag);
    if (!err)
        err = read_selector(selector, "", selection, diag);
    if (!err)
        refresh(query->history, &selection->query);
    return err;
}

void history_selection_finish(struct history_selection *selection) {
    selector_destroy(selection->selector);
    selection->selector = NULL;
}

sonde_err history_selection_profile(struct history_query *query,
                                    const struct history_selection *selection,
                                    struct store_profile *profile, struct sonde_diag *diag) {
    struct store *store = query->history->store;
    *profile = (struct store_profile){.profile = NULL};
    if (selection->host_totals)
        return store_profile_totals(store, &selection->query, &query->arena, profile, diag);
    history_names_refresh(query->history->names, &query->stop);
    return store_profile_query(store, &selection->query, &query->arena, 0, profile, diag);
}
