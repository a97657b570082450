/* SPDX-License-Identifier: Apache-2.0
 *
 * How the rules of an unwind table are packed for each machine. The guest links it: libc only.
 * Signal-safe. */
#ifndef SONDE_SERVICE_MACHINE_RULES_H
#define SONDE_SERVICE_MACHINE_RULES_H

#include "service/unwind/table/table.h"

#include <stdbool.h>

struct machine_rules {
    /* Packs the part of a rule that nearly every frame needs. */
    uint64_t (*hot)(const struct unwind_rule *rule);
    /* Whether all members are in their bounds. */
    bool (*is_sane)(const struct unwind_rule *rule);
};

/* machine: EM_*. NULL if Sonde has no tables for it. */
const struct machine_rules *machine_rules_of(uint32_t machine);

#endif
