/* SPDX-License-Identifier: Apache-2.0
 *
 * A process of the machine as the engine's callers see it. Any thread. */
#ifndef SONDE_SERVICE_ENGINE_HOST_PROCESS_INFO_H
#define SONDE_SERVICE_ENGINE_HOST_PROCESS_INFO_H

#include "service/engine/engine.h"
#include "service/host/processes/process_list.h"

/* Everything but `unavailable`. */
void process_info_fill(const struct process_entry *entry, struct engine_target *info);
/* An id for a process without a guest: the same each time as long as the process has its pid and
 * its user, and another one after a reboot. */
void process_info_uuid(const struct process_entry *entry, char uuid[33]);
/* The same for a text; of several processes. */
void process_info_text_uuid(const char *text, char uuid[33]);

#endif
