/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/debuginfod/debuginfod.h"

#include "service/symbol/files/files.h"
#include "service/symbol/store.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_ABSENT 512u /* the oldest is replaced */
#define CHUNK      ((size_t)256 << 10)
#define TIMEOUT_MS ((SYMBOL_FETCH_SECONDS + 10) * 1000)

struct server {
    char *url;
    uint32_t failures; /* in a row */
    time_t paused_until;
};

struct absent {
    char build_id[SYMBOL_BUILD_ID_TEXT];
    time_t until;
};

/* The servers belong to the thread; the store's lock protects everything else. */
struct symbol_fetch {
    struct symbol_store *store;
    struct server servers[SYMBOL_FETCH_SERVERS];
    uint32_t server_count;
    char waiting[SYMBOL_FETCH_WAITING][SYMBOL_BUILD_ID_TEXT]; /* the first is being fetched */
    uint32_t waiting_count;
    struct absent absent[MAX_ABSENT];
    uint32_t next_absent;
    pthread_cond_t wanted;
    pthread_t thread;
    bool has_thread;
};

/* --- the queue --------------------------------------------------------------------------- */

static bool is_waiting(const struct symbol_fetch *fetch, const char *build_id) {
    for (uint32_t i = 0; i < fetch->waiting_count; i++)
        if (strcmp(fetch->waiting[i], build_id) == 0)
            return true;
    return false;
}

static bool is_absent(const struct symbol_fetch *fetch, const char *build_id) {
    time_t now = time(NULL);
    for (uint32_t i = 0; i < MAX_ABSENT; i++)
        if (fetch->absent[i].until > now && strcmp(fetch->absent[i].build_id, build_id) == 0)
            return true;
    return false;
}

bool symbol_fetch_want(struct symbol_fetch *fetch, const char *build_id) {
    char id[SYMBOL_BUILD_ID_TEXT];
    if (!fetch || !symbol_build_id_read(build_id, id))
        return false;
    lock_take(&fetch->store->lock);
    bool waits = is_waiting(fetch, id);
    if (!waits && fetch->waiting_count < SYMBOL_FETCH_WAITING && !fetch->store->stopping &&
        !is_absent(fetch, id)) {
        memcpy(fetch->waiting[fetch->waiting_count++], id, sizeof id);
        pthread_cond_signal(&fetch->wanted);
        waits = true;
    }
    lock_drop(&fetch->store->lock);
    return waits;
}

bool symbol_fetch_is_under_way(struct symbol_fetch *fetch, const char *build_id) {
    if (!fetch)
        return false;
    lock_take(&fetch->store->lock);
    bool waits = is_waiting(fetch, build_id);
    lock_drop(&fetch->store->lock);
    return waits;
}

void symbol_fetch_forget(struct symbol_fetch *fetch) {
    if (!fetch)
        return;
    lock_take(&fetch->store->lock);
    memset(fetch->absent, 0, sizeof fetch->absent);
    lock_drop(&fetch->store->lock);
}

/* --- one file --------------------------------------------------------------------------------- */

/* Stores the file as an upload if it has that build-id. */
static bool store_file(struct symbol_fetch *fetch, int fd, const char *build_id) {
    struct symbol_upload *upload = NULL;
    struct elf_input input;
    struct symbol_file kept;
    char *bytes = malloc(CHUNK);
    bool good = bytes && symbol_file_has_build_id(fd, build_id) && elf_input_of_file(fd, &input) &&
                symbol_upload_begin(fetch->store, input.size, &upload, NULL) == SONDE_OK;
    for (uint64_t at = 0; good && at < input.size; at += CHUNK) {
        size_t len = input.size - at < CHUNK ? (size_t)(input.size - at) : CHUNK;
        good = elf_read(&input, at, bytes, len) &&
               symbol_upload_write(upload, bytes, len, NULL) == SONDE_OK;
    }
    if (good)
        good = symbol_upload_finish(upload, &kept, NULL) == SONDE_OK;
    else
        symbol_upload_abandon(upload);
    free(bytes);
    return good;
}

static enum symbol_fetch_exit ask(struct symbol_fetch *fetch, const char *url, const char *build_id,
                                  int out) {
    const char *arguments[] = {SYMBOL_FETCH_ARGUMENT, url, build_id, NULL};
    const int fds[] = {-1, -1, -1, out};
    if (ftruncate(out, 0) != 0 || lseek(out, 0, SEEK_SET) != 0)
        return SYMBOL_FETCH_FAILED;
    struct symbol_process_run run =
        symbol_process_run(fetch->store, arguments, fds, SYMBOL_FETCH_OUT + 1, TIMEOUT_MS);
    if (run.end == SYMBOL_PROCESS_ENDED && WIFEXITED(run.status))
        return (enum symbol_fetch_exit)WEXITSTATUS(run.status);
    bool large = run.end == SYMBOL_PROCESS_ENDED && WTERMSIG(run.status) == SIGXFSZ;
    return large ? SYMBOL_FETCH_TOO_LARGE : SYMBOL_FETCH_FAILED;
}

/* Pauses a server after several failures in a row. */
static void note_result(struct server *server, enum symbol_fetch_exit exit) {
    bool answered =
        exit == SYMBOL_FETCH_DONE || exit == SYMBOL_FETCH_ABSENT || exit == SYMBOL_FETCH_TOO_LARGE;
    server->failures = answered ? 0 : server->failures + 1;
    if (server->failures >= SYMBOL_FETCH_PAUSE_AFTER)
        server->paused_until = time(NULL) + SYMBOL_FETCH_PAUSE_S;
}

/* Asks the servers in turn. Returns 0, or how long not to ask again. */
static time_t fetch_one(struct symbol_fetch *fetch, const char *build_id) {
    int out = symbol_cache_scratch(&fetch->store->cache);
    time_t again_s = out >= 0 ? SYMBOL_FETCH_ABSENT_S : SYMBOL_FETCH_RETRY_S;
    bool found = false;
    for (uint32_t i = 0; i < fetch->server_count && out >= 0 && !found; i++) {
        struct server *server = &fetch->servers[i];
        enum symbol_fetch_exit exit = SYMBOL_FETCH_FAILED;
        if (server->paused_until <= time(NULL)) {
            exit = ask(fetch, server->url, build_id, out);
            note_result(server, exit);
        }
        found = exit == SYMBOL_FETCH_DONE && store_file(fetch, out, build_id);
        if (exit != SYMBOL_FETCH_ABSENT && !found)
            again_s = SYMBOL_FETCH_RETRY_S;
    }
    if (out >= 0)
        close(out);
    return found ? 0 : again_s;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void settle(struct symbol_fetch *fetch, time_t again_s) {
    lock_take(&fetch->store->lock);
    if (again_s > 0) {
        struct absent *absent = &fetch->absent[fetch->next_absent++ % MAX_ABSENT];
        memcpy(absent->build_id, fetch->waiting[0], sizeof absent->build_id);
        absent->until = time(NULL) + again_s;
    }
    fetch->waiting_count--;
    memmove(fetch->waiting[0], fetch->waiting[1], fetch->waiting_count * sizeof *fetch->waiting);
    lock_drop(&fetch->store->lock);
}

static void *run_fetches(void *context) {
    struct symbol_fetch *fetch = context;
    struct symbol_store *store = fetch->store;
    char build_id[SYMBOL_BUILD_ID_TEXT];
    for (;;) {
        lock_take(&store->lock);
        while (!store->stopping && fetch->waiting_count == 0)
            lock_wait(&store->lock, &fetch->wanted);
        bool stopping = store->stopping;
        memcpy(build_id, fetch->waiting[0], sizeof build_id);
        lock_drop(&store->lock);
        if (stopping)
            return NULL;
        settle(fetch, fetch_one(fetch, build_id));
    }
}

static sonde_err read_urls(struct symbol_fetch *fetch, const char *urls, struct sonde_diag *diag) {
    for (const char *at = urls + strspn(urls, " "); *at;) {
        size_t len = strcspn(at, " ");
        if (strncmp(at, "http://", 7) != 0 && strncmp(at, "https://", 8) != 0)
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                              "debuginfod: \"%.*s\" is not an http:// or https:// URL", (int)len,
                              at);
        if (fetch->server_count == SYMBOL_FETCH_SERVERS)
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "debuginfod: at most %u servers",
                              SYMBOL_FETCH_SERVERS);
        struct server *server = &fetch->servers[fetch->server_count];
        server->url = strndup(at, len);
        if (!server->url)
            return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory for the symbol store");
        fetch->server_count++;
        at += len + strspn(at + len, " ");
    }
    return SONDE_OK;
}

sonde_err symbol_fetch_create(struct symbol_store *store, const char *urls,
                              struct symbol_fetch **fetch, struct sonde_diag *diag) {
    struct symbol_fetch *made = calloc(1, sizeof *made);
    *fetch = NULL;
    if (!made)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory for the symbol store");
    made->store = store;
    pthread_cond_init(&made->wanted, NULL);
    sonde_err err = read_urls(made, urls, diag);
    if (!err && (!store->has_uploads || !store->worker))
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "debuginfod: needs a data directory whose path has no colon");
    if (!err && made->server_count > 0)
        made->has_thread = pthread_create(&made->thread, NULL, run_fetches, made) == 0;
    if (err) {
        symbol_fetch_destroy(made);
        return err;
    }
    *fetch = made;
    return SONDE_OK;
}

void symbol_fetch_destroy(struct symbol_fetch *fetch) {
    if (!fetch)
        return;
    if (fetch->has_thread) {
        lock_take(&fetch->store->lock);
        pthread_cond_broadcast(&fetch->wanted);
        lock_drop(&fetch->store->lock);
        pthread_join(fetch->thread, NULL);
    }
    for (uint32_t i = 0; i < fetch->server_count; i++)
        free(fetch->servers[i].url);
    pthread_cond_destroy(&fetch->wanted);
    free(fetch);
}
