/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a sample follow each other in the order in which perf_event_open(2) has them; those
 * behind the copy of the stack are not read. */
#include "service/host/perf_file/parts.h"
#include "service/machine/own/perf.h"

#define PROT_EXECUTE    4u
#define MMAP_DATA       PERF_RECORD_MISC_MMAP_DATA
#define FORK_EXEC       PERF_RECORD_MISC_FORK_EXEC
#define MAX_READ_VALUES 4096u

static int32_t take_pid(struct perf_cursor *cursor) {
    return (int32_t)perf_take_u32(cursor);
}

/* ---- samples ---- */

static void skip_read(struct perf_cursor *cursor, uint64_t format) {
    uint64_t times = (uint64_t)(!!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) +
                                !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING));
    uint64_t words = 1 + (uint64_t)(!!(format & PERF_FORMAT_ID) + !!(format & PERF_FORMAT_LOST));
    uint64_t count = format & PERF_FORMAT_GROUP ? perf_take_u64(cursor) : 1;
    perf_take(cursor, count > MAX_READ_VALUES ? UINT64_MAX : 8 * (times + count * words));
}

static void skip_branches(struct perf_cursor *cursor, const struct perf_entry *entry) {
    uint64_t count = perf_take_u64(cursor);
    if (entry->branch_type & PERF_SAMPLE_BRANCH_HW_INDEX)
        perf_take(cursor, 8);
    perf_take(cursor, count > PERF_MAX_RECORD ? UINT64_MAX : 24 * count);
    if (entry->branch_type & (1u << 19)) /* PERF_SAMPLE_BRANCH_COUNTERS of Linux 6.8 */
        perf_take(cursor, count > PERF_MAX_RECORD ? UINT64_MAX : 8 * count);
}

static bool is_marker(uint64_t pc) {
    return pc >= (uint64_t)PERF_CONTEXT_MAX;
}

/* A chain is runs of pcs, each behind a marker that says whose they are. One run of the kernel and
 * one of the process are read. Fields before the chain have 8 bytes, so it is aligned. */
static void take_chain(struct perf_cursor *cursor, struct perf_file_sample *sample) {
    uint64_t count = perf_take_u64(cursor);
    const uint8_t *from = perf_take(cursor, count > PERF_MAX_RECORD ? UINT64_MAX : 8 * count);
    const uint64_t *pcs = (const uint64_t *)(const void *)from;
    for (uint64_t i = 0; from && i < count;) {
        uint64_t marker = pcs[i], first = is_marker(marker) ? i + 1 : i;
        uint64_t end = first;
        while (end < count && !is_marker(pcs[end]))
            end++;
        uint64_t len = end - first < PERF_FILE_MAX_CHAIN ? end - first : PERF_FILE_MAX_CHAIN;
        bool is_kernel = marker == (uint64_t)PERF_CONTEXT_KERNEL;
        if (is_kernel && sample->kernel_count == 0) {
            sample->kernel = pcs + first;
            sample->kernel_count = (uint32_t)len;
        } else if (marker == (uint64_t)PERF_CONTEXT_USER && sample->user_count == 0) {
            sample->user = pcs + first;
            sample->user_count = (uint32_t)len;
        }
        i = end;
    }
}

static void take_registers(struct perf_cursor *cursor, uint64_t mask,
                           struct perf_file_sample *sample) {
    uint64_t abi = perf_take_u64(cursor);
    if (abi == PERF_SAMPLE_REGS_ABI_NONE)
        return;
    uint32_t index = 0; /* in perf_registers */
    for (uint32_t bit = 0; bit < 64; bit++) {
        uint64_t value = mask >> bit & 1 ? perf_take_u64(cursor) : 0;
        if (!(PERF_REGISTERS >> bit & 1))
            continue;
        if (mask >> bit & 1)
            sample->registers.value[perf_registers[index]] = value;
        index++;
    }
    sample->is_32bit = abi == PERF_SAMPLE_REGS_ABI_32;
    sample->has_registers = (mask & PERF_REGISTERS) == PERF_REGISTERS;
    sample->registers.known = UNWIND_ALL_KNOWN;
}

static void take_stack(struct perf_cursor *cursor, struct perf_file_sample *sample) {
    uint64_t asked = perf_take_u64(cursor);
    const uint8_t *stack = perf_take(cursor, asked);
    uint64_t copied = asked ? perf_take_u64(cursor) : 0;
    if (copied > asked)
        cursor->is_short = true;
    sample->stack = stack;
    sample->stack_bytes = cursor->is_short ? 0 : (size_t)copied;
}

static bool parse_sample(const struct perf_entry *entry, struct perf_cursor *cursor, uint16_t misc,
                         struct perf_file_record *record) {
    struct perf_file_sample *sample = &record->sample;
    uint64_t has = entry->sample_type;
    sample->event = entry->event;
    sample->is_in_kernel = (misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
    if (has & PERF_SAMPLE_IDENTIFIER)
        perf_take(cursor, 8);
    sample->ip = has & PERF_SAMPLE_IP ? perf_take_u64(cursor) : 0;
    record->pid = has & PERF_SAMPLE_TID ? take_pid(cursor) : -1;
    record->tid = has & PERF_SAMPLE_TID ? take_pid(cursor) : -1;
    record->time_ns = has & PERF_SAMPLE_TIME ? perf_take_u64(cursor) : 0;
    uint64_t words =
        has & (PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU);
    perf_take(cursor, 8 * (uint64_t)__builtin_popcountll(words));
    sample->period = has & PERF_SAMPLE_PERIOD ? perf_take_u64(cursor) : entry->period;
    if (has & PERF_SAMPLE_READ)
        skip_read(cursor, entry->read_format);
    if (has & PERF_SAMPLE_CALLCHAIN)
        take_chain(cursor, sample);
    if (has & PERF_SAMPLE_RAW)
        perf_take(cursor, perf_take_u32(cursor));
    if (has & PERF_SAMPLE_BRANCH_STACK)
        skip_branches(cursor, entry);
    if (has & PERF_SAMPLE_REGS_USER)
        take_registers(cursor, entry->user_registers, sample);
    if (has & PERF_SAMPLE_STACK_USER)
        take_stack(cursor, sample);
    return !cursor->is_short && entry->event != UINT32_MAX;
}

/* ---- other records ---- */

static void take_file(struct perf_cursor *cursor, uint16_t misc, struct perf_file_mmap *mmap) {
    if (!(misc & PERF_RECORD_MISC_MMAP_BUILD_ID)) {
        mmap->device_major = perf_take_u32(cursor);
        mmap->device_minor = perf_take_u32(cursor);
        mmap->inode = perf_take_u64(cursor);
        mmap->inode_generation = perf_take_u64(cursor);
        return;
    }
    const uint8_t *field = perf_take(cursor, 24); /* a length, three reserved bytes, the id */
    if (field)
        perf_build_id_text(field + 4, field[0], mmap->build_id);
}

static bool parse_mmap(struct perf_cursor *cursor, const struct perf_event_header *header,
                       struct perf_file_record *record, bool *is_needed) {
    struct perf_file_mmap *mmap = &record->mmap;
    uint16_t mode = header->misc & PERF_RECORD_MISC_CPUMODE_MASK;
    record->pid = take_pid(cursor);
    record->tid = take_pid(cursor);
    mmap->start = perf_take_u64(cursor);
    uint64_t bytes = perf_take_u64(cursor);
    mmap->offset = perf_take_u64(cursor);
    mmap->is_kernel = mode == PERF_RECORD_MISC_KERNEL;
    *is_needed = mmap->is_kernel || mode == PERF_RECORD_MISC_USER;
    if (header->type == PERF_RECORD_MMAP2) {
        take_file(cursor, header->misc, mmap);
        *is_needed &= mmap->is_kernel || perf_take_u32(cursor) & PROT_EXECUTE;
        perf_take(cursor, mmap->is_kernel ? 8 : 4); /* protection, flags */
    } else if (header->misc & MMAP_DATA) {
        *is_needed = false;
    }
    mmap->path = perf_take_text(cursor);
    if (mmap->path && strcmp(mmap->path, "//anon") == 0)
        mmap->path = "";
    mmap->end = bytes > UINT64_MAX - mmap->start ? UINT64_MAX : mmap->start + bytes;
    return !cursor->is_short;
}

static bool parse_task(struct perf_cursor *cursor, uint16_t misc, struct perf_file_record *record) {
    record->pid = take_pid(cursor);
    int32_t parent = take_pid(cursor);
    record->tid = take_pid(cursor);
    if (record->kind == PERF_FILE_FORK) {
        record->fork.parent_pid = parent;
        record->fork.has_own_map = misc & FORK_EXEC;
    }
    return !cursor->is_short;
}

static bool parse_comm(struct perf_cursor *cursor, uint16_t misc, struct perf_file_record *record) {
    record->pid = take_pid(cursor);
    record->tid = take_pid(cursor);
    record->comm.name = perf_take_text(cursor);
    record->comm.is_exec = misc & PERF_RECORD_MISC_COMM_EXEC;
    return !cursor->is_short;
}

#define LEFT_OUT (1u << 15) /* of LOST_SAMPLES: samples that a filter of perf left out */

static bool parse_lost(struct perf_cursor *cursor, bool has_id, struct perf_file_record *record) {
    if (has_id)
        perf_take_u64(cursor);
    record->lost = perf_take_u64(cursor);
    return !cursor->is_short;
}

/* Drops the tail of ids, so that a text ends where it should. */
static void drop_tail(const struct perf_file *file, struct perf_cursor *cursor) {
    const struct perf_entry *entry = file->events.entry_count ? file->events.entries : NULL;
    uint64_t tail = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID |
                    PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER;
    if (!entry || !entry->has_ids_on_all)
        return;
    size_t bytes = 8 * (size_t)__builtin_popcountll(entry->sample_type & tail);
    cursor->left -= bytes < cursor->left ? bytes : cursor->left;
}

bool perf_record_parse(const struct perf_file *file, const uint8_t *bytes, size_t size,
                       struct perf_file_record *record, bool *is_needed) {
    struct perf_cursor cursor = {bytes + sizeof(struct perf_event_header),
                                 size - sizeof(struct perf_event_header), false};
    struct perf_event_header header;
    memcpy(&header, bytes, sizeof header);
    *record = (struct perf_file_record){.kind = PERF_FILE_SAMPLE};
    *is_needed = true;
    if (header.type == PERF_RECORD_SAMPLE) {
        const struct perf_entry *entry = perf_events_of_sample(&file->events, bytes, size);
        return entry && parse_sample(entry, &cursor, header.misc, record);
    }
    drop_tail(file, &cursor);
    record->time_ns = perf_events_time(&file->events, bytes, size);
    switch (header.type) {
    case PERF_RECORD_MMAP:
    case PERF_RECORD_MMAP2:
        record->kind = PERF_FILE_MMAP;
        return parse_mmap(&cursor, &header, record, is_needed);
    case PERF_RECORD_COMM:
        record->kind = PERF_FILE_COMM;
        return parse_comm(&cursor, header.misc, record);
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        record->kind = header.type == PERF_RECORD_FORK ? PERF_FILE_FORK : PERF_FILE_EXIT;
        return parse_task(&cursor, header.misc, record);
    case PERF_RECORD_LOST:
        record->kind = PERF_FILE_LOST;
        return parse_lost(&cursor, true, record);
    case PERF_RECORD_LOST_SAMPLES:
        record->kind = PERF_FILE_LOST_SAMPLES;
        *is_needed = !(header.misc & LEFT_OUT);
        return parse_lost(&cursor, false, record);
    default:
        *is_needed = false;
        return true;
    }
}
