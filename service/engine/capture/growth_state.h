/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a capture of growth, shared by growth.c and growth_count.c. */
#ifndef SONDE_SERVICE_ENGINE_CAPTURE_GROWTH_STATE_H
#define SONDE_SERVICE_ENGINE_CAPTURE_GROWTH_STATE_H

#include "service/engine/capture/growth.h"
#include "service/host/resident/grown.h"

/* Where a fault happened; grown_sample.tag is its number. */
struct growth_place {
    uint32_t part, stack, thread;
};

/* Equal places and kinds together. */
struct growth_row {
    struct growth_place place;
    enum resident_kind kind;
    uint64_t bytes, samples;
};

enum growth_step {
    GROWTH_IDLE = 0,
    GROWTH_FIRST_LOOK,
    GROWTH_READY, /* until the last look */
    GROWTH_LAST_LOOK,
    GROWTH_LOOKED, /* until the last fault */
    GROWTH_DIVIDING,
    GROWTH_DONE,
};

struct growth {
    struct job job; /* of the present step; it retains the capture */
    struct cpu_capture *capture;
    enum growth_step step;
    bool is_ending, is_concluding;
    pid_t pid;
    int pagemap;
    struct resident_set before, now;
    sonde_err err;    /* of a job */
    bool has_ended;   /* the program, before the last look */
    bool lacks_share; /* the looks do not fit into looks_share */

    struct grown_sample *samples;
    struct growth_place *places;
    size_t count, capacity;
    uint32_t halvings;
    double missed;                          /* samples that were taken for each one that was kept */
    struct memory_share share, looks_share; /* of the faults, and of the looks */

    struct growth_row *rows; /* count of them: row_count */
    size_t row_count;
    struct grown grown;
};

/* A worker: divides what has grown and makes the rows. */
SONDE_MUST_USE sonde_err growth_make_rows(struct growth *growth);

#endif
