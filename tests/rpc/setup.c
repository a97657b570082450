/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/rpc/setup.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

void setup_serve(struct setup *setup) {
    const char *addresses[] = {setup->address};
    struct rpc_server_options options = {
        .engine = setup->engine,
        .addresses = addresses,
        .address_count = 1,
        .history = setup->history,
        .captures_dir = setup->captures,
        .captures = SETUP_CAPTURES,
        .separates_users = setup->separates_users,
        .recorder_refresh = setup->refresh,
        .export_info = setup->export_info,
    };
    struct sonde_diag diag = {0};
    if (rpc_server_create(&options, &setup->server, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "no service: %s", diag.text);
}

void setup_begin(struct setup *setup) {
    setup_begin_history(setup, NULL, true);
}

void setup_begin_history(struct setup *setup, struct store *history, bool has_engine) {
    setup_begin_recorder(setup, history, NULL, has_engine);
}

void setup_begin_recorder(struct setup *setup, struct store *history, rpc_recorder_refresh *refresh,
                          bool has_engine) {
    struct sonde_diag diag = {0};
    memset(setup, 0, sizeof *setup);
    setup->history = history;
    setup->refresh = refresh;
    CHECK(mkdtemp(temporary_template(setup->folder, sizeof setup->folder)) != NULL);
    snprintf(setup->address, sizeof setup->address, "unix:%s/rpc.sock", setup->folder);
    snprintf(setup->captures, sizeof setup->captures, "%s/captures", setup->folder);
    setup->engine = has_engine ? fake_engine_create() : NULL;
    setup_serve(setup);
    struct client_options options = {.address = setup->address};
    if (client_create(&options, &setup->client, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "no client: %s", diag.text);
}

void setup_stop(struct setup *setup, unsigned grace_ms) {
    if (setup->server)
        rpc_server_stop(setup->server, grace_ms);
    rpc_server_destroy(setup->server);
    setup->server = NULL;
}

static void remove_captures(const struct setup *setup) {
    char path[sizeof setup->captures + 32];
    for (int id = 1; id < 100; id++) {
        snprintf(path, sizeof path, "%s/%010d.capture", setup->captures, id);
        unlink(path);
    }
    CHECK_INT(rmdir(setup->captures), ==, 0); /* no unfinished capture is left */
}

void setup_end(struct setup *setup) {
    client_destroy(setup->client);
    setup_stop(setup, 0);
    if (setup->engine) {
        CHECK_INT(fake_engine_unreleased(setup->engine), ==, 0);
        engine_destroy(setup->engine);
    }
    remove_captures(setup);
    CHECK_INT(rmdir(setup->folder), ==, 0); /* no socket and no lock file are left */
}

struct watcher_state {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t messages;
    bool is_over;
    struct watcher *watcher; /* of a test that may have ended: on_end leaves it alone */
    sonde_err err;
    struct sonde_diag diag;
};

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    struct watcher_state *state = context;
    struct watcher *watcher = state->watcher;
    bool go_on = !watcher->on_message || watcher->on_message(watcher, message);
    pthread_mutex_lock(&state->lock);
    state->messages++;
    pthread_cond_signal(&state->changed);
    pthread_mutex_unlock(&state->lock);
    return go_on && !watcher->holds;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct watcher_state *state = context;
    pthread_mutex_lock(&state->lock);
    state->err = err;
    state->diag = *diag;
    state->is_over = true;
    pthread_cond_signal(&state->changed);
    pthread_mutex_unlock(&state->lock);
}

void watcher_start(struct watcher *watcher, struct client *client,
                   const struct client_method *method, const ProtobufCMessage *request,
                   uint32_t deadline_ms) {
    static const struct client_callbacks callbacks = {.on_message = on_message, .on_end = on_end};
    watcher->state = calloc(1, sizeof *watcher->state);
    watcher->state->watcher = watcher;
    pthread_mutex_init(&watcher->state->lock, NULL);
    pthread_cond_init(&watcher->state->changed, NULL);
    watcher->call = client_call_start(client, method, request, deadline_ms, watcher->caller,
                                      &callbacks, watcher->state);
    CHECK(watcher->call != NULL);
}

static struct timespec in_seconds(int seconds) {
    struct timespec when;
    clock_gettime(CLOCK_REALTIME, &when);
    when.tv_sec += seconds;
    return when;
}

bool watcher_wait(struct watcher *watcher, uint32_t messages) {
    struct watcher_state *state = watcher->state;
    struct timespec until = in_seconds(10);
    pthread_mutex_lock(&state->lock);
    while (state->messages < messages && !state->is_over)
        if (pthread_cond_timedwait(&state->changed, &state->lock, &until) != 0)
            break;
    bool came = state->messages >= messages;
    pthread_mutex_unlock(&state->lock);
    return came;
}

uint32_t watcher_count(struct watcher *watcher) {
    pthread_mutex_lock(&watcher->state->lock);
    uint32_t count = watcher->state->messages;
    pthread_mutex_unlock(&watcher->state->lock);
    return count;
}

bool watcher_is_over(struct watcher *watcher) {
    pthread_mutex_lock(&watcher->state->lock);
    bool is_over = watcher->state->is_over;
    pthread_mutex_unlock(&watcher->state->lock);
    return is_over;
}

sonde_err watcher_end(struct watcher *watcher, struct sonde_diag *diag) {
    struct watcher_state *state = watcher->state;
    struct timespec until = in_seconds(20);
    pthread_mutex_lock(&state->lock);
    while (!state->is_over)
        if (pthread_cond_timedwait(&state->changed, &state->lock, &until) != 0)
            break;
    bool is_over = state->is_over;
    pthread_mutex_unlock(&state->lock);
    if (!is_over)
        return sonde_fail(diag, SONDE_INTERNAL, "no end came");
    sonde_err err = state->err;
    if (diag)
        *diag = state->diag;
    pthread_mutex_destroy(&state->lock);
    pthread_cond_destroy(&state->changed);
    free(state);
    return err;
}

bool eventually(bool (*condition)(void *context), void *context) {
    for (int i = 0; i < 2000; i++) {
        if (condition(context))
            return true;
        usleep(5000);
    }
    return false;
}
