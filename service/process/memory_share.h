/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of this process's memory the programs of each user may fill. A program chooses how many
 * stacks and names it has, and a user may have many programs, so a limit per program has no sum.
 *
 *     root and sonded's own user      MEMORY_OWN
 *     every other user together       MEMORY_OTHERS      of these, one user: MEMORY_USER
 *     a user who has less than MEMORY_LEAST may have that much although MEMORY_OTHERS is reached
 *
 * The two pools are apart, so that what other users fill costs sonded's own user nothing. Whoever
 * stores something takes its bytes first. If they are refused, it drops what it wanted to store,
 * and counts it. The sums belong to the process, as its memory does.
 *
 * Thread safety: any thread; takes LOCK_MEMORY_SHARE for a moment. */
#ifndef SONDE_SERVICE_PROCESS_MEMORY_SHARE_H
#define SONDE_SERVICE_PROCESS_MEMORY_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MEMORY_OWN    ((size_t)512 << 20)
#define MEMORY_OTHERS ((size_t)128 << 20)
#define MEMORY_USER   ((size_t)64 << 20)
#define MEMORY_LEAST  ((size_t)128 << 10)
#define MEMORY_USERS  1024u /* those with memory at a time; of further users nothing is stored */

/* Bytes that a holder, such as a stack table, has taken. Zeroed memory has the user 0. */
struct memory_share {
    uid_t uid;
    size_t bytes;
};

/* False: the user or all users have no room for so much. */
bool memory_share_take(struct memory_share *share, size_t bytes);
/* Returns some of the bytes, or all of them. */
void memory_share_give(struct memory_share *share, size_t bytes);
void memory_share_finish(struct memory_share *share);
/* Whether this is a user other than root and sonded's own. */
bool memory_share_is_other(uid_t uid);

/* Bytes that all users hold, and that one other user holds. */
size_t memory_share_used(void);
size_t memory_share_used_by(uid_t uid);

#endif
