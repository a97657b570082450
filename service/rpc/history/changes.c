/* SPDX-License-Identifier: Apache-2.0
 *
 * ListChanges: what a watcher found, whichever service it ran in. */
#include "proto/sonde/v1/history.pb-c.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/history/selection.h"
#include "service/rpc/request/params.h"

#include <string.h>

#define DEFAULT_CHANGES 100
#define MAX_CHANGES     10000

static void *allocate(void *arena, size_t size) {
    return sonde_arena_alloc(arena, size);
}

/* The arena frees everything. */
static void release(void *arena, void *pointer) {
}

/* Rows that cannot be read are left out: they are damaged, or a newer Sonde wrote them. */
static sonde_err add_changes(struct history_query *query, const struct store_change *rows,
                             size_t count, size_t limit) {
    Sonde__V1__ListChangesResponse response = SONDE__V1__LIST_CHANGES_RESPONSE__INIT;
    ProtobufCAllocator allocator = {allocate, release, &query->arena};
    response.changes = sonde_arena_alloc(&query->arena, (count + 1) * sizeof *response.changes);
    if (!response.changes)
        return SONDE_OUT_OF_MEMORY;
    response.is_cut = count > limit;
    for (size_t i = 0; i < count && i < limit; i++) {
        Sonde__V1__Change *change = sonde__v1__change__unpack(&allocator, rows[i].body.len,
                                                              (const uint8_t *)rows[i].body.data);
        if (change)
            response.changes[response.n_changes++] = change;
    }
    return rpc_document_add(&query->document, &response.base);
}

static sonde_err run(struct history_query *query, struct sonde_diag *diag) {
    const Sonde__V1__ListChangesRequest *request = (const void *)query->request;
    struct store *store = query->history->store;
    struct history_selection selection;
    struct store_change *rows = NULL;
    size_t count = 0, limit = request->limit ? request->limit : DEFAULT_CHANGES;
    if (limit > MAX_CHANGES)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "limit: %zu is more than %d", limit,
                          MAX_CHANGES);
    if (strlen(request->service) > STORE_MAX_TEXT)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "service: at most %d bytes",
                          STORE_MAX_TEXT);
    sonde_err err = history_range_read(query, request->from_unix_ns, request->until_unix_ns,
                                       (char *)"", &selection, diag);
    const struct store_change_query wanted = {.service = request->service,
                                              .from_unix_s = selection.query.from_unix_s,
                                              .until_unix_s = selection.query.until_unix_s,
                                              .limit = limit + 1,
                                              .stop = &query->stop};
    if (!err)
        err = store->ops->changes(store, &wanted, &query->arena, &rows, &count, diag);
    if (!err)
        err = add_changes(query, rows, count, limit);
    history_selection_finish(&selection);
    return err;
}

void rpc_list_changes(struct rpc_call *call, const ProtobufCMessage *request) {
    history_query_start(call, request, run);
}
