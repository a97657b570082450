/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/host/stream/stream.h"

#include <stdio.h>
#include <string.h>

#define MAX_ANCESTORS 64

static bool is_one(const struct target *target, struct host_process *process) {
    const struct process_identity *one = &target->process;
    if (process->pid != one->pid)
        return false;
    if (target->host->is_over) /* only what was sampled before */
        return process->has_ended || !process->is_listed;
    return !process_read_once(process) || process->identity.start_ticks == one->start_ticks;
}

/* All ids must be the owner's: a set-uid program holds what its other user may see. Of a process
 * that ended before its ids were read, only a stream of all processes may show what is another
 * user's: children inherit the clocks of the others, and the kernel takes these from set-uid
 * programs. */
static bool belongs_to(const struct host_process *process, uid_t owner) {
    const uid_t *uids = process->identity.ids.uids;
    if (process->identity.start_ticks == 0)
        return !process->stream->is_all;
    return !process->is_kernel && uids[0] == owner && uids[1] == owner && uids[2] == owner;
}

/* Follows the parents that the stream knows, and reads those that it does not. */
static bool is_below(pid_t root, struct host_process *process) {
    for (int i = 0; process && i < MAX_ANCESTORS; i++) {
        if (process->pid == root || process->parent == root)
            return true;
        if (process->parent == 0)
            (void)process_read_once(process);
        if (process->parent <= 1)
            return false;
        struct host_process *parent = process_find(&process->stream->processes, process->parent);
        process = parent ? parent : process_add(process->stream, process->parent, 0);
    }
    return false;
}

bool host_has_member(const struct target *target, struct host_process *process) {
    const struct host_target *host = target->host;
    if (host->members == HOST_ONE)
        return is_one(target, process);
    if (host->members == HOST_TREE && !is_below(host->pid, process))
        return false;
    (void)process_read_once(process);
    if (host->has_owner && !belongs_to(process, host->owner))
        return false;
    return host->members != HOST_NAMED || strcmp(process->name, host->name) == 0;
}

void host_process_text(const struct host_target *host, const char *name, pid_t pid, char text[80]) {
    if (host->members == HOST_NAMED)
        snprintf(text, 80, "%.60s (%d)", name, (int)pid);
    else
        snprintf(text, 80, "%s", name);
}
