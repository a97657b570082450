/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates and destroys the engine. Shutdown: engine_destroy sets a flag; the engine thread ends
 * captures and connections, and exits when the last job has completed; then the workers are joined,
 * and then what they used is freed. */
#include "service/engine/capture/cpu_capture.h"
#include "service/engine/heap/heap_state.h"
#include "service/engine/host/host.h"

#include "api/os/own_folder.h"
#include "service/engine/loop/loop.h"
#include "service/process/process_file.h"
#include "service/unwind/table/table_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define SCRATCH_BYTES   65536
#define DEFAULT_WORKERS 2u
#define HEAP_DUMPS      100u

/* Creates the directory and its missing parents with mode 0700. */
static sonde_err make_directories(const char *path, struct sonde_diag *diag) {
    char part[4096];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the data directory's path is too long");
    for (char *at = part + 1;; at++) {
        if (*at != '/' && *at != 0)
            continue;
        char end = *at;
        *at = 0;
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return sonde_fail_os(diag, errno, "cannot create the directory %s", part);
        *at = end;
        if (end == 0)
            return SONDE_OK;
    }
}

static sonde_err open_caches(struct engine *engine, const struct engine_options *from,
                             struct sonde_diag *diag) {
    char names_dir[4096] = "", tables_dir[4096] = "";
    const char *data_dir = from->data_dir;
    if (data_dir && data_dir[0]) {
        sonde_err err = own_folder_check(data_dir, "--data-dir", diag);
        if (!err)
            err = make_directories(data_dir, diag);
        if (err)
            return err;
        snprintf(names_dir, sizeof names_dir, "%.4000s/symbols", data_dir);
        snprintf(tables_dir, sizeof tables_dir, "%.4000s/unwind", data_dir);
    }
    struct symbol_options options = {.cache_dir = names_dir[0] ? names_dir : NULL,
                                     .worker = from->symbol_worker,
                                     .debuginfod = from->debuginfod,
                                     .upload_bytes = from->upload_bytes};
    sonde_err err = symbol_store_create(&options, &engine->symbols, diag);
    if (err)
        return err;
    return unwind_cache_create(tables_dir[0] ? tables_dir : NULL, 0, &engine->unwind, diag);
}

static bool watch_fd(struct engine *engine, int *fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = fd};
    return *fd >= 0 && epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, *fd, &event) == 0;
}

static sonde_err open_loop(struct engine *engine, struct sonde_diag *diag) {
    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    engine->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    engine->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    engine->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    engine->scratch = malloc(SCRATCH_BYTES);
    if (getrandom(&engine->random, sizeof engine->random, 0) < 0)
        engine->random = now_monotonic_ns();
    if (engine->scratch && watch_fd(engine, &engine->event_fd) &&
        watch_fd(engine, &engine->timer_fd) && watch_fd(engine, &engine->listen_fd))
        return SONDE_OK;
    return sonde_fail_os(diag, errno, "cannot set up the engine's loop");
}

static void init_locks(struct engine *engine) {
    lock_init(&engine->messages_lock, LOCK_MESSAGES);
    lock_init(&engine->targets_lock, LOCK_TARGETS);
    lock_init(&engine->session_lock, LOCK_SESSION);
    lock_init(&engine->watch_lock, LOCK_WATCH);
    lock_init(&engine->rights_lock, LOCK_RIGHTS);
    engine->last_message = &engine->first_message;
}

sonde_err engine_open(const struct engine_options *options, struct engine **created,
                      struct sonde_diag *diag) {
    struct engine *engine = calloc(1, sizeof *engine);
    *created = NULL;
    if (!engine)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    engine->epoll_fd = engine->event_fd = engine->timer_fd = engine->spare_fd = -1;
    engine->listen_fd = engine->lock_fd = -1;
    engine->start_ns = ENGINE_START_NS;
    engine->turn_ns = ENGINE_TURN_NS;
    engine->user_ns = ENGINE_USER_NS;
    engine->source = options->source;
    engine->heap_dumps = options->heap_dumps ? options->heap_dumps : HEAP_DUMPS;
    engine->last_ns = ENGINE_LAST_NS;
    engine->sampler = options->sampler;
    engine->idle_ns = HOST_IDLE_NS;
    init_locks(engine);
    engine->socket_path = strdup(options->socket_path ? options->socket_path : "");
    uint32_t workers = options->workers ? options->workers : DEFAULT_WORKERS;
    sonde_err err = SONDE_OK;
    engine->data_dir = strdup(options->data_dir ? options->data_dir : "");
    if (!err && (!engine->socket_path || !engine->data_dir))
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    if (!err)
        err = listen_open(engine->socket_path, options->serves_everybody, &engine->listen_fd,
                          &engine->lock_fd, diag);
    if (!err)
        err = open_caches(engine, options, diag);
    if (!err)
        err = pool_create("sonde-build", workers, UINT32_MAX, &engine->builders, diag);
    if (!err)
        err = pool_create("sonde-report", workers, ENGINE_SUBMIT_LIMIT, &engine->reporters, diag);
    if (!err)
        err = pool_create("sonde-check", 1, UINT32_MAX, &engine->checkers, diag);
    if (!err)
        err = open_loop(engine, diag);
    if (!err)
        err = host_create(engine, diag);
    if (err) {
        engine_close(engine);
        return err;
    }
    *created = engine;
    return SONDE_OK;
}

static void close_fds(struct engine *engine) {
    int fds[] = {engine->epoll_fd, engine->event_fd, engine->timer_fd, engine->spare_fd};
    listen_close(engine->socket_path, engine->listen_fd, engine->lock_fd);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

void engine_close(struct engine *engine) {
    if (!engine)
        return;
    /* Run the messages that were posted after the thread had exited, and the jobs they start. */
    while (engine->scratch && engine_round(engine, 0) && engine->is_shutting_down)
        usleep(1000);
    pool_destroy(engine->builders);
    pool_destroy(engine->reporters);
    pool_destroy(engine->checkers);
    host_destroy(engine);
    close_fds(engine);
    unwind_cache_destroy(engine->unwind);
    symbol_store_destroy(engine->symbols);
    lock_finish(&engine->messages_lock);
    lock_finish(&engine->targets_lock);
    lock_finish(&engine->session_lock);
    lock_finish(&engine->watch_lock);
    lock_finish(&engine->rights_lock);
    free(engine->scratch);
    free(engine->socket_path);
    free(engine->data_dir);
    free(engine);
}

sonde_err engine_create(const struct engine_options *options, struct engine **created,
                        struct sonde_diag *diag) {
    struct engine *engine;
    sonde_err err = engine_open(options, &engine, diag);
    *created = NULL;
    if (err)
        return err;
    heap_start_sweep(engine);
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int os_error = pthread_create(&engine->thread, NULL, engine_run, engine);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (os_error) {
        engine->is_ending = true;
        engine_close(engine);
        return sonde_fail_os(diag, os_error, "cannot start the engine's thread");
    }
    pthread_setname_np(engine->thread, "sonde-engine");
    engine->has_thread = true;
    *created = engine;
    return SONDE_OK;
}

static void on_wake(struct engine *engine, struct message *message) {
}

void engine_destroy(struct engine *engine) {
    struct message wake = {.run = on_wake};
    if (!engine)
        return;
    atomic_store(&engine->is_ending, true);
    symbol_store_end(engine->symbols); /* otherwise jobs would wait for its workers */
    engine_post(engine, &wake);
    if (engine->has_thread)
        pthread_join(engine->thread, NULL);
    engine_close(engine);
}

bool engine_submit(struct engine *engine, struct engine_work *work) {
    return !atomic_load(&engine->is_ending) && pool_submit(engine->reporters, work);
}
