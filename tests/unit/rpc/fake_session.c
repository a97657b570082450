/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake engine's CPU session. All engines share one; its result has 3 stacks. */
#include "tests/unit/rpc/fake_engine.h"
#include "tests/unit/rpc/fake_parts.h"

#include <pthread.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_session session;

void fake_session_forget(void) {
    pthread_mutex_lock(&lock);
    session = (struct fake_session){0};
    pthread_mutex_unlock(&lock);
}

sonde_err engine_session_start(struct engine *engine, const struct engine_cpu_spec *spec,
                               uint32_t lease_ms, const char *owner,
                               struct engine_session_info *info, struct sonde_diag *diag) {
    struct engine_target target;
    struct timespec now;
    sonde_err err = engine_find(engine, &spec->target, &target, diag);
    fake_note_request(&spec->target, spec->source);
    if (err)
        return err;
    clock_gettime(CLOCK_REALTIME, &now);
    pthread_mutex_lock(&lock);
    err = fake_session_start(&session, lease_ms, owner,
                             now.tv_sec * INT64_C(1000000000) + now.tv_nsec, info, diag);
    pthread_mutex_unlock(&lock);
    return err;
}

sonde_err engine_session_stop(struct engine *engine, const struct engine_selector *selector,
                              const struct engine_capture_events *events, void *context,
                              struct sonde_diag *diag) {
    struct engine_target target;
    sonde_err err = engine_find(engine, selector, &target, diag);
    fake_note_request(selector, ENGINE_AUTOMATIC);
    if (err)
        return err;
    pthread_mutex_lock(&lock);
    struct engine_metadata metadata = {.clock = "fake", .samples = session.was_started ? 30 : 0};
    metadata.start_unix_ns = session.info.start_unix_ns;
    metadata.end_unix_ns = metadata.start_unix_ns ? metadata.start_unix_ns + 5000000 : 0;
    events->on_profile(context, fake_profile(0, session.was_started ? 3 : 0, 0), &metadata);
    session.is_running = false;
    events->on_end(context, SONDE_OK, NULL);
    pthread_mutex_unlock(&lock);
    return SONDE_OK;
}
