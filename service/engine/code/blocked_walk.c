/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/code/blocked_walk.h"

static void walk_snapshot(struct process_code *code, const struct tracee_snapshot *snapshot,
                          struct unwind_remote_walk *walk) {
    struct unwind_remote remote = process_code_remote(code);
    struct unwind_registers registers = {.known = 1ull << UNWIND_REG_SP | 1ull << UNWIND_REG_PC};
    registers.value[UNWIND_REG_SP] = snapshot->sp;
    registers.value[UNWIND_REG_PC] = snapshot->pc;
    process_code_live(code, snapshot->sp);
    unwind_remote_walk(&remote, &registers, walk);
}

enum blocked_outcome blocked_walk(struct process_code *code, const struct blocked_thread *thread,
                                  const struct tracee_snapshot *before,
                                  struct unwind_remote_walk *walk) {
    struct unwind_remote remote = process_code_remote(code);
    struct tracee_snapshot after;
    walk_snapshot(code, before, walk);
    bool wants = walk->end == UNWIND_REMOTE_REGISTER;
    bool stops = wants && thread->may_stop && tracee_may_stop(thread->process, before);
    if (wants && !stops)
        (void)unwind_remote_search(&remote, walk);
    if (tracee_take_snapshot(thread->task_dir, thread->tid, &after) != TRACEE_BLOCKED ||
        !tracee_did_not_run(before, &after))
        return BLOCKED_MOVED;
    return stops ? BLOCKED_WANTS_STOP : BLOCKED_WALKED;
}
