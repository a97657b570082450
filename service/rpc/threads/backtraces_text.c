/* SPDX-License-Identifier: Apache-2.0
 *
 *     redis-server (pid 4711): 5 threads with 3 different stacks at 2026-11-21T10:00:00.123Z
 *     deadlock: 4711 worker-1 → 4712 worker-2 → 4711 worker-1; 4711 waits for mutex ...
 *     longest stop 0.031 ms, all stops together 0.052 ms
 *
 *     3 threads
 *       4713 bio_close_file  S futex_wait_queue  CPU 0.02 s
 *         waits for mutex 0x55d0c1a04080 locked in bio_take_job, held by 4711 redis-server
 *       ...
 *         0 __futex_abstimed_wait_common64  libc.so.6
 *         1 bioProcessBackgroundJobs  bio.c:182  redis-server */
#include "service/rpc/threads/backtraces_text.h"

#include "api/draw/names/view_names.h"
#include "api/text/utf8.h"
#include "service/rpc/threads/lock_text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAMED 100 /* threads of one stack that are listed one by one */

static int by_threads(const void *a, const void *b) {
    const struct engine_thread_stack *left = *(const struct engine_thread_stack *const *)a;
    const struct engine_thread_stack *right = *(const struct engine_thread_stack *const *)b;
    if (left->threads != right->threads)
        return left->threads < right->threads ? 1 : -1;
    return (left > right) - (left < right);
}

/* Text from the process; invalid UTF-8 and control characters are written as \xNN. */
static void put(struct sonde_buf *out, const char *text) {
    sonde_utf8_escape(out, text, strlen(text));
}

static void put_head(const struct engine_backtraces *from, const struct rpc_lock_names *locks,
                     struct sonde_buf *out) {
    char when[32] = "";
    time_t seconds = (time_t)(from->unix_ns / 1000000000);
    struct tm utc;
    if (gmtime_r(&seconds, &utc))
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
    put(out, from->target_name);
    sonde_buf_printf(out, " (pid %d): %u thread%s with %u different stack%s at %s.%03dZ\n",
                     (int)from->pid, from->thread_count, from->thread_count == 1 ? "" : "s",
                     from->stack_count, from->stack_count == 1 ? "" : "s", when,
                     (int)(from->unix_ns / 1000000 % 1000));
    for (uint32_t i = 0; i < rpc_deadlock_lines(from); i++) {
        rpc_deadlock_line(from, i, locks, out);
        sonde_buf_putc(out, '\n');
    }
    if (from->total_stop_ns)
        sonde_buf_printf(out, "longest stop %.3f ms, all stops together %.3f ms\n",
                         (double)from->longest_stop_ns / 1e6, (double)from->total_stop_ns / 1e6);
    if (from->note[0]) {
        put(out, from->note);
        sonde_buf_putc(out, '\n');
    }
}

static void put_thread(const struct engine_backtraces *from, uint32_t number,
                       const struct rpc_lock_names *locks, struct sonde_buf *out) {
    const struct engine_thread *thread = &from->threads[number];
    struct sonde_buf wait = {0};
    sonde_buf_printf(out, "  %d ", (int)thread->tid);
    put(out, thread->name[0] ? thread->name : "-");
    sonde_buf_printf(out, "  %c", thread->state ? thread->state : '?');
    if (thread->wait_channel[0]) {
        sonde_buf_putc(out, ' ');
        put(out, thread->wait_channel);
    }
    sonde_buf_printf(out, "  CPU %.2f s", (double)thread->cpu_ns / 1e9);
    if (thread->error[0]) {
        sonde_buf_puts(out, "  (");
        put(out, thread->error);
        sonde_buf_putc(out, ')');
    }
    sonde_buf_putc(out, '\n');
    rpc_lock_wait_text(from, number, locks, &wait);
    if (wait.len)
        sonde_buf_printf(out, "    %s\n", wait.data);
    out->failed |= wait.failed;
    sonde_buf_finish(&wait);
}

static void put_frame(const struct engine_thread_frame *frame, const char *name, uint32_t number,
                      struct sonde_buf *out) {
    const char *slash = strrchr(frame->file, '/');
    sonde_buf_printf(out, "    %3u ", number);
    if (name[0])
        put(out, name);
    else
        sonde_buf_printf(out, "0x%llx", (unsigned long long)frame->address);
    if (frame->file[0]) {
        sonde_buf_puts(out, "  ");
        put(out, slash ? slash + 1 : frame->file);
        sonde_buf_printf(out, ":%u", frame->line);
    }
    if (frame->is_inlined) {
        sonde_buf_puts(out, "  (inlined)");
    } else if (frame->module[0]) {
        sonde_buf_puts(out, "  ");
        put(out, frame->module);
    }
    sonde_buf_putc(out, '\n');
}

/* What the text is made of, by stack. */
struct parts {
    uint32_t *first, *next; /* see link_threads */
    const struct engine_thread_stack **order;
    const char ***names; /* of the stack's frames */
    struct rpc_lock_names locks;
};

/* Writes the threads of one stack, from parts->first[stack] on (0 = threads without a stack). */
static void put_threads(const struct engine_backtraces *from, const struct parts *parts,
                        uint32_t stack, uint32_t count, struct sonde_buf *out) {
    uint32_t shown = 0;
    sonde_buf_printf(out, "\n%u thread%s\n", count, count == 1 ? "" : "s");
    for (uint32_t at = parts->first[stack]; at && shown < NAMED; at = parts->next[at - 1], shown++)
        put_thread(from, at - 1, &parts->locks, out);
    if (count > shown)
        sonde_buf_printf(out, "  and %u more\n", count - shown);
}

static void put_stack(const struct engine_thread_stack *stack, const char *const *names,
                      struct sonde_buf *out) {
    for (uint32_t i = 0; i < stack->count; i++)
        put_frame(&stack->frames[i], names[i], i, out);
}

/* The names of all frames, stack by stack; NULL if out of memory. */
static const char **name_frames(const struct engine_backtraces *from, bool are_readable,
                                struct sonde_arena *arena) {
    size_t count = 0;
    for (uint32_t i = 0; i < from->stack_count; i++)
        count += from->stacks[i].count;
    const char **names = sonde_arena_alloc(arena, (count + 1) * sizeof *names);
    if (!names)
        return NULL;
    count = 0;
    for (uint32_t i = 0; i < from->stack_count; i++)
        for (uint32_t j = 0; j < from->stacks[i].count; j++)
            names[count++] = from->stacks[i].frames[j].name;
    bool is_done = !are_readable || draw_view_names(names, count, arena, names) == SONDE_OK;
    return is_done ? names : NULL;
}

/* Links the threads of each stack in order; first[s] and next[i] count from 1. */
static uint32_t link_threads(const struct engine_backtraces *from, uint32_t *first,
                             uint32_t *next) {
    uint32_t without = 0;
    for (uint32_t i = from->thread_count; i-- > 0;) {
        uint32_t stack = from->threads[i].stack;
        next[i] = first[stack];
        first[stack] = i + 1;
        without += stack == 0;
    }
    return without;
}

static bool make_parts(const struct engine_backtraces *from, bool readable_names,
                       struct sonde_arena *arena, struct parts *parts) {
    uint32_t stacks = from->stack_count + 1;
    parts->first = sonde_arena_alloc(arena, stacks * sizeof *parts->first);
    parts->next = sonde_arena_alloc(arena, (from->thread_count + 1) * sizeof *parts->next);
    parts->order = sonde_arena_alloc(arena, stacks * sizeof *parts->order);
    parts->names = sonde_arena_alloc(arena, stacks * sizeof *parts->names);
    const char **names = name_frames(from, readable_names, arena);
    if (!parts->first || !parts->next || !parts->order || !parts->names || !names ||
        !rpc_lock_names_init(&parts->locks, from, arena))
        return false;
    for (uint32_t i = 0; i < from->stack_count; i++) {
        parts->order[i] = &from->stacks[i];
        parts->names[i] = names;
        names += from->stacks[i].count;
    }
    qsort(parts->order, from->stack_count, sizeof *parts->order, by_threads);
    return true;
}

void rpc_backtraces_text(const struct engine_backtraces *from, bool readable_names,
                         struct sonde_buf *out) {
    struct sonde_arena arena = {0};
    struct parts parts;
    if (!make_parts(from, readable_names, &arena, &parts)) {
        sonde_arena_finish(&arena);
        out->failed = true;
        return;
    }
    uint32_t without = link_threads(from, parts.first, parts.next);
    put_head(from, &parts.locks, out);
    for (uint32_t i = 0; i < from->stack_count; i++) {
        uint32_t stack = (uint32_t)(parts.order[i] - from->stacks);
        put_threads(from, &parts, stack + 1, parts.order[i]->threads, out);
        put_stack(parts.order[i], parts.names[stack], out);
    }
    if (without)
        put_threads(from, &parts, 0, without, out);
    sonde_arena_finish(&arena);
}
