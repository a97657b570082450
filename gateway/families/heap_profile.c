/* SPDX-License-Identifier: Apache-2.0
 *
 * The live heap, or one of the periodic dumps, as a profile: /debug/pprof/heap, /pprof/heap and
 * Julia's /heap_snapshot. */
#include "gateway/families/tikv_heap.h"
#include "gateway/request/profile_answer.h"
#include "gateway/request/reply.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NOT_ACTIVE_TEXT "heap profiling is not activated"
#define MAX_SECONDS     3600
#define MAX_AGE_S       1e9

/* The dump that is not there is the base when there is only that name. */
static const char *missing_name(const struct capture_form *form) {
    return form->dump[0] ? form->dump : form->base;
}

static void refuse(struct relay *relay, const struct capture_form *form, sonde_err err,
                   const struct sonde_diag *diag) {
    char text[64];
    if (err == SONDE_NOT_ACTIVE) {
        reply_status(relay_take_request(relay), relay->family, 500, "NOT_ACTIVE", NOT_ACTIVE_TEXT);
    } else if (err == SONDE_NOT_FOUND && diag && strstr(diag->text, ".heap not found")) {
        reply_status(relay_take_request(relay), relay->family, 400, "NOT_FOUND", diag->text);
    } else if (err == SONDE_NOT_FOUND && missing_name(form)[0]) {
        snprintf(text, sizeof text, "heap profile %s not found", missing_name(form));
        reply_status(relay_take_request(relay), relay->family, 400, "NOT_FOUND", text);
    } else {
        relay_refuse(relay, err, diag);
    }
}

/* Exactly six digits and ".heap": nothing else ever leaves this process as a name. */
static bool is_dump_name(struct sonde_slice name) {
    size_t digits = 0;
    while (digits < name.len && name.data[digits] >= '0' && name.data[digits] <= '9')
        digits++;
    return digits == 6 && name.len == DUMP_NAME_SIZE - 1 && memcmp(name.data + 6, ".heap", 5) == 0;
}

static sonde_err read_name(const struct query *query, const char *key, char dump[DUMP_NAME_SIZE],
                           struct sonde_diag *diag) {
    struct sonde_slice name;
    char quoted[QUERY_QUOTED_SIZE];
    dump[0] = 0;
    if (!query_get(query, key, &name) || name.len == 0)
        return SONDE_OK;
    if (!is_dump_name(name))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "heap profile name %s is invalid",
                          query_quote(name, quoted));
    memcpy(dump, name.data, name.len);
    dump[name.len] = 0;
    return SONDE_OK;
}

static void get_dump(struct relay *relay) {
    const struct capture_form *form = capture_form_of(relay);
    Sonde__V1__GetHeapDumpRequest request = SONDE__V1__GET_HEAP_DUMP_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    Sonde__V1__Rendering rendering = capture_rendering(form);
    request.target = &selector;
    request.rendering = &rendering;
    request.name = (char *)(uintptr_t)form->dump;
    request.base_dump = (char *)(uintptr_t)form->base;
    request.growth_only = form->growth_only;
    capture_call(relay, &client_get_heap_dump, &request.base, CAPTURE_GRACE_MS);
}

static void refuse_dump(struct relay *relay) {
    refuse(relay, capture_form_of(relay), SONDE_NOT_FOUND, NULL);
}

/* pprof over a time means what changed meanwhile; for everything else a time means nothing. */
static sonde_err read_seconds(const struct visit *visit, const struct capture_form *form,
                              uint64_t *seconds, struct sonde_diag *diag) {
    *seconds = 0;
    if (form->format != SONDE__V1__FORMAT__PPROF || form->dump[0] || form->base[0])
        return SONDE_OK;
    return query_whole(&visit->query, "seconds", 1, MAX_SECONDS, seconds, diag);
}

struct snapshot {
    bool require_active, all_one;
    uint64_t seconds;
    double older_than_s;
};

static void take_snapshot(struct visit *visit, const struct capture_form *form,
                          const struct snapshot *snapshot) {
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&visit->target);
    Sonde__V1__Rendering rendering = capture_rendering(form);
    request.target = &selector;
    request.rendering = &rendering;
    request.require_active = snapshot->require_active;
    request.all_one = snapshot->all_one;
    request.base_dump = (char *)(uintptr_t)form->base;
    request.growth_only = form->growth_only;
    request.delta_ms = (uint32_t)snapshot->seconds * 1000;
    request.older_than_ms = (uint64_t)llround(snapshot->older_than_s * 1000);
    capture_start(visit, form, &client_heap_snapshot, &request.base,
                  request.delta_ms + CAPTURE_GRACE_MS);
}

/* `jeprof=true`, to the letter, is a call graph whatever the headers say. */
static bool wants_callgraph(const struct query *query) {
    struct sonde_slice value;
    return query_get(query, "jeprof", &value) && sonde_slice_equals(value, "true");
}

/* What form it has unless output= says otherwise. */
static struct profile_setup choose_setup(const struct visit *visit, bool is_difference) {
    struct profile_setup setup = *(const struct profile_setup *)visit->route->setup;
    bool is_callgraph = wants_callgraph(&visit->query);
    if (is_callgraph || is_difference)
        setup.flags &= ~(unsigned)PROFILE_NEGOTIATES;
    if (is_difference)
        setup.format = SONDE__V1__FORMAT__PPROF;
    if (is_callgraph)
        setup.format = SONDE__V1__FORMAT__SVG_CALLGRAPH;
    return setup;
}

struct names {
    char dump[DUMP_NAME_SIZE], base[DUMP_NAME_SIZE];
    bool growth_only;
};

static sonde_err read_names(const struct query *query, struct names *names,
                            struct sonde_diag *diag) {
    names->growth_only = false;
    sonde_err err = read_name(query, "name", names->dump, diag);
    if (!err)
        err = read_name(query, "base", names->base, diag);
    return err || !names->base[0] ? err
                                  : query_flag(query, "growth_only", &names->growth_only, diag);
}

static void answer(struct visit *visit, struct capture_form *form) {
    struct snapshot snapshot = {.require_active = true};
    struct sonde_diag diag = {0};
    sonde_err err = read_seconds(visit, form, &snapshot.seconds, &diag);
    if (!err)
        err =
            query_decimal(&visit->query, "older_than", 0, MAX_AGE_S, &snapshot.older_than_s, &diag);
    if (err)
        reply_error(visit->request, visit->family, err, &diag);
    else if (!form->dump[0])
        take_snapshot(visit, form, &snapshot);
    else if (visit->head)
        capture_check(visit, form);
    else
        heap_if_active(capture_create(visit, form), get_dump, refuse_dump);
}

void handle_heap_profile(struct visit *visit) {
    struct sonde_diag diag = {0};
    struct names names;
    struct capture_form form;
    sonde_err err = read_names(&visit->query, &names, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    struct profile_setup setup = choose_setup(visit, names.base[0] != 0);
    if (!capture_read_form(visit, &setup, setup.format, &form))
        return;
    form.refuse = refuse;
    memcpy(form.dump, names.dump, sizeof form.dump);
    memcpy(form.base, names.base, sizeof form.base);
    form.growth_only = names.growth_only;
    answer(visit, &form);
}

static void refuse_snapshot(struct relay *relay, const struct capture_form *form, sonde_err err,
                            const struct sonde_diag *diag) {
    if (err == SONDE_NOT_ACTIVE)
        heap_refuse_inactive(relay);
    else
        relay_refuse(relay, err, diag);
}

void handle_heap_snapshot(struct visit *visit) {
    const struct profile_setup *setup = visit->route->setup;
    struct sonde_diag diag = {0};
    struct capture_form form;
    bool all_one = false;
    sonde_err err = query_flag(&visit->query, "all_one", &all_one, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
    } else if (capture_read_form(visit, setup, setup->format, &form)) {
        form.refuse = refuse_snapshot;
        take_snapshot(visit, &form, &(struct snapshot){.all_one = all_one});
    }
}
