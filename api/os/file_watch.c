/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/file_watch.h"

#include "api/base/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define YOUNG_S  2 /* the file system's clock may be this coarse */
#define MAX_LINE 320

static atomic_uint requests;

static struct file_stamp stamp_of(const char *path) {
    struct file_stamp stamp;
    struct stat info;
    memset(&stamp, 0, sizeof stamp); /* stamps are compared as bytes */
    if (!path || stat(path, &info) != 0)
        return stamp;
    stamp.type = info.st_mode & S_IFMT;
    stamp.device = info.st_dev;
    stamp.inode = info.st_ino;
    stamp.size = info.st_size;
    stamp.changed = info.st_ctim;
    stamp.modified = info.st_mtim;
    return stamp;
}

/* A file that changes twice within one tick of the file system's clock has the same stamp. */
static bool is_young(const struct file_stamp *stamp) {
    return stamp->inode && time(NULL) - stamp->changed.tv_sec < YOUNG_S;
}

/* Takes the stamps before the files are read, so that a change meanwhile is seen at the next look.
 */
static bool look(struct file_watch *watch) {
    unsigned request = atomic_load(&requests);
    bool differs = false;
    watch->must_read = false;
    for (size_t i = 0; i < FILE_WATCH_MAX; i++) {
        struct file_stamp stamp = stamp_of(watch->paths[i]);
        differs = differs || memcmp(&stamp, &watch->stamps[i], sizeof stamp) != 0;
        watch->stamps[i] = stamp;
        watch->must_read = watch->must_read || is_young(&stamp);
    }
    watch->looked_ms = clock_ms(CLOCK_MONOTONIC);
    watch->looked_at_request = request;
    return differs;
}

void file_watch_begin(struct file_watch *watch) {
    (void)look(watch);
}

static void log_line(const struct file_watch *watch, const char *text) {
    char line[2 * MAX_LINE];
    const char *path = "";
    for (size_t i = FILE_WATCH_MAX; i-- > 0;)
        path = watch->paths[i] ? watch->paths[i] : path;
    snprintf(line, sizeof line, "%s %.*s %s", watch->what, MAX_LINE / 2, path, text);
    if (watch->log)
        watch->log(line);
}

/* The first file that is there and is not an ordinary one; NULL = none. */
static const char *find_odd(const struct file_watch *watch) {
    for (size_t i = 0; i < FILE_WATCH_MAX; i++)
        if (watch->stamps[i].type && !S_ISREG(watch->stamps[i].type))
            return watch->paths[i];
    return NULL;
}

void file_watch_look_now(void) {
    atomic_fetch_add(&requests, 1);
}

bool file_watch_is_due(struct file_watch *watch) {
    bool is_requested = watch->looked_at_request != atomic_load(&requests);
    bool must_read = watch->must_read || is_requested;
    struct sonde_diag diag = {0};
    if (!is_requested && clock_ms(CLOCK_MONOTONIC) - watch->looked_ms < FILE_WATCH_PERIOD_MS)
        return false;
    bool differs = look(watch);
    const char *odd = find_odd(watch);
    if (odd && differs)
        file_watch_report(
            watch, sonde_fail(&diag, SONDE_INVALID_ARGUMENT, "%.200s is not an ordinary file", odd),
            &diag, false);
    return !odd && (differs || must_read);
}

void file_watch_report(struct file_watch *watch, sonde_err err, const struct sonde_diag *diag,
                       bool is_new) {
    const char *trouble = err ? sonde_diag_text(diag, err) : "";
    char text[MAX_LINE];
    bool is_repeated = strncmp(trouble, watch->trouble, sizeof watch->trouble - 1) == 0;
    watch->must_read = watch->must_read || err;
    snprintf(text, sizeof text, "stays as it was: %s", trouble);
    if (err && !is_repeated)
        log_line(watch, text);
    else if (!err && (is_new || watch->trouble[0]))
        log_line(watch, is_new ? "was read again" : "can be read again, and is the same");
    snprintf(watch->trouble, sizeof watch->trouble, "%s", trouble);
}
