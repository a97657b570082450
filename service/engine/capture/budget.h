/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast a target's clock may tick below the captures' max_overhead. Thread safety: engine thread
 * only. */
#ifndef SONDE_SERVICE_ENGINE_CAPTURE_BUDGET_H
#define SONDE_SERVICE_ENGINE_CAPTURE_BUDGET_H

#include "service/engine/core/target.h"

#include <stddef.h>

/* Updates the ceiling from the captures. Under a new ceiling, the cost of a sample is first
 * estimated. */
void budget_adjust(struct target *target);
/* The target's CPU time was read: measures the cost of a sample. True when the rate must change. */
bool budget_on_account(struct target *target);
/* Writes a note for a report about the effect of the ceiling; the second one of counted events. */
void budget_describe(const struct cpu_capture *capture, double mean_hz, char *text, size_t size);
void budget_describe_counted(const struct cpu_capture *capture, char *text, size_t size);

#endif
