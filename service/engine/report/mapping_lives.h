/* SPDX-License-Identifier: Apache-2.0
 *
 * Which file was mapped where and when, for as long as heap stacks may refer to it. CPU samples
 * name a generation of the module map and are reported within seconds, so a space keeps the last
 * few generations only (address_space.h). A heap block may live for days after the library that
 * allocated it was closed. So this remembers each mapping of a file with the generations in which
 * it came and went.
 *
 * A stack has a place (struct alloc_place). A settled place names a generation in which all files
 * of the stack were mapped. Otherwise the guest did not know its libraries at the walk. Then only a
 * generation whose maps were read before the next dlclose proves which library a pc was in.
 *
 * A set of lives never changes, so workers read it while the engine thread replaces it by the next
 * one. Anonymous memory, such as that of a JIT, is not remembered. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_MAPPING_LIVES_H
#define SONDE_SERVICE_ENGINE_REPORT_MAPPING_LIVES_H

#include "service/engine/report/address_space.h"
#include "service/guest/heap/alloc_table.h"

#define LIVES_MAX_GONE     256u  /* beyond them, the one that went first is forgotten */
#define LIVES_MAX_READINGS 4096u /* generations whose closes are known */

struct mapping_life {
    struct mapping *mapping; /* retained */
    uint64_t born, gone;     /* mapped from generation `born` up to before `gone`; 0 = still */
};

struct lives_reading {
    uint64_t generation;
    uint32_t closes; /* dlcloses before the maps were read, twice */
};

struct mapping_lives {
    _Atomic uint32_t refs;
    struct mapping_life *present, *gone; /* sorted by start; those present do not overlap */
    uint64_t *reach;                     /* of each one gone: the highest end up to it */
    uint32_t present_count, gone_count;
    struct lives_reading *readings; /* rising; the last is that of the newest generation */
    uint32_t reading_count;
    uint64_t oldest;  /* the lowest `born` of the present ones */
    uint64_t horizon; /* lives that ended before this generation may have been forgotten */
};

/* Replaces *lives (NULL = none yet) by the next set. keeps_gone: remember what is not mapped any
 * more. When out of memory, the old set stays. Engine thread. */
void mapping_lives_update(const struct mapping_lives **lives, const struct generation *generation,
                          uint32_t closes, bool keeps_gone);
/* NULL is allowed, in both. */
const struct mapping_lives *mapping_lives_retain(const struct mapping_lives *lives);
void mapping_lives_release(const struct mapping_lives *lives);

enum lives_answer {
    LIVES_FOUND,
    LIVES_NO_FILE, /* no file was mapped there: code of a JIT, or not code at all */
    LIVES_UNKNOWN, /* a file may have been there, but which one cannot be known */
    LIVES_NEWER    /* the stack is newer than the newest generation */
};
/* What was mapped at pc when the stack was walked. */
enum lives_answer mapping_lives_find(const struct mapping_lives *lives,
                                     const struct alloc_place *place, uint64_t pc,
                                     const struct mapping_life **life);

#endif
