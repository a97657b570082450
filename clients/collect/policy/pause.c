/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/policy/pause.h"

#include "api/base/clock.h"
#include "api/bytes.h"
#include "api/text/time_text.h"
#include "api/text/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S    INT64_C(1000000000)
#define MAX_FILE    4095 /* of a longer file the beginning counts */
#define WRITE_FLAGS (O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW)

static sonde_err path_of(const char *dir, const char *name, char path[PATH_MAX],
                         struct sonde_diag *diag) {
    if (snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the directory's path is too long");
}

/* The first line, cleaned and cut between two characters. */
static void set_reason(struct pause_state *state, const char *text, size_t len) {
    struct sonde_buf clean = {0};
    sonde_utf8_clean(&clean, text, len);
    size_t kept = clean.len;
    if (kept > PAUSE_MAX_REASON) {
        kept = PAUSE_MAX_REASON;
        while (kept > 0 && sonde_utf8_continues(clean.data[kept]))
            kept--;
    }
    if (kept)
        memcpy(state->reason, clean.data, kept);
    state->reason[kept] = 0;
    sonde_buf_finish(&clean);
}

/* A second line that is not a time is a longer reason: the file's time counts. */
static void read_contents(const char *text, int64_t modified_ns, struct pause_state *state) {
    size_t len = strcspn(text, "\n");
    const char *second = text[len] ? text + len + 1 : "";
    struct sonde_slice time = {second, strcspn(second, "\r\n")};
    bool has_carriage_return = len > 0 && text[len - 1] == '\r';
    set_reason(state, text, len - has_carriage_return);
    if (!strchr(second, 'T') || sonde_time_read(time, modified_ns, &state->unix_ns, NULL))
        state->unix_ns = modified_ns;
}

static int64_t modified_ns(const struct stat *info) {
    return info->st_mtim.tv_sec * NS_PER_S + info->st_mtim.tv_nsec;
}

static void set_unreadable(struct pause_state *state, int failure, const struct stat *info) {
    snprintf(state->reason, sizeof state->reason, "the file paused cannot be read: %s",
             strerror(failure));
    state->unix_ns = modified_ns(info);
}

static void read_file(int fd, const struct stat *info, struct pause_state *state) {
    char text[MAX_FILE + 1];
    ssize_t len = read(fd, text, MAX_FILE);
    if (len < 0) {
        set_unreadable(state, errno, info);
        return;
    }
    text[len] = 0;
    read_contents(text, modified_ns(info), state);
}

/* The directory itself must be there. */
static sonde_err read_missing(const char *dir, struct pause_state *state, struct sonde_diag *diag) {
    struct stat info;
    if (stat(dir, &info) != 0)
        return sonde_fail_os(diag, errno, "cannot read the directory %.200s", dir);
    *state = (struct pause_state){0};
    return SONDE_OK;
}

sonde_err pause_read(const char *dir, struct pause_state *state, struct sonde_diag *diag) {
    char path[PATH_MAX];
    struct stat info;
    sonde_err err = path_of(dir, PAUSE_FILE, path, diag);
    if (err)
        return err;
    /* A FIFO must not be waited for, and a link that leads nowhere is a switch, too. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int failure = fd < 0 ? errno : 0;
    if (fd < 0 ? lstat(path, &info) != 0 : fstat(fd, &info) != 0)
        return failure == ENOENT ? read_missing(dir, state, diag)
                                 : sonde_fail_os(diag, errno, "cannot read %.200s", path);
    *state = (struct pause_state){.is_paused = true};
    if (fd < 0)
        set_unreadable(state, failure, &info);
    else
        read_file(fd, &info, state);
    if (fd >= 0)
        close(fd);
    return SONDE_OK;
}

static sonde_err sync_dir(const char *dir, struct sonde_diag *diag) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_synced = fd >= 0 && fsync(fd) == 0;
    int failure = errno;
    if (fd >= 0)
        close(fd);
    return is_synced ? SONDE_OK : sonde_fail_os(diag, failure, "cannot sync %.200s", dir);
}

static sonde_err write_file(const char *path, const char *reason, int64_t now_unix_ns,
                            struct sonde_diag *diag) {
    char text[PAUSE_MAX_REASON + 40], moment[32];
    time_t seconds = (time_t)(now_unix_ns / NS_PER_S);
    struct tm parts;
    strftime(moment, sizeof moment, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &parts));
    int len = snprintf(text, sizeof text, "%s\n%s\n", reason, moment);
    int fd = open(path, WRITE_FLAGS, 0600);
    bool is_good = fd >= 0 && write(fd, text, (size_t)len) == len && fsync(fd) == 0;
    int failure = errno;
    if (fd >= 0)
        is_good &= close(fd) == 0;
    return is_good ? SONDE_OK : sonde_fail_os(diag, failure, "cannot write %.200s", path);
}

static sonde_err set(const char *dir, const char *path, const char *reason, int64_t now_unix_ns,
                     struct sonde_diag *diag) {
    char other[PATH_MAX];
    sonde_err err = path_of(dir, "." PAUSE_FILE ".tmp", other, diag);
    if (!err)
        err = write_file(other, reason, now_unix_ns, diag);
    if (!err && rename(other, path) != 0)
        err = sonde_fail_os(diag, errno, "cannot write %.200s", path);
    return err;
}

static sonde_err check_reason(const char *reason, struct sonde_diag *diag) {
    size_t len = reason ? strnlen(reason, PAUSE_MAX_REASON + 1) : 0;
    if (len > PAUSE_MAX_REASON || (len && !sonde_utf8_is_clean(reason, len)))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the reason must have at most %d bytes of UTF-8 on one line",
                          PAUSE_MAX_REASON);
    return SONDE_OK;
}

sonde_err pause_write(const char *dir, bool is_paused, const char *reason, int64_t now_unix_ns,
                      struct sonde_diag *diag) {
    char path[PATH_MAX];
    sonde_err err = check_reason(reason, diag);
    if (!err)
        err = path_of(dir, PAUSE_FILE, path, diag);
    if (!err && is_paused)
        err = set(dir, path, reason ? reason : "", now_unix_ns, diag);
    else if (!err && unlink(path) != 0 && errno != ENOENT)
        err = sonde_fail_os(diag, errno, "cannot remove %.200s", path);
    return err ? err : sync_dir(dir, diag);
}

struct pause_switch {
    char *dir; /* NULL = only in memory */
    struct pause_state state;
};

sonde_err pause_open(const char *dir, struct pause_switch **created, struct sonde_diag *diag) {
    *created = calloc(1, sizeof **created);
    if (*created && dir)
        (*created)->dir = strdup(dir);
    if (!*created || (dir && !(*created)->dir)) {
        pause_close(*created);
        *created = NULL;
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "not enough memory for the kill switch");
    }
    sonde_err err = dir ? pause_read(dir, &(*created)->state, diag) : SONDE_OK;
    if (err) {
        pause_close(*created);
        *created = NULL;
    }
    return err;
}

bool pause_is_set(struct pause_switch *from, char *reason, size_t size) {
    if (from->dir)
        (void)!pause_read(from->dir, &from->state, NULL); /* on errors the last state stays */
    snprintf(reason, size, "%s", from->state.reason);
    return from->state.is_paused;
}

sonde_err pause_set(struct pause_switch *to, bool is_paused, const char *reason,
                    struct sonde_diag *diag) {
    int64_t now_unix_ns = clock_ns(CLOCK_REALTIME);
    if (to->dir)
        return pause_write(to->dir, is_paused, reason, now_unix_ns, diag);
    sonde_err err = check_reason(reason, diag);
    if (err)
        return err;
    to->state = (struct pause_state){.is_paused = is_paused};
    if (is_paused) {
        snprintf(to->state.reason, sizeof to->state.reason, "%s", reason ? reason : "");
        to->state.unix_ns = now_unix_ns;
    }
    return SONDE_OK;
}

void pause_close(struct pause_switch *from) {
    if (!from)
        return;
    free(from->dir);
    free(from);
}
