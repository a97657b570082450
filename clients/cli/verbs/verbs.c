/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/verbs.h"

#include "clients/cli/verbs/heap/heap.h"

static const struct verb *const table[] = {
    &verb_run,      &verb_record,  &verb_top,    &verb_draw,        &verb_diff,    &verb_gate,
    &verb_live,     &verb_heap,    &verb_growth, &verb_leaks,       &verb_threads, &verb_locks,
    &verb_captures, &verb_history, &verb_fleet,  &verb_annotate,    &verb_symbol,  &verb_targets,
    &verb_events,   &verb_doctor,  &verb_mcp,    &verb_completions,
};

const struct verb *const *verbs_table(size_t *count) {
    *count = COUNT_OF(table);
    return table;
}
