/* SPDX-License-Identifier: Apache-2.0 */
#include "service/process/memory_share.h"

#include "api/hash_index.h"
#include "service/locks.h"

#include <stdatomic.h>
#include <unistd.h>

/* Open addressing with linear probing. A row whose bytes are 0 is free, so removing one moves the
 * rows behind it that would no longer be found. */
struct row {
    size_t bytes;
    uid_t uid;
};

#define SLOTS (2 * MEMORY_USERS)

static struct {
    struct lock lock;
    uid_t uid; /* sonded's own: a thread that opens files for another user has another euid */
    struct hash_index seed; /* a user with many uids must not be able to choose slots */
    struct row rows[SLOTS];
    uint32_t count;
    size_t others;
    _Atomic size_t own;
} shares;

__attribute__((constructor)) static void init(void) {
    lock_init(&shares.lock, LOCK_MEMORY_SHARE);
    hash_index_init(&shares.seed);
    shares.uid = geteuid();
}

bool memory_share_is_other(uid_t uid) {
    return uid != 0 && uid != shares.uid;
}

static uint32_t home_of(uid_t uid) {
    return hash_index_words(&shares.seed, uid, 0) % SLOTS;
}

/* The user's row, or the free one where it belongs. */
static struct row *row_of(uid_t uid) {
    uint32_t at = home_of(uid);
    while (shares.rows[at].bytes != 0 && shares.rows[at].uid != uid)
        at = (at + 1) % SLOTS;
    return &shares.rows[at];
}

static void remove_row(struct row *row) {
    uint32_t hole = (uint32_t)(row - shares.rows);
    shares.count--;
    for (uint32_t at = (hole + 1) % SLOTS; shares.rows[at].bytes != 0; at = (at + 1) % SLOTS) {
        uint32_t home = home_of(shares.rows[at].uid);
        if ((at - home) % SLOTS < (at - hole) % SLOTS)
            continue;
        shares.rows[hole] = shares.rows[at];
        shares.rows[at].bytes = 0;
        hole = at;
    }
}

static bool take_other(uid_t uid, size_t bytes) {
    struct row *row = row_of(uid);
    bool is_small = bytes <= MEMORY_LEAST && row->bytes + bytes <= MEMORY_LEAST;
    bool has_room = shares.others <= MEMORY_OTHERS && bytes <= MEMORY_OTHERS - shares.others;
    if (bytes > MEMORY_USER - row->bytes || (!has_room && !is_small))
        return false;
    if (row->bytes == 0 && shares.count == MEMORY_USERS)
        return false;
    shares.count += row->bytes == 0;
    *row = (struct row){row->bytes + bytes, uid};
    shares.others += bytes;
    return true;
}

static bool take_own(size_t bytes) {
    size_t had = atomic_fetch_add(&shares.own, bytes);
    if (had <= MEMORY_OWN && bytes <= MEMORY_OWN - had)
        return true;
    atomic_fetch_sub(&shares.own, bytes);
    return false;
}

bool memory_share_take(struct memory_share *share, size_t bytes) {
    bool has_room = true;
    if (bytes == 0)
        return true;
    if (memory_share_is_other(share->uid)) {
        lock_take(&shares.lock);
        has_room = take_other(share->uid, bytes);
        lock_drop(&shares.lock);
    } else {
        has_room = take_own(bytes);
    }
    share->bytes += has_room ? bytes : 0;
    return has_room;
}

void memory_share_give(struct memory_share *share, size_t bytes) {
    if (bytes == 0)
        return;
    share->bytes -= bytes;
    if (!memory_share_is_other(share->uid)) {
        atomic_fetch_sub(&shares.own, bytes);
        return;
    }
    lock_take(&shares.lock);
    struct row *row = row_of(share->uid);
    shares.others -= bytes;
    row->bytes -= bytes;
    if (row->bytes == 0)
        remove_row(row);
    lock_drop(&shares.lock);
}

void memory_share_finish(struct memory_share *share) {
    memory_share_give(share, share->bytes);
}

size_t memory_share_used(void) {
    lock_take(&shares.lock);
    size_t bytes = shares.others + atomic_load(&shares.own);
    lock_drop(&shares.lock);
    return bytes;
}

size_t memory_share_used_by(uid_t uid) {
    lock_take(&shares.lock);
    size_t bytes = row_of(uid)->bytes;
    lock_drop(&shares.lock);
    return bytes;
}
