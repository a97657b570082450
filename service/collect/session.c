/* SPDX-License-Identifier: Apache-2.0 */
#include "service/collect/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- What the recording asks and writes ---- */

/* With the recorder's lock held. */
static struct record_choice choose(void *context, const struct engine_target *target) {
    struct session *session = context;
    bool is_matched;
    lock_take(&session->collect->lock);
    struct record_choice choice = {collect_settings_machine_hz(session->settings), 1, false};
    if (target) {
        choice = collect_settings_choose(session->settings, target->name, target->uuid, time(NULL),
                                         &is_matched);
        choice.is_left_out =
            is_matched && choice.frequency_hz == 0 && !session->settings->is_paused;
    }
    lock_drop(&session->collect->lock);
    return choice;
}

/* With the recorder's lock held. */
static void on_counts(void *context, uint32_t recorded, uint32_t left_out) {
    struct session *session = context;
    lock_take(&session->collect->lock);
    session->targets = recorded;
    session->not_drawn = left_out;
    lock_drop(&session->collect->lock);
}

/* The mappings of the files that a profile shows. The profile itself goes to the queue. */
static void on_record(void *context, const struct record *record) {
    struct session *session = context;
    const struct sonde_profile *profile = record->profile;
    lock_take(&session->collect->lock);
    uint32_t process = tables_find_process(&session->tables, record->target->uuid);
    size_t count = process ? sonde_profile_mapping_count(profile) : 0;
    for (uint32_t id = 1; id <= count; id++) {
        const struct sonde_mapping *mapping = sonde_profile_mapping(profile, id);
        tables_add_mapping(
            &session->tables, process, sonde_profile_text(profile, mapping->build_id),
            sonde_profile_text(profile, mapping->filename), mapping->start, mapping->limit);
    }
    lock_drop(&session->collect->lock);
}

/* Definitions that cannot be kept make the windows that need them be lost, which is counted. */
static void put_definitions(struct session *session, const struct store_batch *batch) {
    for (size_t i = 0; i < batch->frame_count; i++)
        (void)tables_frame(&session->tables, &batch->frames[i]);
    for (size_t i = 0; i < batch->stack_count; i++)
        (void)tables_stack(&session->tables, &batch->stacks[i]);
}

/* Windows and the totals between them have one sequence, and the ring is sorted by it. */
static void put_windows(struct session *session, const struct store_batch *batch) {
    size_t at = 0;
    for (size_t i = 0; i <= batch->window_count; i++) {
        uint64_t seq = i < batch->window_count ? batch->windows[i].seq : UINT64_MAX;
        while (at < batch->total_count && batch->totals[at].seq < seq) {
            size_t count = 1;
            while (at + count < batch->total_count &&
                   batch->totals[at + count].seq == batch->totals[at].seq)
                count++;
            (void)ring_add_totals(&session->ring, &session->tables, &batch->totals[at], count);
            session->next_seq = batch->totals[at].seq + 1;
            at += count;
        }
        if (i == batch->window_count)
            break;
        (void)ring_add_window(&session->ring, &session->tables, &batch->windows[i]);
        session->windows++;
        session->next_seq = seq + 1;
    }
}

/* Rebuilds the tables from what the ring refers to. True: the recorder must define everything
 * again. */
static bool compact(struct session *session) {
    struct tables fresh;
    tables_init(&fresh);
    if (!ring_renumber(&session->ring, &session->tables, &fresh)) {
        tables_finish(&fresh);
        return false;
    }
    tables_finish(&session->tables);
    session->tables = fresh;
    return true;
}

/* By the recording's writer. */
static sonde_err put(struct store *store, const struct store_batch *batch,
                     struct store_put_result *result, struct sonde_diag *diag) {
    struct session *session = session_of(store);
    (void)diag;
    lock_take(&session->collect->lock);
    put_definitions(session, batch);
    put_windows(session, batch);
    ring_trim(&session->ring, &session->tables);
    bool must_forget = session->tables.bytes > TABLES_BYTES && compact(session);
    struct collect_link *link = session->link;
    if (link)
        link->wake(link->context);
    lock_drop(&session->collect->lock);
    if (must_forget && session->recording)
        recording_forget(session->recording);
    *result = (struct store_put_result){.stored = (uint32_t)batch->window_count};
    return SONDE_OK;
}

/* ---- Sessions ---- */

struct session *session_find(struct collect *collect, const char *name) {
    for (struct session *session = collect->sessions; session; session = session->next)
        if (!session->is_given_up && strcmp(session->name, name) == 0)
            return session;
    return NULL;
}

struct session *session_create(struct collect *collect, const char *name) {
    static const struct store_ops ops = {.put = put};
    struct session *session = calloc(1, sizeof *session);
    if (!session ||
        collect_settings_read(NULL, collect->options.max_hz, &session->settings, NULL)) {
        free(session);
        return NULL;
    }
    session->collect = collect;
    session->store.ops = &ops;
    snprintf(session->name, sizeof session->name, "%s", name);
    session->identity = collect->identity;
    session->identity.source = identity_draw_source();
    session->next_seq = 1;
    tables_init(&session->tables);
    ring_init(&session->ring, collect->options.keep_bytes);
    session->next = collect->sessions;
    collect->sessions = session;
    return session;
}

static bool is_of_session(const struct session *session, const Sonde__V1__CollectAck *ack) {
    return ack && ack->epoch == session->identity.epoch &&
           (ack->source == 0 || ack->source == session->identity.source);
}

void session_check_source(struct session *session, const Sonde__V1__CollectAck *ack) {
    if (is_of_session(session, ack) && ack->seq > session->sent_seq)
        session->identity.source = identity_draw_source();
}

void session_ack(struct session *session, const Sonde__V1__CollectAck *ack) {
    if (!is_of_session(session, ack))
        return;
    uint64_t seq = ack->seq < session->sent_seq ? ack->seq : session->sent_seq;
    if (seq <= session->acked_seq)
        return;
    session->acked_seq = seq;
    ring_ack(&session->ring, seq);
}

uint64_t session_lost(const struct session *session) {
    return session->ring.lost_memory + session->ring.lost_too_large;
}

static void add_loss(struct sonde_arena *arena, Sonde__V1__CollectStatus *status, const char *cause,
                     uint64_t count) {
    Sonde__V1__Drop *drop = count ? sonde_arena_alloc(arena, sizeof *drop) : NULL;
    if (!drop || !status->lost)
        return;
    sonde__v1__drop__init(drop);
    drop->cause = (char *)cause;
    drop->count = count;
    status->lost[status->n_lost++] = drop;
}

bool session_is_pending(const struct session *session) {
    return session->must_restart || session->is_starting;
}

bool session_status_is_due(const struct collect_link *link, int64_t now_ns) {
    return now_ns - link->status_ns >= COLLECT_STATUS_S * NS_PER_S ||
           session_lost(link->session) != link->session->reported_lost ||
           session_is_pending(link->session) != link->said_pending ||
           (link->session->targets > 0) != link->said_targets ||
           (link->session->refusal[0] != 0) != link->said_refusal;
}

void session_status(struct session *session, struct sonde_arena *arena,
                    Sonde__V1__CollectStatus *status) {
    status->targets = session->targets;
    status->not_drawn = session->not_drawn;
    status->windows = session->windows;
    status->acked_seq = session->acked_seq;
    status->next_seq = session->next_seq;
    status->kept_bytes = session->ring.bytes;
    status->merged_windows = session->ring.merged;
    status->lost_samples = session->ring.lost_samples;
    if (session_is_pending(session))
        status->trouble = (char *)"the recording has not begun yet with these settings";
    status->refusal = session->refusal;
    status->lost = sonde_arena_alloc(arena, 2 * sizeof *status->lost);
    add_loss(arena, status, "memory", session->ring.lost_memory);
    add_loss(arena, status, "too_large", session->ring.lost_too_large);
}

/* ---- Recordings ---- */

static struct recording *start(struct session *session,
                               const Sonde__V1__CollectSettings *settings) {
    struct collect *collect = session->collect;
    struct sonde_diag diag = {0};
    struct recording *recording = NULL;
    char line[512];
    const struct recording_options options = {
        .engine = collect->options.engine,
        .store = &session->store,
        .identity = &session->identity,
        .first_seq = session->next_seq,
        .machine = !settings->guests_only,
        .no_heap = !settings->heap,
        .no_totals = !settings->host_totals,
        .max_overhead = settings->max_overhead,
        .choose = choose,
        .on_counts = on_counts,
        .frequency_hz = settings->frequency_hz,
        .window_ms = settings->window_s * 1000,
        .off_cpu_ms = settings->off_cpu_ms,
        .on_record = on_record,
        .context = session,
    };
    sonde_err err = recording_start(&options, &recording, &diag);
    if (!err)
        return recording;
    snprintf(line, sizeof line, "collect session %s records nothing: %.300s", session->name,
             sonde_diag_text(&diag, err));
    if (collect->options.log && !session->has_logged)
        collect->options.log(line);
    session->has_logged = true;
    recording_finish(recording);
    recording_destroy(recording);
    return NULL;
}

static void destroy_retired(struct session *session) {
    for (struct retired **at = &session->retired; *at;) {
        struct retired *retired = *at;
        if (!recording_is_idle(retired->recording)) {
            at = &retired->next;
            continue;
        }
        *at = retired->next;
        recording_destroy(retired->recording);
        free(retired);
    }
}

void session_finish(struct session *session) {
    struct recording *recording = session->recording;
    struct retired *retired = recording ? calloc(1, sizeof *retired) : NULL;
    recording_finish(recording);
    lock_take(&session->collect->lock);
    if (recording)
        session->next_seq = recording_next_seq(recording);
    session->recording = NULL;
    lock_drop(&session->collect->lock);
    if (!retired)
        return;
    *retired = (struct retired){session->retired, recording};
    session->retired = retired;
}

/* The recorder's lock comes before that of collect. */
static void read_refusal(struct session *session) {
    struct recording_state state = {.refusal = ""};
    if (session->recording)
        recording_state(session->recording, &state);
    lock_take(&session->collect->lock);
    memcpy(session->refusal, state.refusal, sizeof session->refusal);
    lock_drop(&session->collect->lock);
}

void session_apply(struct session *session) {
    struct collect *collect = session->collect;
    Sonde__V1__CollectSettings *settings = NULL;
    read_refusal(session);
    lock_take(&collect->lock);
    bool is_due = session->must_restart;
    if (is_due &&
        collect_settings_read(session->settings, collect->options.max_hz, &settings, NULL))
        is_due = false; /* out of memory: later */
    if (is_due)
        session->is_starting = true;
    session->must_restart = session->must_restart && !is_due;
    lock_drop(&collect->lock);
    destroy_retired(session);
    if (!is_due)
        return;
    session_finish(session);
    struct recording *recording = settings->n_rules > 0 ? start(session, settings) : NULL;
    bool has_failed = settings->n_rules > 0 && !recording;
    lock_take(&collect->lock);
    session->recording = recording;
    session->is_starting = false;
    session->must_restart = session->must_restart || has_failed;
    lock_drop(&collect->lock);
    sonde__v1__collect_settings__free_unpacked(settings, NULL);
}

bool session_is_idle(struct session *session) {
    destroy_retired(session);
    return !session->recording && !session->retired;
}

void session_destroy(struct session *session) {
    while (session->retired) {
        struct retired *retired = session->retired;
        session->retired = retired->next;
        recording_destroy(retired->recording);
        free(retired);
    }
    recording_destroy(session->recording);
    sonde__v1__collect_settings__free_unpacked(session->settings, NULL);
    ring_finish(&session->ring);
    tables_finish(&session->tables);
    free(session);
}
