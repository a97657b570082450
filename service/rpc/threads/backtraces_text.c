/* SPDX-License-Identifier: Apache-2.0
 *
 *     redis-server (pid 4711): 5 threads with 3 different stacks at 2026-11-21T10:00:00.123Z
 *     longest stop 0.031 ms, all stops together 0.052 ms
 *
 *     3 threads
 *       4713 bio_close_file  S futex_wait_queue  CPU 0.02 s
 *       ...
 *         0 __futex_abstimed_wait_common64  libc.so.6
 *         1 bioProcessBackgroundJobs  bio.c:182  redis-server */
#include "service/rpc/threads/backtraces_text.h"

#include "api/text/utf8.h"

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

static void put_head(const struct engine_backtraces *from, struct sonde_buf *out) {
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
    if (from->total_stop_ns)
        sonde_buf_printf(out, "longest stop %.3f ms, all stops together %.3f ms\n",
                         (double)from->longest_stop_ns / 1e6, (double)from->total_stop_ns / 1e6);
    if (from->note[0]) {
        put(out, from->note);
        sonde_buf_putc(out, '\n');
    }
}

static void put_thread(const struct engine_thread *thread, struct sonde_buf *out) {
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
}

static void put_frame(const struct engine_thread_frame *frame, uint32_t number,
                      struct sonde_buf *out) {
    const char *slash = strrchr(frame->file, '/');
    sonde_buf_printf(out, "    %3u ", number);
    if (frame->name[0])
        put(out, frame->name);
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

/* Writes the threads of one stack (0 = threads without a stack); next[i] follows thread i. */
static void put_threads(const struct engine_backtraces *from, uint32_t first, const uint32_t *next,
                        uint32_t count, struct sonde_buf *out) {
    uint32_t told = 0;
    sonde_buf_printf(out, "\n%u thread%s\n", count, count == 1 ? "" : "s");
    for (uint32_t at = first; at && told < NAMED; at = next[at - 1], told++)
        put_thread(&from->threads[at - 1], out);
    if (count > told)
        sonde_buf_printf(out, "  and %u more\n", count - told);
}

static void put_stack(const struct engine_thread_stack *stack, struct sonde_buf *out) {
    for (uint32_t i = 0; i < stack->count; i++)
        put_frame(&stack->frames[i], i, out);
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

void rpc_backtraces_text(const struct engine_backtraces *from, struct sonde_buf *out) {
    uint32_t *first = calloc(from->stack_count + 1, sizeof *first);
    uint32_t *next = calloc(from->thread_count + 1, sizeof *next);
    const struct engine_thread_stack **order = calloc(from->stack_count + 1, sizeof *order);
    if (!first || !next || !order) {
        out->failed = true;
        goto out;
    }
    uint32_t without = link_threads(from, first, next);
    for (uint32_t i = 0; i < from->stack_count; i++)
        order[i] = &from->stacks[i];
    qsort(order, from->stack_count, sizeof *order, by_threads);
    put_head(from, out);
    for (uint32_t i = 0; i < from->stack_count; i++) {
        put_threads(from, first[order[i] - from->stacks + 1], next, order[i]->threads, out);
        put_stack(order[i], out);
    }
    if (without)
        put_threads(from, first[0], next, without, out);
out:
    free(first);
    free(next);
    free(order);
}
