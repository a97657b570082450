/* SPDX-License-Identifier: Apache-2.0
 *
 * The packed rules of arm64, for rules.c. Signal-safe. */
#ifndef SONDE_SERVICE_MACHINE_AARCH64_PACKED_H
#define SONDE_SERVICE_MACHINE_AARCH64_PACKED_H

#include "service/unwind/table/table.h"

#include <stdbool.h>

uint64_t aarch64_hot(const struct unwind_rule *rule);
bool aarch64_rule_is_sane(const struct unwind_rule *rule);

#endif
