/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/held.h"

#include "service/guest/raw.h"

#include <errno.h>
#include <stddef.h>

#define ROWS 4096u

__thread unsigned held_own;
_Atomic bool held_process;

static struct row {
    uint32_t tid; /* 0 = free */
    uint32_t reasons;
} rows[ROWS];
static uint32_t limit;        /* highest row ever used + 1 */
static unsigned held_for_all; /* reasons that did not fit */

static struct row *find(uint32_t tid) {
    for (uint32_t i = 0; i < limit; i++)
        if (rows[i].tid == tid)
            return &rows[i];
    return NULL;
}

static struct row *take_free(void) {
    struct row *row = find(0);
    return row ? row : limit < ROWS ? &rows[limit++] : NULL;
}

void held_add(uint32_t tid, unsigned reasons) {
    struct row *row = find(tid);
    if (!row && (row = take_free()))
        *row = (struct row){.tid = tid};
    if (row)
        row->reasons |= reasons;
    else
        held_for_all |= reasons;
}

void held_remove(uint32_t tid, unsigned reasons) {
    struct row *row = find(tid);
    if (row && (row->reasons &= ~reasons) == 0)
        row->tid = 0;
}

unsigned held_reasons(uint32_t tid) {
    const struct row *row = find(tid);
    unsigned reasons = held_for_all | (row ? row->reasons : 0);
    return reasons & (HOLD_STACK | HOLD_FILTER);
}

bool held_has_harmless_filter(uint32_t tid) {
    const struct row *row = find(tid);
    return row && row->reasons & FILTER_IS_HARMLESS;
}

uint32_t held_count(unsigned reasons) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < limit; i++)
        count += rows[i].tid && rows[i].reasons & reasons;
    return count;
}

void held_forget_ended(uint32_t pid) {
    for (uint32_t i = 0; i < limit; i++)
        if (rows[i].tid && system_call3(SYS_tgkill, pid, rows[i].tid, 0) == -ESRCH)
            rows[i].tid = 0;
}

void held_after_fork(uint32_t tid) {
    limit = 0;
    held_for_all = 0;
    if (held_own)
        held_add(tid, held_own);
}
