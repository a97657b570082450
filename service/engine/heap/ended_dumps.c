/* SPDX-License-Identifier: Apache-2.0
 *
 * Dumps of processes that have ended. They have no target any more, but after a crash they are
 * exactly what users want. They are in directories "<pid>-<uuid>" (dump_retention.h bounds them). A
 * worker reads these for each request, so there is no other state.
 *
 *     selector ──▶ worker: matching directories ──▶ their dumps, newest first ──▶ the list
 *                                                                             └─▶ the named dump */
#include "api/base/array.h"
#include "service/engine/heap/dump_retention.h"
#include "service/engine/heap/heap_state.h"
#include "service/engine/heap/saved_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOBODY    65534
#define MOST_SEEN (2 * ENGINE_HEAP_MAX_DUMPS)

struct search {
    struct job job;
    struct message message;
    char name[64], uuid[33]; /* "" = any */
    pid_t pid;               /* 0 = any */
    uint32_t number;         /* number of the dump; 0 = list them */
    bool raw, keep_frames;
    engine_on_ended_dumps *on_list;
    engine_on_heap_result *on_result;
    void *context;
};

struct found {
    struct engine_ended_dump *items;
    uint32_t count, capacity;
};

/* ---- Directories ---- */

static void add_dumps(const struct search *search, const struct heap_dumps *dumps,
                      const struct engine_ended_dump *process, struct found *found) {
    for (uint32_t i = 0; i < dumps->count && found->count < MOST_SEEN; i++) {
        const struct heap_dump *dump = &dumps->items[i];
        if (search->number && dump->number != search->number)
            continue;
        if (!array_room(&found->items, &found->capacity, found->count, 1))
            return;
        struct engine_ended_dump *item = &found->items[found->count++];
        *item = *process;
        heap_dumps_name(dump->number, item->dump.name);
        item->dump.unix_ns = dump->unix_ns;
        item->dump.bytes = dump->bytes;
        item->dump.epoch = dump->epoch;
    }
}

static void read_memory(const char *dir, struct heap_saved_state *memory,
                        struct heap_dumps *dumps) {
    char path[4096];
    snprintf(path, sizeof path, "%s/state", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (file) {
        heap_saved_state_read(memory, dumps, file);
        fclose(file);
    } else if (fd >= 0) {
        close(fd);
    }
}

static void path_of(const struct engine *engine, const struct engine_ended_dump *process,
                    char *path, size_t size) {
    snprintf(path, size, "%s/heap/%d-%s", engine->data_dir, (int)process->pid, process->uuid);
}

static void look_into(const struct search *search, struct engine_ended_dump *process,
                      struct found *found) {
    struct heap_saved_state memory = {0};
    struct heap_dumps dumps;
    char path[4096];
    path_of(search->job.engine, process, path, sizeof path);
    if (heap_dumps_open(&dumps, path) == SONDE_OK) {
        read_memory(path, &memory, &dumps);
        memcpy(process->process, memory.name, sizeof process->process);
        if (!search->name[0] || strcmp(search->name, process->process) == 0)
            add_dumps(search, &dumps, process, found);
    }
    heap_dumps_finish(&dumps);
}

/* Matches by the directory's name first; the rest is in its state file. */
static bool fits(const struct search *search, int dir, const char *entry,
                 struct engine_ended_dump *process) {
    *process = (struct engine_ended_dump){0};
    int32_t pid;
    if (!heap_sweep_parse_name(entry, &pid))
        return false;
    const char *uuid = strchr(entry, '-') + 1;
    if (strlen(uuid) >= sizeof process->uuid || (search->pid && search->pid != pid) ||
        (search->uuid[0] && strcmp(search->uuid, uuid) != 0))
        return false;
    process->pid = pid;
    memcpy(process->uuid, uuid, strlen(uuid));
    return !heap_sweep_is_alive(dir, entry, pid);
}

static int newest_first(const void *a, const void *b) {
    const struct engine_ended_dump *left = a, *right = b;
    if (left->dump.unix_ns != right->dump.unix_ns)
        return left->dump.unix_ns < right->dump.unix_ns ? 1 : -1;
    return strcmp(right->dump.name, left->dump.name);
}

static void look(const struct search *search, struct found *found) {
    char path[4096];
    struct engine_ended_dump process;
    snprintf(path, sizeof path, "%s/heap", search->job.engine->data_dir);
    DIR *listing = opendir(path);
    for (struct dirent *entry; listing && (entry = readdir(listing));)
        if (fits(search, dirfd(listing), entry->d_name, &process))
            look_into(search, &process, found);
    if (listing)
        closedir(listing);
    if (found->count > 1)
        qsort(found->items, found->count, sizeof *found->items, newest_first);
}

/* ---- Answers ---- */

/* The rights with which the files are opened that a dump names. A dump of an earlier version does
 * not say who wrote it. */
static struct process_identity writer_of(const char *dir) {
    struct heap_saved_state memory = {.uid = NOBODY};
    struct process_identity writer = {.pidfd = -1};
    read_memory(dir, &memory, NULL);
    for (int i = 0; i < 3; i++) {
        writer.ids.uids[i] = memory.uid;
        writer.ids.gids[i] = memory.uid == 0 ? 0 : NOBODY;
    }
    return writer;
}

/* Files are looked up in our own root, because the process's root has gone with it. */
static sonde_err read_newest(const struct search *search, const struct found *found,
                             struct engine_heap_result *result, struct sonde_diag *diag) {
    char path[4096], dir[4000];
    if (found->count == 0)
        return sonde_fail(
            diag, SONDE_NOT_FOUND,
            "no exited process left a heap profile %06u.heap; sonde heap list --ended "
            "lists those that exist",
            search->number);
    path_of(search->job.engine, &found->items[0], dir, sizeof dir);
    snprintf(path, sizeof path, "%s/%s", dir, found->items[0].dump.name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return sonde_fail_os(diag, errno, "heap profile %06u.heap cannot be read", search->number);
    result->epoch = found->items[0].dump.epoch;
    result->unix_ns = found->items[0].dump.unix_ns;
    struct process_identity writer = writer_of(dir);
    sonde_err err = heap_read_dump(search->job.engine, fd, &writer, NULL, true, search->raw,
                                   search->keep_frames, result, diag);
    close(fd);
    return err;
}

static void perform(struct job *job) {
    struct search *search = container_of(job, struct search, job);
    struct found found = {0};
    struct sonde_diag diag = {0};
    struct engine_heap_result result = {0};
    look(search, &found);
    if (search->on_list) {
        uint32_t count = found.count < ENGINE_HEAP_MAX_DUMPS ? found.count : ENGINE_HEAP_MAX_DUMPS;
        search->on_list(search->context, SONDE_OK, NULL, found.items, count);
    } else {
        sonde_err err = read_newest(search, &found, &result, &diag);
        search->on_result(search->context, err, err ? &diag : NULL, err ? NULL : &result);
    }
    free(found.items);
}

static void complete(struct engine *engine, struct job *job) {
    free(job);
}

static void on_begin(struct engine *engine, struct message *message) {
    struct search *search = container_of(message, struct search, message);
    engine_start_job(engine, engine->builders, &search->job);
}

static sonde_err begin(struct engine *engine, const struct engine_selector *selector,
                       const struct search *wanted, struct sonde_diag *diag) {
    if (!engine->data_dir || !engine->data_dir[0])
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "sonded has no data directory for dumps: start it with --data-dir");
    if (atomic_load(&engine->is_ending))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    struct search *search = malloc(sizeof *search);
    if (!search)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    *search = *wanted;
    search->job = (struct job){.perform = perform, .complete = complete};
    search->message = (struct message){.run = on_begin};
    search->pid = selector->pid;
    snprintf(search->name, sizeof search->name, "%s", selector->name ? selector->name : "");
    snprintf(search->uuid, sizeof search->uuid, "%s", selector->uuid ? selector->uuid : "");
    engine_post(engine, &search->message);
    return SONDE_OK;
}

sonde_err engine_heap_list_ended(struct engine *engine, const struct engine_selector *selector,
                                 engine_on_ended_dumps *on_answer, void *context,
                                 struct sonde_diag *diag) {
    struct search wanted = {.on_list = on_answer, .context = context};
    return begin(engine, selector, &wanted, diag);
}

sonde_err heap_get_ended(struct engine *engine, const struct engine_heap_query *query,
                         engine_on_heap_result *on_result, void *context, struct sonde_diag *diag) {
    struct search wanted = {.on_result = on_result,
                            .context = context,
                            .raw = query->raw,
                            .keep_frames = query->keep_allocator_frames};
    if (!query->name || !heap_dumps_parse_name(query->name, &wanted.number))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "name: required for a process that has ended");
    return begin(engine, &query->target, &wanted, diag);
}
