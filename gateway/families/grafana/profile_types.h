/* SPDX-License-Identifier: Apache-2.0
 *
 * Sonde's events as Pyroscope's types of profiles. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_FAMILIES_GRAFANA_PROFILE_TYPES_H
#define SONDE_GATEWAY_FAMILIES_GRAFANA_PROFILE_TYPES_H

#include "api/bytes.h"

#define PROFILE_TYPE_COUNT 4
#define PROFILE_TYPE_NONE  "none" /* an event that no window has */

struct profile_type {
    const char *event;
    const char *id; /* the other five, joined by ':' */
    const char *name, *sample_type, *sample_unit, *period_type, *period_unit;
};

extern const struct profile_type profile_types[PROFILE_TYPE_COUNT];
/* NULL if there is none. */
const struct profile_type *profile_type_of_event(const char *event);
const struct profile_type *profile_type_find(struct sonde_slice id);
/* The event of an id, PROFILE_TYPE_NONE if it is unknown. */
const char *profile_type_event(struct sonde_slice id);

#endif
