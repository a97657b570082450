/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/heap_from_start.h"

#include "api/text/utf8.h"
#include "service/engine/heap/heap.h"

#include <stdio.h>
#include <stdlib.h>

#define OWNER "the setting enable-heap-profiling"

/* There is one for the program's whole life. */
static struct {
    struct engine *engine;
    void (*log)(const char *line);
} start;

struct attempt {
    char name[64];
    pid_t pid;
};

static void print_outcome(const char *name, pid_t pid, sonde_err err,
                          const struct sonde_diag *diag) {
    char line[512], shown[64];
    snprintf(shown, sizeof shown, "%s", name);
    sonde_utf8_replace(shown, '?');
    snprintf(line, sizeof line, "cannot switch on heap profiling of %s, pid %d: %.380s", shown,
             (int)pid, sonde_diag_text(diag, err));
    start.log(line);
}

/* Busy: it was on already, by an earlier sonded or by the target's own configuration. */
static void on_answer(void *context, sonde_err err, const struct sonde_diag *diag,
                      const struct engine_heap_state *state, const struct engine_heap_dump *dumps,
                      size_t dump_count) {
    struct attempt *attempt = context;
    if (err && err != SONDE_SESSION_BUSY && err != SONDE_TARGET_GONE && err != SONDE_UNAVAILABLE)
        print_outcome(attempt->name, attempt->pid, err, diag);
    free(attempt);
}

static void on_target(void *context, bool attached, const struct engine_target *target) {
    struct sonde_diag diag = {0};
    struct attempt *attempt = attached && target ? calloc(1, sizeof *attempt) : NULL;
    if (!attempt)
        return;
    snprintf(attempt->name, sizeof attempt->name, "%s", target->name);
    attempt->pid = target->pid;
    const struct engine_heap_request request = {.verb = ENGINE_HEAP_ACTIVATE,
                                                .target = {.uuid = target->uuid},
                                                .backend = ENGINE_HEAP_JEMALLOC,
                                                .owner = OWNER};
    sonde_err err = engine_heap(start.engine, &request, on_answer, attempt, &diag);
    if (!err)
        return;
    print_outcome(attempt->name, attempt->pid, err, &diag);
    free(attempt);
}

sonde_err heap_from_start(struct engine *engine, void (*log)(const char *line),
                          struct engine_watch **watch) {
    start.engine = engine;
    start.log = log;
    return engine_watch(engine, on_target, NULL, watch);
}
