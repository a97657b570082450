/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `sonde heap`: what was asked for, fetching a profile, and telling a state. Main
 * thread only. */
#ifndef SONDE_CLIENTS_CLI_HEAP_H
#define SONDE_CLIENTS_CLI_HEAP_H

#include "clients/cli/cli.h"
#include "clients/cli/service.h"

struct heap_settings {
    struct service_settings service;
    uint64_t interval, sample; /* 0 = not said */
    const char *output, *format, *name, *type;
    bool delete_dumps, all_one, json;
};

/* HeapSnapshot, or GetHeapDump when there is a name, into a file. Returns the exit code. */
int heap_dump(const char *target, const struct heap_settings *settings);

/* Whether it is on, and if not, what to do. */
void heap_tell_state(const Sonde__V1__HeapState *state);
void heap_tell_dumps(const Sonde__V1__ListHeapDumpsResponse *list);

#endif
