/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/engine/heap/stage.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBRARY "service/guest/libsonde.so"
#define HOLDER  "tests/unit/engine/heap/holder"

static void become(struct stage *stage, const char *conf, const char *const *command,
                   const int pipes[4], const char *library) {
    static const char *const holder[] = {HOLDER, NULL};
    if (library)
        setenv("LD_PRELOAD", library, 1);
    setenv("SONDE_SOCKET", stage->place.socket, 1);
    setenv("SONDE_NAME", "holder", 1);
    if (conf)
        setenv("MALLOC_CONF", conf, 1);
    dup2(pipes[0], 0);
    dup2(pipes[3], 1);
    for (int i = 0; i < 4; i++)
        close(pipes[i]);
    if (!command)
        command = holder;
    execvp(command[0], (char *const *)command);
    _exit(127);
}

static void launch(struct stage *stage, const char *conf, const char *const *command,
                   bool is_linked) {
    char library[4096], cwd[2048];
    int pipes[4];
    CHECK(getcwd(cwd, sizeof cwd) != NULL);
    snprintf(library, sizeof library, "%s/" LIBRARY, cwd);
    CHECK(pipe(pipes) == 0 && pipe(pipes + 2) == 0);
    stage->pid = fork();
    CHECK(stage->pid >= 0);
    if (stage->pid == 0)
        become(stage, conf, command, pipes, is_linked ? NULL : library);
    close(pipes[0]);
    close(pipes[3]);
    stage->to = pipes[1];
    stage->from = pipes[2];
}

void stage_wait_attached(struct stage *stage) {
    struct engine_target target = {0};
    for (int i = 0; i < 2000; i++) {
        if (engine_find(stage->engine, &stage->target, &target, NULL) == SONDE_OK &&
            !target.is_unattached)
            break;
        usleep(10000);
    }
    CHECK_INT(target.pid, ==, stage->pid);
}

static void begin(struct stage *stage, const char *conf, const char *const *command,
                  bool is_linked) {
    place_make(&stage->place);
    stage->engine = place_engine(&stage->place);
    launch(stage, conf, command, is_linked);
    stage->target = (struct engine_selector){.pid = stage->pid};
    stage_wait_attached(stage);
}

void stage_init(struct stage *stage, const char *conf, const char *const *command) {
    begin(stage, conf, command, false);
}

void stage_init_linked(struct stage *stage, const char *const *command) {
    begin(stage, NULL, command, true);
}

void stage_finish(struct stage *stage) {
    close(stage->to);
    close(stage->from);
    kill(stage->pid, SIGKILL);
    waitpid(stage->pid, NULL, 0);
    engine_destroy(stage->engine);
    place_remove(&stage->place);
}

void stage_restart_engine(struct stage *stage) {
    engine_destroy(stage->engine);
    stage->engine = place_engine(&stage->place);
    stage_wait_attached(stage);
}

void stage_tell(struct stage *stage, char letter) {
    char line[2] = {letter, '\n'}, answer = 0;
    CHECK_INT(write(stage->to, line, 2), ==, 2);
    CHECK_INT(read(stage->from, &answer, 1), ==, 1);
    CHECK_INT(answer, ==, letter);
}

/* ---- Waiting ---- */

struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t came;
    bool has_come;
    struct asked *asked;
    struct got *got;
};

static void wait_for(struct waiter *waiter) {
    pthread_mutex_lock(&waiter->mutex);
    while (!waiter->has_come)
        pthread_cond_wait(&waiter->came, &waiter->mutex);
    pthread_mutex_unlock(&waiter->mutex);
}

static void wake(struct waiter *waiter) {
    pthread_mutex_lock(&waiter->mutex);
    waiter->has_come = true;
    pthread_cond_signal(&waiter->came);
    pthread_mutex_unlock(&waiter->mutex);
}

static void on_answer(void *context, sonde_err err, const struct sonde_diag *diag,
                      const struct engine_heap_state *state, const struct engine_heap_dump *dumps,
                      size_t dump_count) {
    struct waiter *waiter = context;
    struct asked *asked = waiter->asked;
    asked->err = err;
    if (diag)
        asked->diag = *diag;
    if (state)
        asked->state = *state;
    asked->dump_count = dump_count < 64 ? dump_count : 64;
    if (dump_count > 0)
        memcpy(asked->dumps, dumps, asked->dump_count * sizeof *dumps);
    wake(waiter);
}

struct asked stage_ask(struct stage *stage, struct engine_heap_request request) {
    struct asked asked = {0};
    struct waiter waiter = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, &asked,
                            NULL};
    request.target = stage->target;
    struct sonde_diag diag = {0};
    sonde_err err = engine_heap(stage->engine, &request, on_answer, &waiter, &diag);
    if (err)
        return (struct asked){.err = err, .diag = diag};
    wait_for(&waiter);
    return asked;
}

struct asked stage_ask_verb(struct stage *stage, enum engine_heap_verb verb) {
    return stage_ask(stage, (struct engine_heap_request){.verb = verb});
}

static void on_result(void *context, sonde_err err, const struct sonde_diag *diag,
                      struct engine_heap_result *result) {
    struct waiter *waiter = context;
    waiter->got->err = err;
    if (diag)
        waiter->got->diag = *diag;
    if (result)
        waiter->got->result = *result;
    wake(waiter);
}

struct got stage_get(struct stage *stage, struct engine_heap_query query) {
    struct got got = {0};
    struct waiter waiter = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, NULL, &got};
    query.target = stage->target;
    struct sonde_diag diag = {0};
    sonde_err err = engine_heap_get(stage->engine, &query, on_result, &waiter, &diag);
    if (err)
        return (struct got){.err = err, .diag = diag};
    wait_for(&waiter);
    return got;
}

void got_finish(struct got *got) {
    sonde_buf_finish(&got->result.text);
    sonde_profile_destroy(got->result.profile);
    *got = (struct got){0};
}

/* ---- Profiles ---- */

static const char *name_of(const struct sonde_profile *profile, uint32_t location_id, uint32_t at) {
    const struct sonde_location *location = sonde_profile_location(profile, location_id);
    if (at >= location->line_count)
        return "";
    return sonde_profile_text(profile,
                              sonde_profile_function(profile, location->lines[at].function)->name);
}

static bool has_function(const struct sonde_profile *profile, const struct sonde_sample *sample,
                         const char *function) {
    for (uint32_t i = 0; i < sample->location_count; i++)
        for (uint32_t at = 0;
             at < sonde_profile_location(profile, sample->locations[i])->line_count; at++)
            if (strcmp(name_of(profile, sample->locations[i], at), function) == 0)
                return true;
    return false;
}

int64_t profile_sum(const struct sonde_profile *profile, const char *type_name,
                    const char *function) {
    size_t type = sonde_profile_find_type(profile, type_name);
    int64_t sum = 0;
    CHECK(type != SONDE_PROFILE_NO_TYPE);
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        if (has_function(profile, &sample, function))
            sum += sample.values[type];
    }
    return sum;
}

int64_t profile_bytes(const struct sonde_profile *profile, const char *function) {
    return profile_sum(profile, "inuse_space", function);
}

const char *profile_leaf(const struct sonde_profile *profile, size_t index) {
    struct sonde_sample sample = sonde_profile_sample(profile, index);
    return sample.location_count ? name_of(profile, sample.locations[0], 0) : "";
}
