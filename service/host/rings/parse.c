/* SPDX-License-Identifier: Apache-2.0
 *
 * A sample is a header and then, in the order of the bits of its sample_type:
 *
 *     u32 pid, tid; u64 time;
 *     u64 address;                                     with PARSE_ADDRESS
 *     u32 cpu, 0;
 *     u64 period;                                      not with PARSE_NO_PERIOD
 *     u64 count, pcs[count];                           with PARSE_KERNEL
 *     u64 abi, registers[UNWIND_REGISTERS];            registers only if abi is not NONE
 *     u64 asked; u8 stack[asked]; u64 copied;          stack and copied only if asked is not 0
 *
 * All other records end in u32 pid, tid; u64 time; u32 cpu, 0 (sample_id_all). */
#include "service/host/rings/parse.h"

#include "service/machine/own/perf.h"

#include <string.h>

#define ID_BYTES 24u /* at the end of records that are not samples */

/* Takes bytes from the front; a take of more than is left returns NULL, and so do all after it. */
struct cursor {
    const uint8_t *at;
    size_t left;
    bool is_short;
};

static const uint8_t *take(struct cursor *cursor, uint64_t bytes) {
    if (cursor->is_short || bytes > cursor->left) {
        cursor->is_short = true;
        return NULL;
    }
    const uint8_t *taken = cursor->at;
    cursor->at += bytes;
    cursor->left -= bytes;
    return taken;
}

static uint64_t take_u64(struct cursor *cursor) {
    uint64_t value = 0;
    const uint8_t *from = take(cursor, sizeof value);
    if (from)
        memcpy(&value, from, sizeof value);
    return value;
}

static uint32_t take_u32(struct cursor *cursor) {
    uint32_t value = 0;
    const uint8_t *from = take(cursor, sizeof value);
    if (from)
        memcpy(&value, from, sizeof value);
    return value;
}

/* A process that is not in this pid namespace is 0, a thread that is being reaped is -1. */
static pid_t take_pid(struct cursor *cursor) {
    pid_t pid = (pid_t)take_u32(cursor);
    return pid > 0 ? pid : 0;
}

/* Takes a NUL-terminated text, which is padded to the end of the record. */
static const char *take_text(struct cursor *cursor, size_t limit) {
    const char *text = (const char *)cursor->at;
    size_t length = cursor->is_short ? 0 : strnlen(text, cursor->left);
    if (cursor->is_short || length == cursor->left || length >= limit) {
        cursor->is_short = true;
        return NULL;
    }
    take(cursor, cursor->left);
    return text;
}

/* The kernel's pcs are aligned because all fields before them have 8 bytes. Only frames of the
 * kernel follow the marker; another context ends them. */
static void take_kernel(struct cursor *cursor, struct host_sample *sample) {
    uint64_t count = take_u64(cursor);
    const uint8_t *from = take(cursor, count > PARSE_MAX_BYTES ? UINT64_MAX : 8 * count);
    if (!from || count == 0)
        return;
    const uint64_t *pcs = (const uint64_t *)(const void *)from;
    if (pcs[0] != (uint64_t)PERF_CONTEXT_KERNEL)
        return;
    sample->kernel = pcs + 1;
    while (sample->kernel_count + 1 < count && sample->kernel_count < HOST_MAX_KERNEL &&
           sample->kernel[sample->kernel_count] < (uint64_t)PERF_CONTEXT_MAX)
        sample->kernel_count++;
}

static void take_registers(struct cursor *cursor, struct host_sample *sample) {
    uint64_t abi = take_u64(cursor);
    if (abi > PERF_SAMPLE_REGS_ABI_64)
        cursor->is_short = true;
    sample->abi = (enum host_abi)abi;
    for (size_t i = 0; abi != PERF_SAMPLE_REGS_ABI_NONE && i < UNWIND_REGISTERS; i++)
        sample->registers.value[perf_registers[i]] = take_u64(cursor);
    sample->registers.known = abi != PERF_SAMPLE_REGS_ABI_NONE ? UNWIND_ALL_KNOWN : 0;
}

static void take_stack(struct cursor *cursor, struct host_sample *sample) {
    uint64_t asked = take_u64(cursor);
    const uint8_t *stack = take(cursor, asked);
    uint64_t copied = asked ? take_u64(cursor) : 0;
    if (cursor->is_short || copied > asked) {
        cursor->is_short = true;
        return;
    }
    sample->stack = stack;
    sample->stack_bytes = (uint32_t)copied;
    sample->asked_bytes = (uint32_t)asked;
}

static bool is_kernel_mode(uint16_t misc) {
    uint16_t mode = misc & PERF_RECORD_MISC_CPUMODE_MASK;
    return mode != PERF_RECORD_MISC_USER;
}

static void take_thread(struct cursor *cursor, struct host_record *record) {
    record->pid = take_pid(cursor);
    record->tid = take_pid(cursor);
    record->time_ns = take_u64(cursor);
}

static void take_cpu(struct cursor *cursor, struct host_record *record) {
    record->cpu = take_u32(cursor);
    take_u32(cursor);
}

static void parse_sample(struct cursor *cursor, uint16_t misc, unsigned how,
                         struct host_record *record) {
    struct host_sample *sample = &record->sample;
    record->kind = HOST_SAMPLE;
    take_thread(cursor, record);
    sample->address = how & PARSE_ADDRESS ? take_u64(cursor) : 0;
    take_cpu(cursor, record);
    sample->weight_ns = how & PARSE_NO_PERIOD ? 0 : take_u64(cursor);
    sample->is_in_kernel = is_kernel_mode(misc);
    if (how & PARSE_KERNEL)
        take_kernel(cursor, sample);
    take_registers(cursor, sample);
    take_stack(cursor, sample);
}

static void parse_mmap(struct cursor *cursor, struct host_record *record) {
    struct host_mmap *mmap = &record->mmap;
    record->kind = HOST_MMAP;
    record->pid = take_pid(cursor);
    record->tid = take_pid(cursor);
    mmap->start = take_u64(cursor);
    uint64_t bytes = take_u64(cursor);
    mmap->offset = take_u64(cursor);
    mmap->device_major = take_u32(cursor);
    mmap->device_minor = take_u32(cursor);
    mmap->inode = take_u64(cursor);
    mmap->inode_generation = take_u64(cursor);
    take(cursor, 4 + 4); /* protection, flags */
    mmap->path = take_text(cursor, HOST_PATH_BYTES);
    if (mmap->path && strcmp(mmap->path, "//anon") == 0)
        mmap->path = "";
    if (bytes == 0 || bytes > UINT64_MAX - mmap->start)
        cursor->is_short = true;
    else
        mmap->end = mmap->start + bytes;
}

static void parse_comm(struct cursor *cursor, uint16_t misc, struct host_record *record) {
    record->kind = HOST_COMM;
    record->pid = take_pid(cursor);
    record->tid = take_pid(cursor);
    record->comm.name = take_text(cursor, HOST_COMM_BYTES);
    record->comm.is_exec = misc & PERF_RECORD_MISC_COMM_EXEC;
}

static void parse_task(struct cursor *cursor, enum host_record_kind kind,
                       struct host_record *record) {
    record->kind = kind;
    record->pid = take_pid(cursor);
    pid_t parent_pid = take_pid(cursor);
    record->tid = take_pid(cursor);
    pid_t parent_tid = take_pid(cursor);
    if (kind == HOST_FORK) {
        record->fork.parent_pid = parent_pid;
        record->fork.parent_tid = parent_tid;
    }
    take_u64(cursor); /* the time, again */
}

static void parse_lost(struct cursor *cursor, bool has_id, struct host_record *record) {
    record->kind = HOST_LOST;
    record->pid = record->tid = 0;
    if (has_id)
        take_u64(cursor);
    record->lost = take_u64(cursor);
}

static enum parsed parse_other(struct cursor *cursor, const struct perf_event_header *header,
                               struct host_record *record) {
    if (cursor->left < ID_BYTES)
        return PARSED_INVALID;
    struct cursor id = {cursor->at + cursor->left - ID_BYTES, ID_BYTES, false};
    cursor->left -= ID_BYTES;
    take_thread(&id, record);
    take_cpu(&id, record);
    switch (header->type) {
    case PERF_RECORD_MMAP2:
        parse_mmap(cursor, record);
        break;
    case PERF_RECORD_COMM:
        parse_comm(cursor, header->misc, record);
        break;
    case PERF_RECORD_FORK:
        parse_task(cursor, HOST_FORK, record);
        break;
    case PERF_RECORD_EXIT:
        parse_task(cursor, HOST_EXIT, record);
        break;
    case PERF_RECORD_LOST:
    case PERF_RECORD_LOST_SAMPLES:
        parse_lost(cursor, header->type == PERF_RECORD_LOST, record);
        break;
    default:
        return PARSED_NOTHING;
    }
    return cursor->is_short ? PARSED_INVALID : PARSED_RECORD;
}

static bool take_header(struct cursor *cursor, size_t size, struct perf_event_header *header) {
    const uint8_t *from = take(cursor, sizeof *header);
    if (from)
        memcpy(header, from, sizeof *header);
    return from && header->size == size;
}

enum parsed parse_record(const uint8_t *bytes, size_t size, unsigned how,
                         struct host_record *record) {
    struct cursor cursor = {bytes, size, false};
    struct perf_event_header header;
    *record = (struct host_record){0};
    if (!take_header(&cursor, size, &header))
        return PARSED_INVALID;
    if (header.type != PERF_RECORD_SAMPLE)
        return parse_other(&cursor, &header, record);
    parse_sample(&cursor, header.misc, how, record);
    return cursor.is_short ? PARSED_INVALID : PARSED_RECORD;
}

bool parse_time(const uint8_t *bytes, size_t size, uint64_t *time_ns) {
    struct cursor cursor = {bytes, size, false};
    struct perf_event_header header;
    if (!take_header(&cursor, size, &header))
        return false;
    size_t skipped = header.type == PERF_RECORD_SAMPLE ? 8
                     : cursor.left >= ID_BYTES         ? cursor.left - ID_BYTES + 8
                                                       : cursor.left;
    take(&cursor, skipped);
    *time_ns = take_u64(&cursor);
    return !cursor.is_short;
}
