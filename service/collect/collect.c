/* SPDX-License-Identifier: Apache-2.0 */
#include "service/collect/collect.h"

#include "api/base/clock.h"
#include "api/settings/options.h"
#include "service/collect/encode.h"
#include "service/store/ids.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void log_line(struct collect *collect, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (collect->options.log)
        collect->options.log(line);
}

/* ---- Identity ---- */

static void read_boot_id(char text[40]) {
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    text[0] = 0;
    if (!file)
        return;
    if (!fgets(text, 40, file))
        text[0] = 0;
    text[strcspn(text, "\n")] = 0;
    fclose(file);
}

void collect_identify(struct collect *collect, struct sonde_arena *arena,
                      Sonde__V1__CollectHello *hello) {
    static const char *const capabilities[] = {"on-cpu", "off-cpu", "heap", "totals", "resend"};
    char boot_id[40];
    sonde__v1__collect_hello__init(hello);
    read_boot_id(boot_id);
    hello->instance = collect->instance;
    hello->epoch = collect->identity.epoch;
    hello->host = collect->host;
    hello->unix_ns = clock_ns(CLOCK_REALTIME);
    hello->monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    char *copy = sonde_arena_dup(arena, boot_id, strlen(boot_id));
    if (copy)
        hello->boot_id = copy;
    hello->version = (char *)SONDE_VERSION;
    hello->api_min = hello->api_max = COLLECT_API;
    hello->capabilities = (char **)capabilities;
    hello->n_capabilities = sizeof capabilities / sizeof *capabilities;
}

/* A disk that is full or read-only is no reason to refuse controllers. */
static void begin_identity(struct collect *collect) {
    char dir[4096], text[64];
    struct sonde_diag diag = {0};
    snprintf(dir, sizeof dir, "%.4080s/collect", collect->options.dir);
    (void)mkdir(dir, 0700);
    sonde_err err = identity_begin(dir, &collect->identity, &diag);
    if (err)
        log_line(collect, "fleet controllers may take this machine for another after a restart: %s",
                 sonde_diag_text(&diag, err));
    snprintf(text, sizeof text, "instance %016llx",
             (unsigned long long)collect->identity.installation);
    snprintf(collect->instance, sizeof collect->instance, "%016llx%016llx",
             (unsigned long long)store_hash(text, strlen(text)),
             (unsigned long long)store_hash(text, strlen(text) - 1));
    gethostname(collect->host, sizeof collect->host - 1);
}

/* ---- Life ---- */

static void wake_if_due(struct session *session, int64_t now_ns) {
    struct collect_link *link = session->link;
    if (link && (link->is_throttled || session_status_is_due(link, now_ns)))
        link->wake(link->context);
}

static void *run(void *context) {
    struct collect *collect = context;
    pthread_setname_np(pthread_self(), "collect");
    lock_take(&collect->lock);
    while (!collect->is_stopping) {
        const struct timespec until = clock_wait_end(1000);
        (void)lock_wait_until(&collect->lock, &collect->changed, &until);
        lock_drop(&collect->lock);
        collect_tick(collect, clock_ns(CLOCK_MONOTONIC));
        lock_take(&collect->lock);
    }
    lock_drop(&collect->lock);
    return NULL;
}

sonde_err collect_create(const struct collect_options *options, struct collect **created,
                         struct sonde_diag *diag) {
    struct collect *collect = calloc(1, sizeof *collect);
    *created = NULL;
    if (!collect)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for collection");
    collect->options = *options;
    if (!options->keep_bytes)
        collect->options.keep_bytes = COLLECT_KEEP_BYTES;
    if (!options->max_hz)
        collect->options.max_hz = COLLECT_MAX_HZ;
    lock_init(&collect->lock, LOCK_COLLECT);
    pthread_cond_init(&collect->changed, NULL);
    begin_identity(collect);
    sonde_err err = SONDE_OK;
    if (!options->is_manual) {
        collect->has_thread = pthread_create(&collect->thread, NULL, run, collect) == 0;
        if (!collect->has_thread)
            err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "a thread cannot be started");
    }
    if (err) {
        collect_destroy(collect);
        return err;
    }
    *created = collect;
    return SONDE_OK;
}

void collect_finish(struct collect *collect) {
    if (!collect)
        return;
    lock_take(&collect->lock);
    collect->is_stopping = true;
    pthread_cond_broadcast(&collect->changed);
    lock_drop(&collect->lock);
    if (collect->has_thread)
        pthread_join(collect->thread, NULL);
    collect->has_thread = false;
    for (struct session *session = collect->sessions; session; session = session->next)
        session_finish(session);
}

/* With the lock held. A session without a call has nobody to wait for. */
static bool is_drained(const struct collect *collect) {
    for (const struct session *session = collect->sessions; session; session = session->next)
        if (session->link && session->ring.first)
            return false;
    return true;
}

void collect_drain(struct collect *collect) {
    if (!collect)
        return;
    int64_t end_ns = clock_ns(CLOCK_MONOTONIC) + COLLECT_DRAIN_S * NS_PER_S;
    lock_take(&collect->lock);
    while (!is_drained(collect) && clock_ns(CLOCK_MONOTONIC) < end_ns) {
        const struct timespec until = clock_wait_end(100);
        (void)lock_wait_until(&collect->lock, &collect->changed, &until);
        for (struct session *session = collect->sessions; session; session = session->next)
            wake_if_due(session, clock_ns(CLOCK_MONOTONIC));
    }
    lock_drop(&collect->lock);
}

void collect_destroy(struct collect *collect) {
    if (!collect)
        return;
    for (struct session *session = collect->sessions, *next; session; session = next) {
        next = session->next;
        session_destroy(session);
    }
    for (struct session *session = collect->ended, *next; session; session = next) {
        next = session->next;
        session_destroy(session);
    }
    pthread_cond_destroy(&collect->changed);
    lock_finish(&collect->lock);
    free(collect);
}

/* ---- Links ---- */

static sonde_err check_name(const char *name, struct sonde_diag *diag) {
    size_t len = strlen(name);
    if (len <= SESSION_NAME && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_.-") == len)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "session: a name has at most %d letters, digits and _.-", SESSION_NAME);
}

static sonde_err check_start(const Sonde__V1__CollectRequest *request, struct sonde_diag *diag) {
    if (!request->start)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the first request needs `start`");
    if (strlen(request->start->controller) > SESSION_CONTROLLER)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "controller: at most %d bytes",
                          SESSION_CONTROLLER);
    return check_name(request->start->session, diag);
}

static void log_settings(const struct session *session) {
    const Sonde__V1__CollectSettings *settings = session->settings;
    log_line(session->collect,
             "audit: collect session %s: %zu rules, %u Hz, windows of %u s, off-CPU %u ms%s%s%s",
             session->name, settings->n_rules, settings->frequency_hz, settings->window_s,
             settings->off_cpu_ms, settings->heap ? ", heap" : "",
             settings->host_totals ? ", totals" : "", settings->is_paused ? ", paused" : "");
}

/* With the lock held. Takes the settings. */
static void set_settings(struct session *session, Sonde__V1__CollectSettings *settings) {
    if (collect_settings_differ(session->settings, settings) || !session->recording)
        session->must_restart = true;
    pthread_cond_signal(&session->collect->changed);
    sonde__v1__collect_settings__free_unpacked(session->settings, NULL);
    session->settings = settings;
    if (session->link)
        session->link->has_settings = false;
    log_settings(session);
}

/* Makes room for a session: the one that has been without a call for longest ends. */
static bool give_up_one(struct collect *collect) {
    struct session *idle = NULL;
    for (struct session *at = collect->sessions; at; at = at->next)
        if (!at->link && !at->is_given_up && (!idle || at->idle_since_ns < idle->idle_since_ns))
            idle = at;
    if (!idle)
        return false;
    idle->is_given_up = true;
    pthread_cond_signal(&collect->changed);
    return true;
}

static struct session *find_or_create(struct collect *collect, const char *name,
                                      struct sonde_diag *diag) {
    size_t used = 0, ending = 0;
    struct session *session = session_find(collect, name);
    for (const struct session *at = collect->sessions; at; at = at->next)
        *(at->is_given_up ? &ending : &used) += 1;
    if (session)
        return session;
    if (used == COLLECT_MAX_SESSIONS && (ending == COLLECT_MAX_SESSIONS || !give_up_one(collect))) {
        (void)sonde_fail(diag, SONDE_TOO_MANY_CAPTURES,
                         "%d sessions of Collect have a call already; end one of them",
                         COLLECT_MAX_SESSIONS);
        return NULL;
    }
    session = session_create(collect, name);
    if (!session)
        (void)sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for a session");
    return session;
}

static void displace(struct session *session) {
    struct collect_link *link = session->link;
    if (!link)
        return;
    log_line(session->collect, "audit: collect session %s: the call of \"%.64s\" was displaced",
             session->name, session->controller);
    link->is_displaced = true;
    session->link = NULL;
    link->wake(link->context);
}

sonde_err collect_open(struct collect *collect, const Sonde__V1__CollectRequest *request,
                       void (*wake)(void *context), void *context, struct collect_link **opened,
                       struct sonde_diag *diag) {
    Sonde__V1__CollectSettings *settings = NULL;
    sonde_err err = check_start(request, diag);
    if (!err && request->settings)
        err = collect_settings_read(request->settings, collect->options.max_hz, &settings, diag);
    struct collect_link *link = err ? NULL : calloc(1, sizeof *link);
    if (!link)
        return err ? err : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for a call");
    const char *name = request->start->session[0] ? request->start->session : "default";
    lock_take(&collect->lock);
    struct session *session = find_or_create(collect, name, diag);
    if (session) {
        displace(session);
        *link = (struct collect_link){.session = session, .wake = wake, .context = context};
        link->stamp = ++session->links;
        link->allowance_ns = clock_ns(CLOCK_MONOTONIC);
        session->link = link;
        snprintf(session->controller, sizeof session->controller, "%s", request->start->controller);
        log_line(collect, "audit: collect session %s begins a call of \"%.64s\"", session->name,
                 session->controller);
        session_ack(session, request->start->ack);
        session_check_source(session, request->start->ack);
        if (settings)
            set_settings(session, settings);
    }
    lock_drop(&collect->lock);
    if (!session) {
        sonde__v1__collect_settings__free_unpacked(settings, NULL);
        free(link);
        return diag ? diag->code : SONDE_TOO_MANY_CAPTURES;
    }
    *opened = link;
    return SONDE_OK;
}

static sonde_err displaced(struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_SESSION_BUSY, "a later call has taken the session");
}

static sonde_err ask_again(struct collect_link *link, const Sonde__V1__CollectRequest *request) {
    size_t left = link->resend_count - link->resend_at;
    uint64_t *ids = malloc((left + request->n_resend_stacks + 1) * sizeof *ids);
    if (!ids)
        return SONDE_OUT_OF_MEMORY;
    if (left)
        memcpy(ids, link->resend + link->resend_at, left * sizeof *ids);
    for (size_t i = 0; i < request->n_resend_stacks; i++)
        ids[left + i] = request->resend_stacks[i];
    free(link->resend);
    link->resend = ids;
    link->resend_at = 0;
    link->resend_count = left + request->n_resend_stacks;
    return SONDE_OK;
}

sonde_err collect_receive(struct collect_link *link, const Sonde__V1__CollectRequest *request,
                          struct sonde_diag *diag) {
    struct collect *collect = link->session->collect;
    Sonde__V1__CollectSettings *settings = NULL;
    sonde_err err = SONDE_OK;
    if (request->start)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "only the first request may have `start`");
    if (request->n_resend_stacks > SESSION_MAX_RESEND)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "resend_stacks: %zu are too many; at most "
                          "%d",
                          request->n_resend_stacks, SESSION_MAX_RESEND);
    if (request->settings)
        err = collect_settings_read(request->settings, collect->options.max_hz, &settings, diag);
    if (err)
        return err;
    lock_take(&collect->lock);
    bool is_displaced = link->is_displaced;
    if (!is_displaced) {
        session_ack(link->session, request->ack);
        pthread_cond_signal(&collect->changed);
        if (request->n_resend_stacks > 0 &&
            link->resend_count - link->resend_at < SESSION_MAX_RESEND)
            err = ask_again(link, request);
    }
    if (!is_displaced && settings) {
        set_settings(link->session, settings);
        settings = NULL;
    }
    lock_drop(&collect->lock);
    sonde__v1__collect_settings__free_unpacked(settings, NULL);
    return is_displaced ? displaced(diag) : err;
}

sonde_err collect_next(struct collect_link *link, int64_t now_ns, struct sonde_buf *answer,
                       bool *is_empty, struct sonde_diag *diag) {
    struct collect *collect = link->session->collect;
    Sonde__V1__CollectResponse response = SONDE__V1__COLLECT_RESPONSE__INIT;
    struct sonde_arena arena = {0};
    *is_empty = true;
    lock_take(&collect->lock);
    sonde_err err = link->is_displaced ? displaced(diag)
                                       : encode_next(link, now_ns, &arena, &response, is_empty);
    size_t len = err || *is_empty ? 0 : sonde__v1__collect_response__get_packed_size(&response);
    char *bytes = len ? sonde_buf_extend(answer, len) : NULL;
    if (bytes)
        sonde__v1__collect_response__pack(&response, (uint8_t *)bytes);
    else if (len)
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for an answer");
    lock_drop(&collect->lock);
    sonde_arena_finish(&arena);
    return err;
}

void collect_close(struct collect_link *link) {
    if (!link)
        return;
    struct session *session = link->session;
    lock_take(&session->collect->lock);
    if (session->link == link) {
        session->link = NULL;
        session->idle_since_ns = clock_ns(CLOCK_MONOTONIC);
        pthread_cond_signal(&session->collect->changed);
    }
    lock_drop(&session->collect->lock);
    free(link->resend);
    free(link);
}

/* ---- Time ---- */

static bool is_expired(const struct session *session, int64_t now_ns) {
    int64_t idle_ns = now_ns - session->idle_since_ns;
    return session->is_given_up ||
           (!session->link && idle_ns > (int64_t)session->settings->keep_s * NS_PER_S);
}

/* Takes an expired session out of the list, so that no call can find it. */
static struct session *take_expired(struct collect *collect, int64_t now_ns) {
    struct session *taken = NULL;
    lock_take(&collect->lock);
    for (struct session **at = &collect->sessions; *at && !taken; at = &(*at)->next) {
        if (!is_expired(*at, now_ns))
            continue;
        taken = *at;
        *at = taken->next;
        log_line(collect,
                 "audit: collect session %s has ended, without a call for %lld s%s; %zu bytes of "
                 "windows that nobody acknowledged are lost",
                 taken->name, (long long)((now_ns - taken->idle_since_ns) / NS_PER_S),
                 taken->is_given_up ? ", to make room for another" : "", taken->ring.bytes);
        break;
    }
    lock_drop(&collect->lock);
    return taken;
}

/* A session whose last captures have not ended yet waits for another tick. */
static void destroy_ended(struct collect *collect) {
    for (struct session **at = &collect->ended; *at;) {
        struct session *session = *at;
        if (!session_is_idle(session)) {
            at = &session->next;
            continue;
        }
        *at = session->next;
        session_destroy(session);
    }
}

void collect_tick(struct collect *collect, int64_t now_ns) {
    struct session *expired = take_expired(collect, now_ns);
    if (expired) {
        session_finish(expired);
        expired->next = collect->ended;
        collect->ended = expired;
    }
    destroy_ended(collect);
    for (struct session *session = collect->sessions; session; session = session->next)
        session_apply(session);
    lock_take(&collect->lock);
    for (struct session *session = collect->sessions; session; session = session->next)
        wake_if_due(session, now_ns);
    lock_drop(&collect->lock);
}

/* ---- GetInfo ---- */

static void describe(struct session *session, struct sonde_arena *arena,
                     Sonde__V1__CollectSession *message) {
    char *name = sonde_arena_dup(arena, session->name, strlen(session->name));
    char *controller = sonde_arena_dup(arena, session->controller, strlen(session->controller));
    Sonde__V1__CollectSettings *settings = sonde_arena_alloc(arena, sizeof *settings);
    Sonde__V1__CollectStatus *status = sonde_arena_alloc(arena, sizeof *status);
    if (!name || !controller || !settings || !status)
        return;
    message->name = name;
    message->controller = controller;
    message->is_connected = session->link != NULL;
    *settings = *session->settings; /* without the rules, which may change */
    settings->n_rules = 0;
    message->settings = settings;
    sonde__v1__collect_status__init(status);
    session_status(session, arena, status);
    message->status = status;
}

size_t collect_sessions(struct collect *collect, struct sonde_arena *arena,
                        Sonde__V1__CollectSession *sessions, size_t capacity) {
    size_t count = 0;
    lock_take(&collect->lock);
    for (struct session *session = collect->sessions; session && count < capacity;
         session = session->next)
        describe(session, arena, &sessions[count++]);
    lock_drop(&collect->lock);
    return count;
}
