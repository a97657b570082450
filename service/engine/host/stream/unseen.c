/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the right to sample the kernel, a clock's tick in the kernel gives no sample, and a
 * thread that ends within its first period gives none either. That time is the CPU time that the
 * kernel accounts to the processes, minus what their samples stand for. It is counted as a note, so
 * that the sum of a profile is the CPU clock's.
 *
 * A running thread is always up to one period ahead of its last sample, and records arrive late. So
 * while the clock runs only what exceeds that is counted, once per second, and the rest when a
 * capture begins or ends. */
#include "service/engine/host/stream/stream.h"

#include "service/host/processes/process_text.h"

#include "service/engine/capture/samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SETTLE_NS 1000000000ull

/* What /proc/PID/stat says about time in the kernel, with all threads that have ended; 0 = it is
 * gone. */
static uint64_t kernel_ns(pid_t pid) {
    char path[64], text[1024] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t len = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[len] = 0;
    const char *at = strrchr(text, ')'); /* the name before it can contain any character */
    for (int field = 2; at && field < 15; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) * (1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK)) : 0;
}

static struct count_key note_key(void *context, struct target *target) {
    const enum stack_note *note = context;
    return (struct count_key){.stack = stacks_add_note(target->stacks, 0, *note),
                              .thread = stacks_add_thread(target->stacks, 0, 0, "")};
}

static void add_note(struct target *target, enum stack_note note, uint64_t ns) {
    uint64_t now_ns = now_monotonic_ns();
    struct spent spent = {.amount = ns, .at_ns = now_ns, .key = note_key, .context = &note};
    if (ns > 0)
        samples_add(target, &spent);
}

/* Threads that have ended without a sample: what the kernel's own account does not explain is
 * theirs. */
static void divide(struct target *target, struct unseen *unseen, uint64_t ns) {
    uint64_t most_ns = ns;
    if (unseen->short_threads > 0) {
        uint64_t now_ns = kernel_ns(target->host->pid);
        uint64_t used_ns = now_ns > unseen->kernel_base_ns ? now_ns - unseen->kernel_base_ns : 0;
        most_ns = used_ns > unseen->kernel_ns ? used_ns - unseen->kernel_ns : 0;
    }
    uint64_t in_kernel_ns = ns < most_ns ? ns : most_ns;
    add_note(target, STACK_NOTE_KERNEL, in_kernel_ns);
    add_note(target, STACK_NOTE_SHORT, ns - in_kernel_ns);
    unseen->kernel_ns += in_kernel_ns;
    unseen->short_threads = 0;
}

/* The sum for one process, or for a tree; for other groups it is not known. */
static bool is_known(const struct host_stream *stream) {
    const struct target *target = stream->targets;
    return !stream->is_all && !counted_is_on(stream) && target &&
           target->host->members == HOST_ONE && !target->host->is_over;
}

void unseen_begin(struct host_stream *stream) {
    struct unseen *unseen = &stream->unseen;
    *unseen = (struct unseen){.settled_ns = now_monotonic_ns()};
    if (!is_known(stream))
        return;
    unseen->has_base = true;
    unseen->base_ns = process_cpu_ns(stream->targets->host->pid);
    unseen->kernel_base_ns = kernel_ns(stream->targets->host->pid);
}

void unseen_settle(struct host_stream *stream, bool is_last) {
    struct unseen *unseen = &stream->unseen;
    uint64_t now_ns = now_monotonic_ns();
    if (!is_known(stream) || !unseen->has_base ||
        (!is_last && now_ns - unseen->settled_ns < SETTLE_NS))
        return;
    unseen->settled_ns = now_ns;
    uint64_t cpu_ns = process_cpu_ns(stream->targets->host->pid);
    uint64_t used_ns = cpu_ns > unseen->base_ns ? cpu_ns - unseen->base_ns : 0;
    uint64_t counted_ns = unseen->sampled_ns + unseen->counted_ns;
    uint64_t ahead_ns = stream->period_ns;
    if (!is_last)
        ahead_ns = (stream->period_ns + 2 * HOST_LATE_NS) * (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    if (used_ns <= counted_ns + ahead_ns)
        return;
    uint64_t ns = used_ns - counted_ns - ahead_ns;
    unseen->counted_ns += ns;
    divide(stream->targets, unseen, ns);
}
