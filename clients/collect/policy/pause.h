/* SPDX-License-Identifier: Apache-2.0
 *
 * The kill switch: recording is paused while the file DIR/paused exists. SetPaused writes and
 * removes it, and so may anybody who may write to DIR, for example when the controller does not
 * answer:
 *
 *     echo "database migration" > DIR/paused        rm DIR/paused
 *
 * The first line is the reason, the second one the time, as in RFC 3339; without it, the file's own
 * time is used. The owner reads it again about every second. A file that exists but cannot be read
 * pauses too, because the switch must work when something is wrong.
 *
 * pause_read and pause_write are the file; a pause_switch also remembers the last state.
 *
 * Thread safety: any thread; of two writers at the same time one wins. A pause_switch: one thread
 * at a time. The functions block. */
#ifndef SONDE_CLIENTS_COLLECT_POLICY_PAUSE_H
#define SONDE_CLIENTS_COLLECT_POLICY_PAUSE_H

#include "api/error.h"

#include <stdbool.h>
#include <stddef.h>

#define PAUSE_MAX_REASON 255
#define PAUSE_FILE       "paused"

struct pause_state {
    bool is_paused;
    char reason[PAUSE_MAX_REASON + 1]; /* UTF-8 without control characters */
    int64_t unix_ns;                   /* since when; 0 = not */
};

/* SONDE_IO: the directory cannot be searched; *state is left as it was. */
SONDE_MUST_USE sonde_err pause_read(const char *dir, struct pause_state *state,
                                    struct sonde_diag *diag);
/* Durable when it returns. reason: NULL = "". SONDE_INVALID_ARGUMENT: the reason is longer than 255
 * bytes, or is not UTF-8 on one line. SONDE_IO. */
SONDE_MUST_USE sonde_err pause_write(const char *dir, bool is_paused, const char *reason,
                                     int64_t now_unix_ns, struct sonde_diag *diag);

struct pause_switch;

/* dir NULL keeps the pause in memory only. Returns SONDE_IO if the directory is missing. */
SONDE_MUST_USE sonde_err pause_open(const char *dir, struct pause_switch **created,
                                    struct sonde_diag *diag);
/* Reads the file again; copies the reason. While it cannot be known, the last state stays. */
bool pause_is_set(struct pause_switch *from, char *reason, size_t size);
/* As pause_write, with the time of now. */
SONDE_MUST_USE sonde_err pause_set(struct pause_switch *to, bool is_paused, const char *reason,
                                   struct sonde_diag *diag);
void pause_close(struct pause_switch *from); /* NULL is fine */

#endif
