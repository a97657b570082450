/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of `sonde`: one file each, or a folder. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_VERBS_H
#define SONDE_CLIENTS_CLI_VERBS_VERBS_H

#include "clients/cli/cli.h"

extern const struct verb verb_run, verb_record, verb_top, verb_draw, verb_diff, verb_live,
    verb_threads, verb_captures, verb_history, verb_symbol, verb_targets, verb_events, verb_doctor,
    verb_fleet, verb_gate, verb_annotate, verb_leaks, verb_locks, verb_mcp, verb_completions;

/* The verbs in the order of --help. */
const struct verb *const *verbs_table(size_t *count);

#endif
