/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake engine's allocation session. All engines share one; its result has 2 stacks. A session
 * of the owner "refused" cannot begin. */
#include "tests/unit/rpc/fake_engine.h"
#include "tests/unit/rpc/fake_parts.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_session session;

void fake_allocs_forget(void) {
    pthread_mutex_lock(&lock);
    session = (struct fake_session){0};
    pthread_mutex_unlock(&lock);
}

sonde_err engine_allocs_start(struct engine *engine, const struct engine_allocs_spec *spec,
                              uint32_t lease_ms, const char *owner, engine_on_session *on_started,
                              void *context, struct sonde_diag *diag) {
    struct engine_session_info info;
    struct engine_target target;
    struct sonde_diag late = {0};
    sonde_err err = engine_find(engine, &spec->target, &target, diag);
    if (err)
        return err;
    if (strcmp(owner, "refused") == 0) {
        err = sonde_fail(&late, SONDE_NOT_AVAILABLE, "nothing can see its allocations");
        on_started(context, err, &late, NULL);
        return SONDE_OK;
    }
    pthread_mutex_lock(&lock);
    err = fake_session_start(&session, lease_ms, owner, 1000000, &info, diag);
    pthread_mutex_unlock(&lock);
    if (!err)
        on_started(context, SONDE_OK, NULL, &info);
    return err;
}

/* Answers at once. */
sonde_err engine_allocs_poll(struct engine *engine, const struct engine_allocs_spec *spec,
                             const char *key, bool is_total,
                             const struct engine_capture_events *events, void *context,
                             struct sonde_diag *diag) {
    struct engine_metadata metadata = {.clock = ""};
    struct engine_target target;
    sonde_err err = engine_find(engine, &spec->target, &target, diag);
    if (err)
        return err;
    events->on_profile(context, fake_allocs(spec, 2), &metadata);
    events->on_end(context, SONDE_OK, NULL);
    return SONDE_OK;
}

sonde_err engine_allocs_stop(struct engine *engine, const struct engine_selector *selector,
                             const struct engine_capture_events *events, void *context,
                             struct sonde_diag *diag) {
    const struct engine_allocs_spec spec = {.sample_bytes = 524288};
    struct engine_metadata metadata = {.clock = ""};
    struct engine_target target;
    sonde_err err = engine_find(engine, selector, &target, diag);
    if (err)
        return err;
    pthread_mutex_lock(&lock);
    events->on_profile(context, fake_allocs(&spec, session.was_started ? 2 : 0), &metadata);
    session.is_running = false;
    events->on_end(context, SONDE_OK, NULL);
    pthread_mutex_unlock(&lock);
    return SONDE_OK;
}
