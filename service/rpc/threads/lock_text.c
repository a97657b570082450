/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/threads/lock_text.h"

#include "api/draw/names/view_names.h"
#include "api/text/utf8.h"

#include <string.h>

#define NAMED        16u  /* threads of a deadlock */
#define NAME_COLUMNS 100u /* of a function or variable */

/* Text from the process. */
static void put(struct sonde_buf *out, const char *text) {
    sonde_utf8_escape(out, text, strlen(text));
}

static bool shorten(const char **names, size_t count, struct sonde_arena *arena) {
    return draw_row_names(names, count, NAME_COLUMNS, arena, names) == SONDE_OK;
}

bool rpc_lock_names_init(struct rpc_lock_names *names, const struct engine_backtraces *from,
                         struct sonde_arena *arena) {
    size_t count = from->thread_count, bytes = (count + 1) * sizeof *names->variables;
    names->variables = sonde_arena_alloc(arena, bytes);
    names->functions = sonde_arena_alloc(arena, bytes);
    if (!names->variables || !names->functions)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct engine_lock_wait *wait = from->threads[i].lock_wait;
        names->variables[i] = wait ? wait->name : "";
        names->functions[i] = wait ? wait->function : "";
    }
    return shorten(names->variables, count, arena) && shorten(names->functions, count, arena);
}

/* "mutex shop::orders (0x55d0c1a04080)", or "mutex 0x55d0c1a04080 locked in shop::take" */
static void put_lock(const struct engine_backtraces *from, uint32_t thread,
                     const struct rpc_lock_names *names, struct sonde_buf *out) {
    const struct engine_lock_wait *wait = from->threads[thread].lock_wait;
    unsigned long long address = wait->address;
    const char *variable = names->variables[thread], *function = names->functions[thread];
    sonde_buf_printf(out, "%s ", sonde_wait_kind_name(wait->kind));
    put(out, variable);
    if (variable[0] && wait->name_offset)
        sonde_buf_printf(out, "+0x%llx", (unsigned long long)wait->name_offset);
    sonde_buf_printf(out, variable[0] ? " (0x%llx)" : "0x%llx", address);
    if (variable[0] || !function[0])
        return;
    sonde_buf_puts(out, " locked in ");
    put(out, function);
}

static void put_thread(pid_t tid, const char *name, struct sonde_buf *out) {
    sonde_buf_printf(out, "%d", (int)tid);
    if (name[0])
        sonde_buf_putc(out, ' ');
    put(out, name);
}

void rpc_lock_wait_text(const struct engine_backtraces *from, uint32_t thread,
                        const struct rpc_lock_names *names, struct sonde_buf *out) {
    const struct engine_lock_wait *wait = from->threads[thread].lock_wait;
    if (!wait || !sonde_wait_is_contention(wait->kind))
        return;
    sonde_buf_puts(out, "waits for ");
    put_lock(from, thread, names, out);
    if (wait->owner == from->threads[thread].tid) {
        sonde_buf_puts(out, ", which it holds itself");
    } else if (wait->owner) {
        sonde_buf_puts(out, ", held by ");
        put_thread(wait->owner, wait->owner_name, out);
        sonde_buf_puts(out, wait->is_owner_elsewhere ? " of another process" : "");
    } else if (wait->readers) {
        sonde_buf_printf(out, ", held by %u reader%s", wait->readers,
                         wait->readers == 1 ? "" : "s");
    }
}

static void put_circle(const struct engine_backtraces *from, const struct engine_deadlock *deadlock,
                       const struct rpc_lock_names *names, struct sonde_buf *out) {
    const struct engine_thread *first = &from->threads[deadlock->threads[0]];
    uint32_t named = deadlock->count < NAMED ? deadlock->count : NAMED;
    for (uint32_t i = 0; i < named; i++) {
        const struct engine_thread *thread = &from->threads[deadlock->threads[i]];
        put_thread(thread->tid, thread->name, out);
        sonde_buf_puts(out, " → ");
    }
    if (named < deadlock->count)
        sonde_buf_printf(out, "%u more threads → ", deadlock->count - named);
    put_thread(first->tid, first->name, out);
    for (uint32_t i = 0; i < named; i++) {
        const struct engine_thread *thread = &from->threads[deadlock->threads[i]];
        sonde_buf_printf(out, "%s %d %s", i ? "," : ";", (int)thread->tid,
                         i ? "for " : "waits for ");
        put_lock(from, deadlock->threads[i], names, out);
    }
}

void rpc_deadlock_text(const struct engine_backtraces *from, const struct engine_deadlock *deadlock,
                       const struct rpc_lock_names *names, struct sonde_buf *out) {
    const struct engine_thread *first = &from->threads[deadlock->threads[0]];
    sonde_buf_puts(out, "deadlock: ");
    if (deadlock->count > 1) {
        put_circle(from, deadlock, names, out);
        return;
    }
    put_thread(first->tid, first->name, out);
    sonde_buf_puts(out, " waits for a lock that it holds: ");
    put_lock(from, deadlock->threads[0], names, out);
}

uint32_t rpc_deadlock_lines(const struct engine_backtraces *from) {
    bool is_cut = from->deadlock_count > RPC_MAX_DEADLOCKS;
    return is_cut ? RPC_MAX_DEADLOCKS + 1 : from->deadlock_count;
}

void rpc_deadlock_line(const struct engine_backtraces *from, uint32_t line,
                       const struct rpc_lock_names *names, struct sonde_buf *out) {
    uint32_t others = from->deadlock_count - line;
    if (line < RPC_MAX_DEADLOCKS)
        rpc_deadlock_text(from, &from->deadlocks[line], names, out);
    else
        sonde_buf_printf(out, "%u more deadlock%s", others, others == 1 ? "" : "s");
}
