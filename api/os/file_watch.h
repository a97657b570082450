/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices that small configuration files have been replaced: certificates, keys, tokens. Every
 * program follows one rule: the files are looked at when they are needed (for a new connection or a
 * call), but at most once a second, or once more after file_watch_look_now. New contents that
 * cannot be used leave the old ones in use, are reported once, and are tried again at every later
 * look until they fit.
 *
 * Thread safety: one thread at a time per watch. */
#ifndef SONDE_API_OS_FILE_WATCH_H
#define SONDE_API_OS_FILE_WATCH_H

#include "api/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define FILE_WATCH_MAX       3
#define FILE_WATCH_PERIOD_MS 1000 /* between two looks */

/* Identifies one version of a file; zeros = the file is missing. */
struct file_stamp {
    mode_t type; /* S_IFREG, ... */
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed, modified;
};

struct file_watch {
    const char *paths[FILE_WATCH_MAX]; /* borrowed; NULL = none */
    const char *what;                  /* for the log, before the first path: "the CA"; static */
    void (*log)(const char *line);     /* without a newline; NULL = nothing is logged */
    struct file_stamp stamps[FILE_WATCH_MAX];
    int64_t looked_ms;
    unsigned looked_at_request; /* number of calls of file_watch_look_now at that time */
    bool must_read;             /* at the next look, whatever the stamps are */
    char trouble[160];          /* what was logged last; "" = the files are in use */
};

/* Call it before the files are read for the first time. Fill in paths, what and log before. */
void file_watch_begin(struct file_watch *watch);
/* Whether to read the files again: they have changed, their last contents could not be used, or
 * they were so young that a later change may not show. False within a second of the last look, and
 * while one of them is a pipe, a device or a directory: reading it could wait for ever. */
bool file_watch_is_due(struct file_watch *watch);
/* Makes every watch due at its next look, whatever the time: for SIGHUP. Any thread. */
void file_watch_look_now(void);
/* The files have been read again. err: why they cannot be used; then they are tried again. Logs one
 * line when the outcome is new. is_new: the contents differ from those in use. */
void file_watch_report(struct file_watch *watch, sonde_err err, const struct sonde_diag *diag,
                       bool is_new);

#endif
