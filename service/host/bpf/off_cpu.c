/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader's side: maps what off_cpu_load made and turns slots into records. It makes no bpf()
 * calls that need a right. What the kernel wrote is trusted, a slot's registers and stack are not,
 * and nothing here looks into them. */
#include "service/host/bpf/off_cpu.h"

#include "api/base/clock.h"
#include "service/host/bpf/off_cpu_shared.h"
#include "service/host/refusal.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RING_BYTES (1u << 23)

/* The wait that a flush has reported in part. */
struct flushed {
    uint64_t start_ns, until_ns;
};

struct off_cpu {
    int fds[OFF_CPU_FDS];
    struct off_cpu_control *control;
    const uint8_t *slots;
    size_t slots_bytes, slot_bytes;
    uint32_t slot_count, stack_bytes, max_per_second, cpu_count;
    struct ring_buffer *ring;
    struct flushed *flushed;                      /* by slot */
    struct off_cpu_slot *copy;                    /* of one slot */
    uint64_t period_ns;                           /* that was asked for */
    uint64_t lost, rate_ns, rate_sent, rate_lost; /* delivered as HOST_LOST; at the last adjust */
    host_on_record *on_record;                    /* during a drain */
    void *context;
    bool (*is_over)(void *context);
    bool has_stopped;
    uint32_t drained;
};

/* --- Opening ----------------------------------------------------------------------------------*/

static sonde_err refuse(const struct off_cpu_options *options, int error, struct sonde_diag *diag) {
    char text[REFUSAL_BYTES];
    bool is_final;
    if (error == EMFILE || error == ENOMEM)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "cannot load the BPF program: %s",
                          strerror(error));
    refusal_of_bpf(error, options->capabilities, &is_final, text);
    return sonde_fail(diag, SONDE_NOT_AVAILABLE, is_final ? "BPF %s" : "BPF: %s", text);
}

/* The inode of the first pid namespace, which the kernel fixes. */
#define FIRST_PID_NAMESPACE 0xEFFFFFFCu

static void set_namespace(struct off_cpu_spec *spec) {
    struct stat info;
    if (stat("/proc/self/ns/pid", &info) || info.st_ino == FIRST_PID_NAMESPACE)
        return;
    spec->namespace_device = info.st_dev;
    spec->namespace_inode = info.st_ino;
}

static uint32_t slots_for(uint32_t threads) {
    uint32_t count = 64;
    if (threads == 0 || threads > OFF_CPU_THREADS)
        threads = OFF_CPU_THREADS;
    while (count < threads)
        count *= 2;
    return count;
}

static sonde_err load(struct off_cpu *off_cpu, const struct off_cpu_options *options,
                      struct sonde_diag *diag) {
    struct off_cpu_spec spec = {.slot_count = off_cpu->slot_count,
                                .stack_bytes = options->stack_bytes,
                                .ring_bytes = RING_BYTES};
    set_namespace(&spec);
    int result = options->load ? options->load(options->load_context, &spec, off_cpu->fds)
                               : off_cpu_load(&spec, off_cpu->fds);
    return result == 0 ? SONDE_OK : refuse(options, -result, diag);
}

static sonde_err map(struct off_cpu *off_cpu, struct sonde_diag *diag) {
    void *control = mmap(NULL, sizeof *off_cpu->control, PROT_READ | PROT_WRITE, MAP_SHARED,
                         off_cpu->fds[OFF_CPU_CONTROL], 0);
    if (control == MAP_FAILED)
        return sonde_fail_os(diag, errno, "cannot map the BPF program's control");
    off_cpu->control = control;
    void *slots = mmap(NULL, off_cpu->slots_bytes, PROT_READ, MAP_SHARED,
                       off_cpu->fds[OFF_CPU_SLOT_ARRAY], 0);
    if (slots == MAP_FAILED)
        return sonde_fail_os(diag, errno, "cannot map the BPF program's slots");
    off_cpu->slots = slots;
    return SONDE_OK;
}

static int on_slot(void *context, void *data, size_t bytes);

static sonde_err open_all(struct off_cpu *off_cpu, const struct off_cpu_options *options,
                          struct sonde_diag *diag) {
    off_cpu->flushed = calloc(off_cpu->slot_count, sizeof *off_cpu->flushed);
    off_cpu->copy = malloc(off_cpu->slot_bytes);
    if (!off_cpu->flushed || !off_cpu->copy)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, NULL);
    sonde_err err = load(off_cpu, options, diag);
    if (!err)
        err = map(off_cpu, diag);
    if (err)
        return err;
    off_cpu->control->threshold_ns = options->threshold_ns;
    off_cpu->control->period_ns = options->period_ns;
    off_cpu->ring = ring_buffer__new(off_cpu->fds[OFF_CPU_RING], on_slot, off_cpu, NULL);
    if (!off_cpu->ring)
        return sonde_fail_os(diag, errno, "cannot map the BPF program's ring");
    return SONDE_OK;
}

/* The CPUs that may count; their numbers have no gaps on x86-64. */
static uint32_t cpus(void) {
    long count = sysconf(_SC_NPROCESSORS_CONF);
    return count > 0 && count < (long)OFF_CPU_CPUS ? (uint32_t)count : OFF_CPU_CPUS;
}

sonde_err off_cpu_open(const struct off_cpu_options *options, struct off_cpu **result,
                       struct sonde_diag *diag) {
    struct off_cpu *off_cpu = calloc(1, sizeof *off_cpu);
    if (!off_cpu)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, NULL);
    for (int i = 0; i < OFF_CPU_FDS; i++)
        off_cpu->fds[i] = -1;
    off_cpu->slot_count = slots_for(options->max_threads);
    off_cpu->stack_bytes = options->stack_bytes;
    off_cpu->slot_bytes = sizeof(struct off_cpu_slot) + options->stack_bytes;
    off_cpu->slots_bytes = off_cpu->slot_bytes * off_cpu->slot_count;
    off_cpu->max_per_second = options->max_per_second;
    off_cpu->cpu_count = cpus();
    off_cpu->period_ns = options->period_ns;
    sonde_err err = open_all(off_cpu, options, diag);
    if (err) {
        off_cpu_close(off_cpu);
        return err;
    }
    *result = off_cpu;
    return SONDE_OK;
}

void off_cpu_close(struct off_cpu *off_cpu) {
    if (!off_cpu)
        return;
    if (off_cpu->ring)
        ring_buffer__free(off_cpu->ring);
    if (off_cpu->slots)
        munmap((void *)off_cpu->slots, off_cpu->slots_bytes);
    if (off_cpu->control)
        munmap(off_cpu->control, sizeof *off_cpu->control);
    for (int i = 0; i < OFF_CPU_FDS; i++) {
        if (off_cpu->fds[i] >= 0)
            close(off_cpu->fds[i]);
    }
    free(off_cpu->flushed);
    free(off_cpu->copy);
    free(off_cpu);
}

bool off_cpu_watch(struct off_cpu *off_cpu, pid_t pid, bool is_watched) {
    if (pid <= 0 || (uint32_t)pid >= OFF_CPU_PIDS)
        return false;
    uint64_t *word = &off_cpu->control->watched[pid / 64], bit = 1ull << pid % 64;
    uint64_t value = is_watched ? *word | bit : *word & ~bit;
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    return true;
}

void off_cpu_watch_all(struct off_cpu *off_cpu, bool is_watched) {
    memset(off_cpu->control->watched, is_watched ? 0xff : 0, sizeof off_cpu->control->watched);
}

bool off_cpu_watches(const struct off_cpu *off_cpu, pid_t pid) {
    return pid > 0 && (uint32_t)pid < OFF_CPU_PIDS &&
           off_cpu->control->watched[pid / 64] & 1ull << pid % 64;
}

void off_cpu_set_period(struct off_cpu *off_cpu, uint64_t period_ns) {
    off_cpu->period_ns = period_ns;
    __atomic_store_n(&off_cpu->control->period_ns, period_ns, __ATOMIC_RELAXED);
}

void off_cpu_set_locks(struct off_cpu *off_cpu, bool are_wanted) {
    __atomic_store_n(&off_cpu->control->wants_locks, are_wanted, __ATOMIC_RELAXED);
}

/* --- Records ----------------------------------------------------------------------------------*/

_Static_assert(OFF_CPU_WORDS == HOST_FUTEX_WORDS, "the program copies what a record has");

/* Only calls of the 64-bit interface are known. The registers have the call even if the wait began
 * before locks were asked for. */
static struct host_futex futex_of(const struct off_cpu_slot *slot) {
    struct host_futex futex = {0};
    if (slot->is_waiting_for_cpu || entry_bits(&slot->regs) != 64 ||
        entry_call(&slot->regs) != ENTRY_CALL_FUTEX ||
        !host_futex_read_call(entry_first(&slot->regs), entry_second(&slot->regs), &futex))
        return futex;
    futex.has_words = slot->has_words;
    memcpy(futex.words, slot->words, sizeof futex.words);
    return futex;
}

static void deliver(const struct off_cpu *off_cpu, const struct off_cpu_slot *slot,
                    uint64_t weight_ns, double waits, uint64_t end_ns) {
    unsigned bits = entry_bits(&slot->regs);
    struct host_record record = {.kind = HOST_OFF_CPU,
                                 .pid = (pid_t)slot->pid,
                                 .tid = (pid_t)slot->tid,
                                 .time_ns = end_ns,
                                 .cpu = slot->cpu};
    record.sample = (struct host_sample){
        .weight_ns = weight_ns,
        .waits = waits,
        .abi = bits == 64   ? HOST_ABI_64
               : bits == 32 ? HOST_ABI_32
                            : HOST_ABI_NONE,
        .is_in_kernel = true,
        .is_waiting_for_cpu = slot->is_waiting_for_cpu,
        .futex = futex_of(slot),
        .stack = slot->stack,
        .stack_bytes = slot->stack_bytes,
        .asked_bytes = off_cpu->stack_bytes,
    };
    entry_take_registers(&record.sample.registers, &slot->regs);
    off_cpu->on_record(off_cpu->context, &record);
}

static bool is_flushed(const struct off_cpu *off_cpu, const struct off_cpu_slot *slot) {
    return off_cpu->flushed[slot->index].start_ns == slot->left_ns;
}

/* The part of a sent wait that no flush has reported. */
static uint64_t rest_of(const struct off_cpu *off_cpu, const struct off_cpu_slot *slot) {
    const struct flushed *flushed = &off_cpu->flushed[slot->index];
    uint64_t waited = slot->end_ns - slot->left_ns;
    if (!is_flushed(off_cpu, slot) || waited == 0)
        return slot->weight_ns;
    if (flushed->until_ns >= slot->end_ns)
        return 0;
    double part = (double)(slot->end_ns - flushed->until_ns) / (double)waited;
    return (uint64_t)((double)slot->weight_ns * part);
}

/* A wait that is shorter than the period was sent with probability wait / period. It stands for all
 * those that were not. */
static double waits_of(const struct off_cpu *off_cpu, const struct off_cpu_slot *slot) {
    uint64_t waited = slot->end_ns - slot->left_ns;
    if (is_flushed(off_cpu, slot))
        return 0;
    return slot->weight_ns > waited && waited ? (double)slot->weight_ns / (double)waited : 1;
}

static bool is_valid(const struct off_cpu *off_cpu, const struct off_cpu_slot *slot, size_t bytes) {
    return bytes >= sizeof *slot && slot->index < off_cpu->slot_count &&
           slot->stack_bytes <= bytes - sizeof *slot && slot->end_ns >= slot->left_ns;
}

static int on_slot(void *context, void *data, size_t bytes) {
    struct off_cpu *off_cpu = context;
    const struct off_cpu_slot *slot = data;
    if (!is_valid(off_cpu, slot, bytes))
        return 0;
    uint64_t weight_ns = rest_of(off_cpu, slot);
    if (weight_ns)
        deliver(off_cpu, slot, weight_ns, waits_of(off_cpu, slot), slot->end_ns);
    bool is_time = ++off_cpu->drained % 16 == 0 && off_cpu->is_over;
    off_cpu->has_stopped = is_time && off_cpu->is_over(off_cpu->context);
    return off_cpu->has_stopped ? -1 : 0;
}

/* Once a second: a longer period if there were too many records, a shorter one if there were few.
 */
static void adjust(struct off_cpu *off_cpu, const struct off_cpu_counts *counts) {
    uint64_t now_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC), period_ns = counts->period_ns;
    if (now_ns - off_cpu->rate_ns < 1000000000u)
        return;
    uint64_t sent = counts->sent - off_cpu->rate_sent, lost = counts->lost - off_cpu->rate_lost;
    bool is_first = off_cpu->rate_ns == 0;
    uint64_t most = off_cpu->max_per_second;
    off_cpu->rate_ns = now_ns;
    off_cpu->rate_sent = counts->sent;
    off_cpu->rate_lost = counts->lost;
    if (is_first || most == 0)
        return;
    if (lost || sent > most)
        period_ns = period_ns ? period_ns * 2 : 1u << 16;
    else if (sent < most / 4)
        period_ns /= 2;
    if (period_ns < off_cpu->period_ns || period_ns < 1u << 16)
        period_ns = off_cpu->period_ns;
    __atomic_store_n(&off_cpu->control->period_ns, period_ns, __ATOMIC_RELAXED);
}

static void deliver_lost(struct off_cpu *off_cpu, const struct off_cpu_counts *counts) {
    struct host_record record = {.kind = HOST_LOST, .lost = counts->lost - off_cpu->lost};
    record.time_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC);
    off_cpu->lost = counts->lost;
    if (record.lost)
        off_cpu->on_record(off_cpu->context, &record);
}

bool off_cpu_drain(struct off_cpu *off_cpu, host_on_record *on_record, void *context,
                   bool (*is_over)(void *context)) {
    struct off_cpu_counts counts;
    off_cpu->on_record = on_record;
    off_cpu->context = context;
    off_cpu->is_over = is_over;
    off_cpu->has_stopped = false;
    (void)ring_buffer__consume(off_cpu->ring);
    off_cpu_counts(off_cpu, &counts);
    deliver_lost(off_cpu, &counts);
    adjust(off_cpu, &counts);
    return off_cpu->has_stopped;
}

/* Copies a slot whose thread is off the CPU. False if it runs, or ran meanwhile. */
static bool copy_slot(struct off_cpu *off_cpu, uint32_t index) {
    const struct off_cpu_slot *slot =
        (const struct off_cpu_slot *)(off_cpu->slots + index * off_cpu->slot_bytes);
    uint64_t start_ns = __atomic_load_n(&slot->start_ns, __ATOMIC_ACQUIRE);
    if (start_ns == 0)
        return false;
    memcpy(off_cpu->copy, slot, off_cpu->slot_bytes);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&slot->start_ns, __ATOMIC_RELAXED) == start_ns &&
           off_cpu->copy->stack_bytes <= off_cpu->stack_bytes;
}

static void flush_slot(struct off_cpu *off_cpu, uint32_t index, uint64_t now_ns) {
    struct flushed *flushed = &off_cpu->flushed[index];
    if (!copy_slot(off_cpu, index))
        return;
    uint64_t start_ns = off_cpu->copy->start_ns;
    bool is_first = flushed->start_ns != start_ns;
    uint64_t from_ns = is_first ? start_ns : flushed->until_ns;
    if (now_ns <= from_ns || now_ns - start_ns < off_cpu->control->threshold_ns)
        return;
    *flushed = (struct flushed){start_ns, now_ns};
    deliver(off_cpu, off_cpu->copy, now_ns - from_ns, is_first, now_ns);
}

void off_cpu_flush(struct off_cpu *off_cpu, host_on_record *on_record, void *context) {
    uint64_t now_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC);
    off_cpu->on_record = on_record;
    off_cpu->context = context;
    for (uint32_t i = 0; i < off_cpu->slot_count; i++) {
        if (off_cpu->control->tids[i])
            flush_slot(off_cpu, i, now_ns);
    }
}

int off_cpu_poll_fd(const struct off_cpu *off_cpu) {
    return off_cpu->fds[OFF_CPU_RING];
}

void off_cpu_counts(const struct off_cpu *off_cpu, struct off_cpu_counts *counts) {
    *counts = (struct off_cpu_counts){.period_ns = off_cpu->control->period_ns};
    for (uint32_t i = 0; i < off_cpu->cpu_count; i++) {
        const struct off_cpu_counters *cpu = &off_cpu->control->cpus[i];
        counts->switches += cpu->switches;
        counts->sent += cpu->sent;
        counts->lost += cpu->lost;
        counts->short_ns += cpu->short_ns;
    }
}
