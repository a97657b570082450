/* SPDX-License-Identifier: Apache-2.0
 *
 * The address space that Sonde may take from the program. Under RLIMIT_AS or RLIMIT_DATA every byte
 * that the guest maps is one that the program's malloc and threads cannot get, and nobody knows
 * what they will need. So one request takes at most 1 / ADDRESS_SPACE_SHARE of what is free when it
 * is made. Without these limits nothing is looked at. If /proc/self/statm cannot be read, half of
 * the limit counts as used.
 *
 * Plain system calls, no locks, no allocation of its own. Any thread; not signal-safe, since the
 * reason of the last refusal is shared. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_ADDRESS_SPACE_H
#define SONDE_SERVICE_GUEST_PROCESS_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESS_SPACE_SHARE 8u

enum address_space_kind {
    ADDRESS_SPACE_PRIVATE, /* writable: RLIMIT_DATA and RLIMIT_AS */
    ADDRESS_SPACE_SHARED   /* RLIMIT_AS */
};

/* Whether that many bytes may be mapped now. A refusal is noted for address_space_reason. */
bool address_space_allows(enum address_space_kind kind, uint64_t bytes);

/* Private zeroed memory whose pages are allocated as they are used. The caller owns it and frees it
 * with munmap. Returns NULL if it is not allowed, or the kernel refuses. */
void *address_space_reserve(size_t bytes);

/* The caller got along with less than was refused. */
void address_space_forget(void);

/* Appends a sentence about the last refusal: the limit, what is free, and what to do. False if
 * nothing was refused since the last call. */
bool address_space_reason(char *buffer, size_t size);

#endif
