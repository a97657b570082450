/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that looks. Files are noticed in two ways. inotify on the file's folder reports that a
 * writer has closed the file or that another one was renamed to it, and then it is read at once.
 * For everything else (a link that was switched, a network file system) the file's times and size
 * are compared every LOOK_MS; a change is read when it has been the same for STABLE_LOOKS, because
 * its writer may be in the middle of it. */
#include "clients/collect/discovery/discovery.h"

#include "api/base/clock.h"
#include "clients/collect/discovery/fetcher.h"
#include "clients/collect/discovery/merge.h"

#include <errno.h>
#include <libgen.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#define LOOK_MS      250
#define STABLE_LOOKS 2
#define FIRST_S      15 /* how long the start waits for servers */

struct source {
    struct source_spec spec;
    struct fetcher *fetcher;        /* NULL for files */
    int watch;                      /* of the file's folder; -1 = none */
    char base[256];                 /* the file's name in its folder */
    struct source_stamp read, seen; /* when it was read, and at the last look */
    int looks;                      /* for which `seen` has been the same */
    struct host_list *list;         /* NULL = none yet */
    struct discovery_source state;  /* with the lock */
};

struct discovery {
    struct source *sources;
    size_t count;
    void (*on_change)(void *context, const struct discovered_hosts *hosts);
    void *context;
    void (*log)(const char *line);
    int wake_fd, inotify_fd;
    bool has_thread, has_digest;
    unsigned char digest[MERGE_DIGEST];
    atomic_bool is_stopping;
    pthread_t thread;
    pthread_mutex_t lock;
};

static void say(const struct discovery *discovery, const struct source *source, const char *text) {
    char line[700];
    snprintf(line, sizeof line, "hosts: %s: %s", source->spec.name, text);
    if (discovery->log)
        discovery->log(line);
}

static void set_trouble(struct discovery *discovery, struct source *source, const char *text) {
    pthread_mutex_lock(&discovery->lock);
    bool is_new = strncmp(source->state.trouble, text, sizeof source->state.trouble - 1) != 0;
    snprintf(source->state.trouble, sizeof source->state.trouble, "%s", text);
    pthread_mutex_unlock(&discovery->lock);
    if (is_new && *text)
        say(discovery, source, text);
}

/* Takes a result: a list, or NULL with the reason. Returns true if the source has a new list. */
static bool take_result(struct discovery *discovery, struct source *source, struct host_list *list,
                        const struct sonde_diag *diag) {
    if (!list) {
        set_trouble(discovery, source, sonde_diag_text(diag, diag->code));
        return false;
    }
    host_list_destroy(source->list);
    source->list = list;
    pthread_mutex_lock(&discovery->lock);
    source->state.hosts = list->count;
    source->state.unix_ns = clock_ns(CLOCK_REALTIME);
    pthread_mutex_unlock(&discovery->lock);
    set_trouble(discovery, source, "");
    return true;
}

/* Reads the file. A file that was changed meanwhile is read again at the next look. */
static bool read_file(struct discovery *discovery, struct source *source,
                      const struct source_stamp *stamp) {
    struct source_stamp after;
    struct host_list *list;
    struct sonde_diag diag = {0};
    sonde_err err = source_read_file(&source->spec, &list, &diag);
    source_file_stamp(source->spec.text, &after);
    if (!source_stamps_equal(stamp, &after)) {
        host_list_destroy(list);
        return false;
    }
    source->read = *stamp;
    if (err == SONDE_IO && stamp->inode != 0)
        source->read = (struct source_stamp){.size = -1}; /* try again at the next look */
    return take_result(discovery, source, list, &diag);
}

static void watch_folder(struct discovery *discovery, struct source *source) {
    char path[SOURCE_MAX_SPEC + 1];
    snprintf(path, sizeof path, "%s", source->spec.text);
    snprintf(source->base, sizeof source->base, "%s", basename(path));
    snprintf(path, sizeof path, "%s", source->spec.text);
    source->watch = inotify_add_watch(discovery->inotify_fd, dirname(path),
                                      IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR);
}

/* True if the source has a new list. is_closed: inotify has said that its writer is done. */
static bool look_at_file(struct discovery *discovery, struct source *source, bool is_closed) {
    struct source_stamp stamp;
    source_file_stamp(source->spec.text, &stamp);
    if (source_stamps_equal(&stamp, &source->read)) {
        source->looks = 0;
        return false;
    }
    source->looks = source_stamps_equal(&stamp, &source->seen) ? source->looks + 1 : 0;
    source->seen = stamp;
    if (!is_closed && source->looks < STABLE_LOOKS)
        return false;
    if (!is_closed)
        watch_folder(discovery, source); /* it may be a new folder */
    source->looks = 0;
    return read_file(discovery, source, &stamp);
}

static bool look_at_files(struct discovery *discovery, const struct inotify_event *event) {
    bool is_new = false;
    for (size_t i = 0; i < discovery->count; i++) {
        struct source *source = &discovery->sources[i];
        bool is_closed =
            event && event->len && event->wd == source->watch && !strcmp(event->name, source->base);
        if (source->spec.kind == SOURCE_FILE && (is_closed || !event))
            is_new |= look_at_file(discovery, source, is_closed);
    }
    return is_new;
}

static bool take_events(struct discovery *discovery) {
    _Alignas(struct inotify_event) char bytes[8192];
    bool is_new = false;
    ssize_t len;
    while ((len = read(discovery->inotify_fd, bytes, sizeof bytes)) > 0) {
        const struct inotify_event *event;
        for (char *at = bytes; at < bytes + len; at += sizeof *event + event->len) {
            event = (const struct inotify_event *)(void *)at;
            is_new |= look_at_files(discovery, event);
        }
    }
    return is_new;
}

static bool take_fetched(struct discovery *discovery) {
    bool is_new = false;
    struct host_list *list;
    struct sonde_diag diag;
    uint64_t count;
    (void)!read(discovery->wake_fd, &count, sizeof count);
    for (size_t i = 0; i < discovery->count; i++) {
        struct source *source = &discovery->sources[i];
        if (source->fetcher && fetcher_take(source->fetcher, &list, &diag))
            is_new |= take_result(discovery, source, list, &diag);
    }
    return is_new;
}

static void report_left_out(struct discovery *discovery, const size_t *left_out) {
    char text[160];
    for (size_t i = 0; i < discovery->count; i++) {
        snprintf(text, sizeof text,
                 "%zu hosts are left out: all sources together may have %d; start another "
                 "controller for the others",
                 left_out[i], DISCOVERY_MAX_HOSTS);
        if (left_out[i])
            set_trouble(discovery, &discovery->sources[i], text);
    }
}

static void merge_and_report(struct discovery *discovery) {
    struct host_list *lists[DISCOVERY_MAX_SOURCES];
    size_t left_out[DISCOVERY_MAX_SOURCES] = {0};
    struct merged_hosts merged;
    for (size_t i = 0; i < discovery->count; i++)
        lists[i] = discovery->sources[i].list;
    if (merge_hosts(lists, discovery->count, &merged, left_out)) {
        say(discovery, &discovery->sources[0], "not enough memory; keeping the last list");
        return;
    }
    report_left_out(discovery, left_out);
    if (!discovery->has_digest || memcmp(discovery->digest, merged.digest, MERGE_DIGEST) != 0)
        discovery->on_change(discovery->context, &merged.list);
    memcpy(discovery->digest, merged.digest, MERGE_DIGEST);
    discovery->has_digest = true;
    merged_hosts_finish(&merged);
}

static void *run(void *context) {
    struct discovery *discovery = context;
    int64_t looked_ms = clock_ms(CLOCK_MONOTONIC);
    while (!atomic_load(&discovery->is_stopping)) {
        struct pollfd fds[] = {{.fd = discovery->wake_fd, .events = POLLIN},
                               {.fd = discovery->inotify_fd, .events = POLLIN}};
        poll(fds, 2, LOOK_MS);
        bool is_new = take_fetched(discovery);
        is_new |= take_events(discovery);
        if (clock_ms(CLOCK_MONOTONIC) - looked_ms >=
            LOOK_MS) { /* also in a folder full of events */
            is_new |= look_at_files(discovery, NULL);
            looked_ms = clock_ms(CLOCK_MONOTONIC);
        }
        if (is_new)
            merge_and_report(discovery);
    }
    return NULL;
}

/* The file must be there and right, so that a mistyped name is noticed. */
static sonde_err start_file(struct discovery *discovery, struct source *source,
                            struct sonde_diag *diag) {
    struct host_list *list;
    watch_folder(discovery, source);
    source_file_stamp(source->spec.text, &source->read);
    sonde_err err = source_read_file(&source->spec, &list, diag);
    if (!err)
        take_result(discovery, source, list, diag);
    return err;
}

static sonde_err start_sources(struct discovery *discovery, const char *const *texts,
                               struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < discovery->count && !err; i++) {
        struct source *source = &discovery->sources[i];
        source->watch = -1;
        err = source_read_spec(texts[i], &source->spec, diag);
        snprintf(source->state.name, sizeof source->state.name, "%s", source->spec.name);
    }
    for (size_t i = 0; i < discovery->count && !err; i++) {
        struct source *source = &discovery->sources[i];
        err = source->spec.kind == SOURCE_FILE
                  ? start_file(discovery, source, diag)
                  : fetcher_start(&source->spec, discovery->wake_fd, &source->fetcher, diag);
    }
    const struct timespec until = clock_wait_end(FIRST_S * INT64_C(1000));
    for (size_t i = 0; i < discovery->count && !err; i++)
        if (discovery->sources[i].fetcher)
            fetcher_wait(discovery->sources[i].fetcher, &until);
    return err;
}

static sonde_err open_fds(struct discovery *discovery, struct sonde_diag *diag) {
    discovery->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    discovery->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK); /* -1: files are looked at */
    if (discovery->wake_fd < 0)
        return sonde_fail_os(diag, errno, "cannot create an eventfd");
    return SONDE_OK;
}

sonde_err discovery_start(const char *const *sources, size_t count,
                          void (*on_change)(void *context, const struct discovered_hosts *hosts),
                          void *context, void (*log)(const char *line),
                          struct discovery **discovery, struct sonde_diag *diag) {
    *discovery = NULL;
    if (count > DISCOVERY_MAX_SOURCES)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "at most %d sources of hosts",
                          DISCOVERY_MAX_SOURCES);
    struct discovery *made = calloc(1, sizeof *made);
    struct source *list = calloc(count + 1, sizeof *list);
    if (!made || !list) {
        free(made);
        free(list);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "not enough memory for the list of hosts");
    }
    *made = (struct discovery){
        .sources = list, .count = count, .on_change = on_change, .context = context, .log = log};
    pthread_mutex_init(&made->lock, NULL);
    sonde_err err = open_fds(made, diag);
    if (!err)
        err = start_sources(made, sources, diag);
    if (!err) {
        take_fetched(made);
        merge_and_report(made);
        int failure = pthread_create(&made->thread, NULL, run, made);
        made->has_thread = failure == 0;
        if (failure)
            err = sonde_fail_os(diag, failure, "cannot start a thread");
    }
    if (err)
        discovery_stop(made);
    else
        *discovery = made;
    return err;
}

size_t discovery_sources(struct discovery *discovery, struct discovery_source *sources,
                         size_t capacity) {
    pthread_mutex_lock(&discovery->lock);
    for (size_t i = 0; i < discovery->count && i < capacity; i++)
        sources[i] = discovery->sources[i].state;
    pthread_mutex_unlock(&discovery->lock);
    return discovery->count;
}

void discovery_stop(struct discovery *discovery) {
    uint64_t one = 1;
    if (!discovery)
        return;
    atomic_store(&discovery->is_stopping, true);
    (void)!write(discovery->wake_fd, &one, sizeof one);
    if (discovery->has_thread)
        pthread_join(discovery->thread, NULL);
    for (size_t i = 0; i < discovery->count; i++) {
        fetcher_stop(discovery->sources[i].fetcher);
        host_list_destroy(discovery->sources[i].list);
    }
    if (discovery->wake_fd >= 0)
        close(discovery->wake_fd);
    if (discovery->inotify_fd >= 0)
        close(discovery->inotify_fd);
    pthread_mutex_destroy(&discovery->lock);
    free(discovery->sources);
    free(discovery);
}
