/* SPDX-License-Identifier: Apache-2.0
 *
 * RenewLease. It is a query like others: a worker runs it. */
#include "proto/sonde/v1/history.pb-c.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/history/query.h"

#include <string.h>

#define MIN_S 5
#define MAX_S 300

static bool is_name(const char *name) {
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    return len > 0 && len <= STORE_MAX_LEASE_NAME && name[len] == 0;
}

static sonde_err check(const Sonde__V1__RenewLeaseRequest *request, struct sonde_diag *diag) {
    uint32_t duration_s = request->duration_s;
    if (!is_name(request->group) || !is_name(request->holder))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%s: 1 to %d letters, digits and _.- are needed",
                          is_name(request->group) ? "holder" : "group", STORE_MAX_LEASE_NAME);
    if (duration_s != 0 && (duration_s < MIN_S || duration_s > MAX_S))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "duration_s must be 0, or from %d to %d",
                          MIN_S, MAX_S);
    return SONDE_OK;
}

static sonde_err answer(struct history_query *query, const struct store_lease *live, size_t count) {
    Sonde__V1__RenewLeaseResponse response = SONDE__V1__RENEW_LEASE_RESPONSE__INIT;
    Sonde__V1__Lease *rows = sonde_arena_alloc(&query->arena, (count + 1) * sizeof *rows);
    response.leases = sonde_arena_alloc(&query->arena, (count + 1) * sizeof *response.leases);
    if (!rows || !response.leases)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        sonde__v1__lease__init(&rows[i]);
        rows[i].holder = (char *)live[i].holder;
        rows[i].left_s = live[i].left_s;
        response.leases[response.n_leases++] = &rows[i];
    }
    return rpc_document_add(&query->document, &response.base);
}

static sonde_err run(struct history_query *query, struct sonde_diag *diag) {
    const Sonde__V1__RenewLeaseRequest *request = (const void *)query->request;
    struct store *store = query->history->store;
    const struct store_lease_request wanted = {request->group, request->holder, request->duration_s,
                                               &query->stop};
    struct store_lease *live = NULL;
    size_t count = 0;
    sonde_err err = check(request, diag);
    if (!err)
        err = store->ops->lease(store, &wanted, &query->arena, &live, &count, diag);
    return err ? err : answer(query, live, count);
}

void rpc_renew_lease(struct rpc_call *call, const ProtobufCMessage *request) {
    history_query_start(call, request, run);
}
