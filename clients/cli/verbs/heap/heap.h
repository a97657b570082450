/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `sonde heap`: what was asked for, fetching a profile, and telling a state. Main
 * thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_HEAP_HEAP_H
#define SONDE_CLIENTS_CLI_VERBS_HEAP_HEAP_H

#include "api/draw/draw.h"
#include "clients/cli/cli.h"
#include "clients/cli/service.h"

extern const struct verb verb_heap;

struct heap_settings {
    struct service_settings service;
    uint64_t interval, sample; /* 0 = not said, as the next three */
    double seconds, probability, older_than_s;
    const char *output, *format, *name, *type, *backend;
    bool delete_dumps, all_one, growth_only, ended, json;
};

/* TARGET; of a process that has ended its uuid as well. */
void heap_select(const struct heap_settings *settings, const char *target,
                 Sonde__V1__TargetSelector *selector);

/* What an action does with the words behind it, words[count] being NULL. Returns the exit code. */
typedef int heap_action(const char *const *words, int count, const struct heap_settings *settings);

/* HeapSnapshot, or GetHeapDump when there is a name, into a file. */
heap_action heap_dump;
/* The difference of two. */
heap_action heap_diff;
/* A window of allocations. */
heap_action heap_allocs;

/* What heap_diff compares. */
struct heap_diff {
    const char *base; /* NULL: the heap so long before */
    const char *now, *target;
};

/* Whether it is on, and if not, what to do. */
void heap_print_state(const Sonde__V1__HeapState *state);
void heap_print_dumps(const Sonde__V1__ListHeapDumpsResponse *list);
/* Those of processes that have ended. */
void heap_print_ended(const Sonde__V1__ListHeapDumpsResponse *list);

#endif
