/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of everything that could be profiled: the attached targets, completed with what /proc
 * says about their processes, and all other processes. */
#include "service/engine/host/host.h"
#include "service/engine/host/process_info.h"
#include "service/engine/targets/find_target.h"

#include <stdlib.h>
#include <string.h>

static void describe(struct engine *engine, const struct process_entry *entry,
                     struct engine_target *target) {
    process_info_fill(entry, target);
    host_explain(engine, entry, target->unavailable);
}

static void complete(const struct process_entry *entry, struct engine_target *target) {
    memcpy(target->container, entry->container, sizeof target->container);
    target->cpu_ns = entry->cpu_ns;
}

static int by_pid(const void *a, const void *b) {
    const struct engine_target *left = a, *right = b;
    return (left->pid > right->pid) - (left->pid < right->pid);
}

static int by_cpu_time(const void *a, const void *b) {
    const struct engine_target *left = a, *right = b;
    if (left->cpu_ns != right->cpu_ns)
        return left->cpu_ns < right->cpu_ns ? 1 : -1;
    return by_pid(a, b);
}

/* Adds the processes to the attached targets, which come first, sorted by pid. */
static size_t merge(struct engine *engine, const struct process_entry *entries, size_t entry_count,
                    struct engine_target *list, size_t attached) {
    size_t count = attached;
    for (size_t i = 0; i < entry_count; i++) {
        const struct engine_target key = {.pid = entries[i].pid};
        struct engine_target *target = bsearch(&key, list, attached, sizeof *list, by_pid);
        if (entries[i].is_kernel)
            continue;
        if (!target) {
            target = &list[count++];
            describe(engine, &entries[i], target);
        }
        complete(&entries[i], target);
    }
    return count;
}

struct engine_target *engine_processes(struct engine *engine, size_t *count) {
    size_t attached, entry_count;
    struct engine_target *targets = engine_targets(engine, &attached);
    struct process_entry *entries = process_list(&entry_count);
    struct engine_target *list = calloc(attached + entry_count + 1, sizeof *list);
    *count = 0;
    if (list && targets)
        memcpy(list, targets, attached * sizeof *list);
    if (list) {
        qsort(list, attached, sizeof *list, by_pid);
        *count = merge(engine, entries, entry_count, list, attached);
        add_captures_from_outside(engine, list + attached, *count - attached);
        qsort(list, *count, sizeof *list, by_cpu_time);
    }
    free(entries);
    free(targets);
    return list;
}
