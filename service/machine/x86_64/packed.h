/* SPDX-License-Identifier: Apache-2.0
 *
 * The packed rules of x86-64, for rules.c. Signal-safe. */
#ifndef SONDE_SERVICE_MACHINE_X86_64_PACKED_H
#define SONDE_SERVICE_MACHINE_X86_64_PACKED_H

#include "service/unwind/table/table.h"

#include <stdbool.h>

uint64_t x86_64_hot(const struct unwind_rule *rule);
bool x86_64_rule_is_sane(const struct unwind_rule *rule);

#endif
