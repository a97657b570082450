/* SPDX-License-Identifier: Apache-2.0
 *
 * How complete an answer is. Windows that are there say nothing about hosts that are away, but a
 * living host sends totals every 10 s whatever runs on it. So a host was silent where its totals
 * have a gap:
 *
 *     an hour before    from                                      until
 *     ──── totals ───────┼── totals ──┤  silence  ├── totals ──┤ silence
 *
 * A host that was recorded neither in that hour nor in the range is not expected: it may have been
 * taken away. A host that appears in the range is expected from then on. */
#include "api/profile/event.h"
#include "service/rpc/base/text.h"
#include "service/rpc/history/selection.h"
#include "service/store/selector/selector.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define SECOND       INT64_C(1000000000)
#define BEFORE_S     3600 /* a host that was silent for longer is not expected */
#define LATE_S       15   /* totals of an interval of 10 s are stored within 5 s of its end */
#define MAX_HOSTS    10000
#define MAX_SILENCES 100

struct coverage {
    struct history_query *query;
    const struct store_query *asked;
    int64_t until_unix_s; /* not in the future */
    bool is_asked;        /* for hosts */
    const char **hosts;   /* that had windows of the selection, then or in the hour before */
    size_t host_count;
    bool was_recorded; /* some host, when the range begins */
    int64_t began_unix_s;
    int64_t missing_s; /* of the hosts that had windows */
    Sonde__V1__Completeness *completeness;
};

static const char *value_of(void *context, const char *name) {
    return strcmp(name, "host") == 0 ? context : "";
}

static bool had_windows(const struct coverage *coverage, const char *host) {
    for (size_t i = 0; i < coverage->host_count; i++)
        if (strcmp(coverage->hosts[i], host) == 0)
            return true;
    return false;
}

/* Asks once, and only if some host was silent. */
static sonde_err ask_hosts(struct coverage *coverage, struct sonde_diag *diag) {
    struct store *store = coverage->query->history->store;
    struct store_query earlier = *coverage->asked;
    bool is_cut;
    if (coverage->is_asked)
        return SONDE_OK;
    coverage->is_asked = true;
    earlier.event = NULL;
    earlier.from_unix_s -= BEFORE_S;
    return store->ops->labels(store, &earlier, "host", MAX_HOSTS, &coverage->query->arena,
                              &coverage->hosts, &coverage->host_count, &is_cut, diag);
}

static sonde_err add_silence(struct coverage *coverage, const char *host, int64_t from,
                             int64_t until) {
    Sonde__V1__Completeness *completeness = coverage->completeness;
    struct sonde_arena *arena = &coverage->query->arena;
    if (completeness->n_silences == MAX_SILENCES) {
        completeness->silences_omitted++;
        return SONDE_OK;
    }
    if (!completeness->silences)
        completeness->silences =
            sonde_arena_alloc(arena, MAX_SILENCES * sizeof *completeness->silences);
    Sonde__V1__Silence *silence = sonde_arena_alloc(arena, sizeof *silence);
    if (!silence || !completeness->silences)
        return SONDE_OUT_OF_MEMORY;
    sonde__v1__silence__init(silence);
    silence->host = (char *)rpc_text(arena, host);
    silence->from_unix_ns = from * SECOND;
    silence->until_unix_ns = until * SECOND;
    completeness->silences[completeness->n_silences++] = silence;
    return SONDE_OK;
}

/* Whether a pause from `begin` to `end` is a silence; cuts it to the range. */
static bool is_silence(const struct coverage *coverage, int64_t *begin, int64_t *end) {
    int64_t from = coverage->asked->from_unix_s;
    *begin = *begin > from ? *begin : from;
    *end = *end < coverage->until_unix_s ? *end : coverage->until_unix_s;
    return *end - *begin >= STORE_HOST_PAUSE_S;
}

/* The pauses after each span; after the last one, as far as totals must have arrived. */
static sonde_err add_pauses(struct coverage *coverage, const struct store_host *host,
                            int64_t arrived_unix_s, bool is_known) {
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < host->span_count && !err; i++) {
        bool is_last = i + 1 == host->span_count;
        int64_t begin = host->spans[i].end_unix_s;
        int64_t end = is_last ? INT64_MAX : host->spans[i + 1].begin_unix_s;
        if (is_last && arrived_unix_s - begin < STORE_HOST_PAUSE_S)
            continue;
        if (!is_silence(coverage, &begin, &end))
            continue;
        coverage->missing_s += is_known ? end - begin : 0;
        err = add_silence(coverage, host->name, begin, end);
    }
    return err;
}

static bool is_whole(const struct coverage *coverage, const struct store_host *host,
                     int64_t arrived_unix_s) {
    const struct store_span *first = &host->spans[0];
    return host->span_count == 1 && first->begin_unix_s <= coverage->asked->from_unix_s &&
           arrived_unix_s - first->end_unix_s < STORE_HOST_PAUSE_S;
}

static sonde_err add_host(struct coverage *coverage, const struct history_selection *selection,
                          const struct store_host *host, struct sonde_diag *diag) {
    int64_t now = (int64_t)time(NULL), arrived = coverage->until_unix_s;
    int64_t begin = host->spans[0].begin_unix_s;
    bool matches = selector_matches(selection->selector, value_of, (void *)host->name);
    arrived = arrived < now - LATE_S ? arrived : now - LATE_S;
    if (matches && is_whole(coverage, host, arrived)) {
        coverage->was_recorded = true;
        return SONDE_OK;
    }
    sonde_err err = ask_hosts(coverage, diag);
    bool is_known = selection->host_totals ? matches : had_windows(coverage, host->name);
    if (err || (!matches && !is_known))
        return err;
    if (begin <= coverage->asked->from_unix_s + STORE_HOST_PAUSE_S)
        coverage->was_recorded = true;
    else if (!coverage->began_unix_s || begin < coverage->began_unix_s)
        coverage->began_unix_s = begin;
    return add_pauses(coverage, host, arrived, is_known);
}

static sonde_err add_hosts(struct coverage *coverage, const struct history_selection *selection,
                           struct sonde_diag *diag) {
    struct store *store = coverage->query->history->store;
    const struct store_query times = {.from_unix_s = coverage->asked->from_unix_s - BEFORE_S,
                                      .until_unix_s = coverage->until_unix_s,
                                      .stop = coverage->asked->stop};
    struct store_host *hosts = NULL;
    size_t count = 0;
    sonde_err err = store->ops->hosts(store, &times, &coverage->query->arena, &hosts, &count, diag);
    for (size_t i = 0; i < count && !err; i++)
        err = add_host(coverage, selection, &hosts[i], diag);
    return err;
}

/* A silent host had at least one process, so at least one window for each window's length. */
static void expect_missing(const struct coverage *coverage, const struct store_merge *merge) {
    Sonde__V1__Completeness *completeness = coverage->completeness;
    uint32_t window_s = completeness->window_s ? completeness->window_s : HISTORY_WINDOW_S;
    uint64_t missing = ((uint64_t)coverage->missing_s + window_s / 2) / window_s;
    if (!sonde_event_is_state(coverage->asked->event) &&
        merge->windows + missing > completeness->windows_expected)
        completeness->windows_expected = merge->windows + missing;
}

/* Recorders' windows end when Unix time is a multiple of their length. What is stored of the one
 * that is open now has been stored early, for this query (selection.c). */
static uint32_t open_s(const struct coverage *coverage, const struct store_merge *merge) {
    int64_t now = (int64_t)time(NULL), begin = now - now % HISTORY_WINDOW_S;
    begin = merge->first_unix_s > begin ? merge->first_unix_s : begin;
    bool is_open = coverage->query->history->refresh && coverage->asked->until_unix_s > begin &&
                   merge->last_unix_s > begin && !sonde_event_is_state(coverage->asked->event);
    return is_open ? (uint32_t)(merge->last_unix_s - begin) : 0;
}

sonde_err history_completeness(struct history_query *query,
                               const struct history_selection *selection,
                               const struct store_merge *merge,
                               Sonde__V1__Completeness *completeness, struct sonde_diag *diag) {
    int64_t now = (int64_t)time(NULL), until = selection->query.until_unix_s;
    struct coverage coverage = {.query = query,
                                .asked = &selection->query,
                                .until_unix_s = until < now ? until : now,
                                .completeness = completeness};
    *completeness = (Sonde__V1__Completeness)SONDE__V1__COMPLETENESS__INIT;
    completeness->windows_expected = merge->windows_expected;
    completeness->windows_received = merge->windows;
    completeness->samples = merge->samples;
    completeness->dropped = merge->dropped;
    completeness->rows = merge->rows_read;
    completeness->shards_asked = merge->shards_asked;
    completeness->shards_answered = merge->shards_answered;
    completeness->first_unix_ns = merge->first_unix_s * SECOND;
    completeness->last_unix_ns = merge->last_unix_s * SECOND;
    completeness->counted_ns = (uint64_t)merge->counted_ns;
    completeness->sampled_ns = (uint64_t)merge->sampled_ns;
    completeness->covered_s = (double)merge->covered_ns / SECOND;
    if (merge->windows)
        completeness->window_s = (uint32_t)(completeness->covered_s / (double)merge->windows + 0.5);
    completeness->open_s = open_s(&coverage, merge);
    completeness->drawn_processes = merge->drawn;
    completeness->drawn_for = merge->drawn_for;
    if (merge->drawn_sum > 0)
        completeness->drawn_deviation = sqrt(merge->drawn_variance) / merge->drawn_sum;
    sonde_err err = add_hosts(&coverage, selection, diag);
    expect_missing(&coverage, merge);
    if (!coverage.was_recorded && selection->query.from_unix_s > 0)
        completeness->recording_began_unix_ns = coverage.began_unix_s * SECOND;
    completeness->duration_ns = history_query_ns(query);
    return err;
}
