/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde heap`: its settings, the actions that have a file of their own, and printing; and
 * `sonde growth`. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_HEAP_HEAP_H
#define SONDE_CLIENTS_CLI_VERBS_HEAP_HEAP_H

#include "api/draw/draw.h"
#include "clients/cli/cli.h"
#include "clients/cli/service.h"

extern const struct verb verb_heap, verb_growth;

struct heap_settings {
    struct service_settings service;
    uint64_t keep, sample; /* 0 = not given, as in the next line */
    double interval, seconds, probability, older_than_s;
    const char *output, *format, *name, *type, *backend;
    bool delete_dumps, all_one, growth_only, ended, allocator_frames, json;
};

/* Prints the help of an action, if the arguments ask for it. */
bool heap_help(int argc, char **argv, const struct sonde_options *options);

/* service_open. If no service runs, the error names what an unprepared process has instead. */
SONDE_MUST_USE sonde_err heap_open(struct service *service, const struct heap_settings *settings,
                                   struct sonde_diag *diag);

/* Selects TARGET, which may also be a uuid with --ended. */
void heap_select(const struct heap_settings *settings, const char *target,
                 Sonde__V1__TargetSelector *selector);

/* Runs an action with the arguments after its name; words[count] is NULL. Returns the exit status.
 */
typedef int heap_action(const char *const *words, int count, const struct heap_settings *settings);

/* Writes the live heap to a file, or with --name a saved dump. */
heap_action heap_dump;
/* Shows the difference between two profiles. */
heap_action heap_diff;
/* Records the allocations of a period. */
heap_action heap_allocs;

/* The two sides of heap_diff. */
struct heap_diff {
    const char *base; /* NULL: the heap --duration seconds ago */
    const char *now, *target;
};

/* Prints whether heap profiling is on, and how to switch it on if not. */
void heap_print_state(const Sonde__V1__HeapState *state);
void heap_print_dumps(const Sonde__V1__ListHeapDumpsResponse *list);
/* The same for dumps of processes that have exited. */
void heap_print_ended(const Sonde__V1__ListHeapDumpsResponse *list);

#endif
