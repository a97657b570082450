/* SPDX-License-Identifier: Apache-2.0
 *
 * jemalloc's dumps at each new maximum of mapped memory ("gdump"). jemalloc writes a file and then
 * calls a hook, inside the allocator, in the thread that reached the maximum. The hook opens the
 * file and unlinks it, so that none stays in the process's folder, and the control thread sends the
 * descriptor to sonded. One dump is held at a time; further ones are dropped and counted. After
 * each dump gdump is off for GDUMP_PAUSE_NS, since a growing heap dumps once per chunk. Dumps of
 * other kinds belong to the program and are not touched. Control thread only. */
#ifndef SONDE_SERVICE_GUEST_HEAP_GDUMP_H
#define SONDE_SERVICE_GUEST_HEAP_GDUMP_H

#include <stdbool.h>
#include <stdint.h>

#define GDUMP_PAUSE_NS 1000000000ll

/* 0 or an errno. */
int gdump_switch(bool on);
/* Also true during a pause. */
bool gdump_is_on(void);
/* The descriptor of a dump, owned by the caller, and the number of dumps dropped since the last
 * one; -1 = none. Starts a pause. */
int gdump_take(uint64_t *skipped);
/* Ends a pause that is over. Milliseconds until the next call is due, -1 = never. */
int gdump_tick(int64_t now_ns);
/* Whether a file name is that of such a dump: it ends in ".u<digits>.heap". */
bool gdump_is_name(const char *name);
/* In the child of a fork. */
void gdump_after_fork(void);

#endif
