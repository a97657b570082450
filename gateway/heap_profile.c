/* SPDX-License-Identifier: Apache-2.0
 *
 * The live heap, or one of the periodic dumps, as a profile: /debug/pprof/heap, /pprof/heap and
 * Julia's /heap_snapshot. */
#include "gateway/capture.h"
#include "gateway/heap.h"
#include "gateway/reply.h"

#include <stdio.h>
#include <string.h>

#define NOT_ACTIVE_TEXT "heap profiling is not activated"

static void refuse(struct exchange *exchange, const struct capture_form *form, sonde_err err,
                   const struct sonde_diag *diag) {
    char text[64];
    if (err == SONDE_NOT_ACTIVE) {
        reply_status(exchange_take_request(exchange), exchange->family, 500, "NOT_ACTIVE",
                     NOT_ACTIVE_TEXT);
    } else if (err == SONDE_NOT_FOUND && form->dump[0]) {
        snprintf(text, sizeof text, "heap profile %s not found", form->dump);
        reply_status(exchange_take_request(exchange), exchange->family, 400, "NOT_FOUND", text);
    } else {
        exchange_refuse(exchange, err, diag);
    }
}

/* Exactly six digits and ".heap": nothing else ever leaves this process as a name. */
static bool is_dump_name(struct sonde_slice name) {
    size_t digits = 0;
    while (digits < name.len && name.data[digits] >= '0' && name.data[digits] <= '9')
        digits++;
    return digits == 6 && name.len == DUMP_NAME_SIZE - 1 && memcmp(name.data + 6, ".heap", 5) == 0;
}

/* False when there is a name, but a bad one. */
static bool read_name(const struct query *query, char dump[DUMP_NAME_SIZE],
                      struct sonde_diag *diag) {
    struct sonde_slice name;
    char quoted[QUERY_QUOTED_SIZE];
    dump[0] = 0;
    if (!query_get(query, "name", &name) || name.len == 0)
        return true;
    if (!is_dump_name(name)) {
        diag->code = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "heap profile name %s is invalid",
                                query_quote(name, quoted));
        return false;
    }
    memcpy(dump, name.data, name.len);
    dump[name.len] = 0;
    return true;
}

static void get_dump(struct exchange *exchange) {
    const struct capture_form *form = capture_form_of(exchange);
    Sonde__V1__GetHeapDumpRequest request = SONDE__V1__GET_HEAP_DUMP_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = exchange_selector(&exchange->target);
    Sonde__V1__Rendering rendering = capture_rendering(form);
    request.target = &selector;
    request.rendering = &rendering;
    request.name = (char *)(uintptr_t)form->dump;
    capture_call(exchange, &client_get_heap_dump, &request.base, CAPTURE_GRACE_MS);
}

static void refuse_dump(struct exchange *exchange) {
    refuse(exchange, capture_form_of(exchange), SONDE_NOT_FOUND, NULL);
}

/* pprof over a time means what changed meanwhile. */
static bool check_seconds(struct visit *visit, const struct capture_form *form) {
    struct sonde_diag diag = {0};
    uint64_t seconds = 0;
    if (form->format != SONDE__V1__FORMAT__PPROF || form->dump[0])
        return true;
    sonde_err err = query_whole(&visit->query, "seconds", 1, 3600, &seconds, &diag);
    /* NEEDSWORK: the change itself needs an RPC that takes two snapshots. */
    if (!err && seconds)
        err =
            sonde_fail(&diag, SONDE_UNIMPLEMENTED,
                       "the change over a time is not served yet: leave seconds out, or fetch two "
                       "profiles and compare them with go tool pprof -diff_base");
    if (err)
        reply_error(visit->request, visit->family, err, &diag);
    return !err;
}

static void take_snapshot(struct visit *visit, const struct capture_form *form, bool require_active,
                          bool all_one) {
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = exchange_selector(&visit->target);
    Sonde__V1__Rendering rendering = capture_rendering(form);
    request.target = &selector;
    request.rendering = &rendering;
    request.require_active = require_active;
    request.all_one = all_one;
    capture_start(visit, form, &client_heap_snapshot, &request.base, CAPTURE_GRACE_MS);
}

/* `jeprof=true`, to the letter, is a call graph whatever the headers say. */
static bool wants_callgraph(const struct query *query) {
    struct sonde_slice value;
    return query_get(query, "jeprof", &value) && sonde_slice_equals(value, "true");
}

void handle_heap_profile(struct visit *visit) {
    struct profile_setup setup = *(const struct profile_setup *)visit->route->setup;
    struct sonde_diag diag = {0};
    struct capture_form form;
    char dump[DUMP_NAME_SIZE];
    if (wants_callgraph(&visit->query)) {
        setup.format = SONDE__V1__FORMAT__SVG_CALLGRAPH;
        setup.flags &= ~(unsigned)PROFILE_NEGOTIATES;
    }
    if (!read_name(&visit->query, dump, &diag)) {
        reply_error(visit->request, visit->family, diag.code, &diag);
        return;
    }
    if (!capture_read_form(visit, &setup, setup.format, &form))
        return;
    form.refuse = refuse;
    memcpy(form.dump, dump, sizeof dump);
    if (!check_seconds(visit, &form))
        return;
    if (!dump[0])
        take_snapshot(visit, &form, true, false);
    else if (visit->head)
        capture_check(visit, &form);
    else
        heap_if_active(capture_create(visit, &form), get_dump, refuse_dump);
}

void handle_heap_snapshot(struct visit *visit) {
    const struct profile_setup *setup = visit->route->setup;
    struct sonde_diag diag = {0};
    struct capture_form form;
    bool all_one = false;
    sonde_err err = query_flag(&visit->query, "all_one", &all_one, &diag);
    if (err)
        reply_error(visit->request, visit->family, err, &diag);
    else if (capture_read_form(visit, setup, setup->format, &form))
        take_snapshot(visit, &form, false, all_one);
}
