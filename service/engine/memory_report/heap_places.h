/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes every address of a heap report mean one thing. A pc of a library that was closed since may
 * be in another library's memory by now. Such pcs move to addresses that no process has: each
 * mapping that is gone gets a stand-in from PLACES_BASE on. So profiles and dumps, and every reader
 * of them, work as if no address had ever been used twice.
 *
 * Notes about a stack ("[truncated]") are stand-ins, too: one page each from PLACES_BASE on. Thread
 * safety: a worker. */
#ifndef SONDE_SERVICE_ENGINE_MEMORY_REPORT_HEAP_PLACES_H
#define SONDE_SERVICE_ENGINE_MEMORY_REPORT_HEAP_PLACES_H

#include "service/engine/report/mapping_lives.h"

#include "api/bytes.h"

#define PLACES_BASE      (1ull << 47) /* user addresses are below */
#define PLACES_LIBRARIES (PLACES_BASE + (1ull << 20))

struct heap_places {
    const struct mapping_lives *lives; /* borrowed; NULL = none are known */
    struct generation *mapped;         /* what is mapped now, then the stand-ins that are needed */
    uint32_t present_count;            /* of mapped, without stand-ins */
    bool is_simple;      /* each address of a settled stack is in what is mapped there now */
    bool has_notes;      /* their stand-ins exist */
    uint32_t used_notes; /* bits: which of them have been used */
};

/* mapped: borrowed, sorted. [vsyscall], which is above the stand-ins, is removed from it. If it is
 * empty, because the process is gone, what was mapped last is added to it. */
SONDE_MUST_USE sonde_err heap_places_init(struct heap_places *places,
                                          const struct mapping_lives *lives,
                                          struct generation *mapped);
/* Whether heap_places_move would leave the stack as it is. */
bool heap_places_fit(const struct heap_places *places, const struct alloc_place *place);
/* Moves pcs, leaf first, and inserts the notes: at most one more pc, for which there is room.
 * Return addresses stay return addresses, and marks (RING_PC_EXACT) stay. */
SONDE_MUST_USE sonde_err heap_places_move(struct heap_places *places,
                                          const struct alloc_place *place, uint64_t *pcs,
                                          uint32_t *depth);
/* Appends these lines of /proc/PID/maps, and then the stand-ins in the same format. */
void heap_places_write(const struct heap_places *places, struct sonde_slice lines,
                       struct sonde_buf *text);
/* For stand-ins that were read from a dump: gives them their origins, as far as `lives` (may be
 * NULL) has the same file. */
void heap_places_adopt(const struct mapping_lives *lives, struct generation *mapped);
/* The note that a mapping stands for; NULL if it is a file's. */
const char *heap_places_note(uint64_t start, const char *path);

#endif
