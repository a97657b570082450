/* SPDX-License-Identifier: Apache-2.0
 *
 * What the values of an OTLP profile are in history. Internal to service/rpc/otlp. Thread safety:
 * any thread. */
#ifndef SONDE_SERVICE_RPC_OTLP_EVENT_H
#define SONDE_SERVICE_RPC_OTLP_EVENT_H

#include "service/rpc/otlp/message.h"
#include "service/store/store.h"

struct otlp_event {
    const char *name;   /* of the event in history */
    int64_t scale;      /* nanoseconds or bytes per unit of a value */
    int64_t per_event;  /* the same for an event without a value: the period; 0 = unknown */
    uint64_t period_ns; /* 0 = does not apply */
    bool is_count;      /* values count events */
};

/* SONDE_INVALID_ARGUMENT if history has no place for such values; diag says what it has. */
SONDE_MUST_USE sonde_err otlp_event_of(const otlp_dictionary *dictionary,
                                       const otlp_profile *profile, struct sonde_arena *arena,
                                       struct otlp_event *event, struct sonde_diag *diag);
/* The value of a sample in nanoseconds or bytes, and how many events it stands for. Values that do
 * not fit are the largest that does; negative ones are 0. */
int64_t otlp_event_value(const struct otlp_event *event, const otlp_sample *sample,
                         uint64_t *events);

#endif
