/* SPDX-License-Identifier: Apache-2.0
 *
 * Which stacks and frames the store has already, so that each is sent once. A bounded set of ids
 * with a version each: when it is full it forgets everything, and all is sent once more, which
 * stores accept. Zeroed memory plus known_init. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_RECORDING_KNOWN_H
#define SONDE_SERVICE_RECORDING_KNOWN_H

#include "api/hash_index.h"

#define KNOWN_MAX (1u << 20) /* ids: about 24 MiB */

struct known_id {
    uint64_t id;
    uint32_t version;
};

struct known {
    struct hash_index index;
    struct known_id *items;
    uint32_t count, capacity, limit;
};

void known_init(struct known *known, uint32_t limit);
/* True if the id is new or was known with a lower version: send it. Without memory, always. */
bool known_add(struct known *known, uint64_t id, uint32_t version);
void known_clear(struct known *known);
void known_finish(struct known *known);

#endif
