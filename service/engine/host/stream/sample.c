/* SPDX-License-Identifier: Apache-2.0
 *
 * From a copied stack to a counted one. The walk is done once; each target that the process belongs
 * to then adds the frames to its own stacks, if one of its captures takes the sample:
 *
 *     [process] ─ note, if frames are missing ─ frames of the process ─ frames of the kernel
 *     root, only in targets of several                                                  leaf */
#include "service/engine/host/stream/stream.h"

#include "service/engine/capture/samples.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What the walk needs to know about the process's code. */
struct finding {
    struct host_stream *stream;
    struct host_process *process;
    struct code_map *map;
    struct mapping *waits_for; /* the one that UNWIND_LATER was said about */
    bool may_wait;
};

/* A walked sample. */
struct walked {
    const struct host_record *record;
    struct host_process *process;
    struct code_map *map;
    struct mapping *kernel;
    bool is_shared; /* the target shows several processes */
    const uint64_t *pcs;
    uint32_t count;
    enum stack_end end;
    int note; /* where frames are missing; -1 = nowhere */
};

static enum unwind_found find(void *context, uint64_t pc, struct unwind_range *range) {
    struct finding *finding = context;
    struct mapping *mapping = generation_find(finding->map->generation, pc);
    if (!mapping)
        return UNWIND_NOT_CODE;
    if (!mapping->is_opened && finding->may_wait) {
        load_table(finding->stream, finding->process, mapping);
        finding->waits_for = mapping;
        return UNWIND_LATER;
    }
    *range = (struct unwind_range){.start = mapping->start, .end = mapping->end};
    if (mapping->is_opened && mapping->view) {
        range->image = mapping->view->image;
        range->bias = mapping->bias;
    }
    return UNWIND_FOUND;
}

static void set_end(struct walked *walked, enum unwind_copy_end end) {
    static const enum stack_end ends[UNWIND_COPY_ENDS] = {
        [UNWIND_COPY_ROOT] = STACK_END_ROOT,        [UNWIND_COPY_DEPTH] = STACK_END_DEPTH,
        [UNWIND_COPY_NO_CODE] = STACK_END_NO_TABLE, [UNWIND_COPY_NO_TABLE] = STACK_END_NO_TABLE,
        [UNWIND_COPY_RULE] = STACK_END_RULE,        [UNWIND_COPY_BAD_STACK] = STACK_END_BAD_STACK,
        [UNWIND_COPY_SHORT] = STACK_END_SHORT,      [UNWIND_COPY_WAITS] = STACK_END_NO_TABLE,
    };
    walked->end = ends[end];
    walked->note = stack_end_note(walked->end);
}

/* --- adding the frames ------------------------------------------------------------------------ */

static uint32_t add_user_frames(struct stacks *stacks, const struct walked *walked,
                                uint32_t parent) {
    for (uint32_t i = walked->count; i-- > 0 && parent != STACKS_FULL;) {
        uint64_t pc = i == 0 ? walked->pcs[i] | RING_PC_EXACT : walked->pcs[i];
        uint64_t address = pc & ~RING_PC_EXACT;
        /* A return address may be outside of the mapping of its call. */
        uint64_t inside = pc & RING_PC_EXACT || address == 0 ? address : address - 1;
        struct mapping *mapping = generation_find(walked->map->generation, inside);
        uint32_t number = mapping ? stacks_add_mapping(stacks, mapping) : 0;
        parent = stacks_add_frame(stacks, parent, number == STACKS_FULL ? 0 : number, pc);
    }
    return parent;
}

/* A user on whose behalf root's sonded samples must not learn where the kernel is in memory. */
static bool hides_kernel(const struct target *target) {
    return target->host->has_owner && target->host->owner != geteuid();
}

/* Bit 63 of a kernel's pc is dropped: here it marks exact pcs (mapping_create_kernel). */
static uint32_t add_kernel_frames(const struct target *target, const struct walked *walked,
                                  uint32_t parent) {
    struct stacks *stacks = target->stacks;
    const struct host_sample *sample = &walked->record->sample;
    if (sample->kernel_count && hides_kernel(target))
        return stacks_add_frame(stacks, parent, STACKS_NOTE, STACK_NOTE_KERNEL);
    if (sample->kernel_count)
        load_kernel(walked->process->stream);
    uint32_t number = sample->kernel_count ? stacks_add_mapping(stacks, walked->kernel) : 0;
    for (uint32_t i = sample->kernel_count; i-- > 0 && parent != STACKS_FULL;) {
        uint64_t pc = sample->kernel[i] & ~RING_PC_EXACT;
        parent = stacks_add_frame(stacks, parent, number == STACKS_FULL ? 0 : number,
                                  i == 0 ? pc | RING_PC_EXACT : pc);
    }
    return parent;
}

static uint32_t add_process(const struct target *target, const struct host_process *process) {
    char text[80];
    host_process_text(target->host, process->name, process->pid, text);
    return stacks_add_process(target->stacks, text);
}

static uint32_t add_stack(const struct target *target, const struct walked *walked) {
    struct stacks *stacks = target->stacks;
    uint32_t parent = walked->is_shared ? add_process(target, walked->process) : 0;
    if (walked->note >= 0 && parent != STACKS_FULL)
        parent = stacks_add_frame(stacks, parent, STACKS_NOTE, (uint64_t)walked->note);
    if (parent != STACKS_FULL && walked->count > 0)
        parent = add_user_frames(stacks, walked, parent);
    if (parent != STACKS_FULL)
        parent = add_kernel_frames(target, walked, parent);
    if (walked->record->sample.is_waiting_for_cpu && parent != STACKS_FULL)
        parent = stacks_add_frame(stacks, parent, STACKS_NOTE, STACK_NOTE_WAITING);
    return walked->count || walked->note >= 0 || walked->record->sample.kernel_count
               ? parent
               : stacks_add_note(stacks, parent == STACKS_FULL ? 0 : parent, STACK_NOTE_EMPTY);
}

/* A thread that is not known from a record: asks /proc, once. */
static const char *thread_name(struct host_stream *stream, const struct host_record *record) {
    char path[64], text[17] = "";
    const char *name = thread_names_get(&stream->names, (uint32_t)record->tid);
    if (name)
        return name;
    snprintf(path, sizeof path, "/proc/%d/task/%d/comm", (int)record->pid, (int)record->tid);
    FILE *file = fopen(path, "re");
    if (file && fgets(text, sizeof text, file))
        text[strcspn(text, "\n")] = 0;
    if (file)
        fclose(file);
    struct ring_thread thread = {.record = {.tid = (uint32_t)record->tid}};
    memcpy(thread.name, text, sizeof thread.name);
    thread_names_learn(&stream->names, &thread);
    name = thread_names_get(&stream->names, (uint32_t)record->tid);
    return name ? name : "";
}

/* The number in target's threads of a lock's owner; 0 = unknown. */
static uint32_t add_owner(const struct target *target, const struct walked *walked,
                          uint32_t claimed) {
    struct host_record owner = {.pid = walked->process->pid};
    struct host_stream *stream = walked->process->stream;
    owner.tid = claimed ? lock_owners_find(&stream->owners, owner.pid, claimed) : 0;
    if (!owner.tid)
        return 0;
    uint32_t pid = walked->is_shared ? (uint32_t)owner.pid : 0;
    return stacks_add_thread(target->stacks, pid, (uint32_t)owner.tid, thread_name(stream, &owner));
}

static bool counts_locks(const struct target *target) {
    const struct cpu_capture *capture = target->captures;
    while (capture && !(capture->spec.has_locks && cpu_capture_is_counting(capture)))
        capture = capture->next;
    return capture;
}

static uint32_t add_lock(const struct target *target, const struct walked *walked) {
    const struct host_futex *futex = &walked->record->sample.futex;
    if (!futex->address || !counts_locks(target))
        return 0;
    struct stack_lock lock = {
        .address = futex->address,
        .pid = (uint32_t)walked->process->pid,
        .mutex_owner = add_owner(target, walked, host_futex_mutex_owner(futex)),
        .rwlock_owner = add_owner(target, walked, host_futex_rwlock_owner(futex)),
        .is_plain_wait = host_futex_is_plain_wait(futex),
    };
    if (lock.mutex_owner == STACKS_FULL || lock.rwlock_owner == STACKS_FULL)
        return STACKS_FULL;
    return stacks_add_lock(target->stacks, &lock);
}

static struct count_key key_of(void *context, struct target *target) {
    const struct walked *walked = context;
    const struct host_record *record = walked->record;
    struct host_stream *stream = walked->process->stream;
    uint32_t pid = walked->is_shared ? (uint32_t)record->pid : 0;
    return (struct count_key){
        .stack = add_stack(target, walked),
        .thread = stacks_add_thread(target->stacks, pid, (uint32_t)record->tid,
                                    thread_name(stream, record)),
        .lock = add_lock(target, walked),
    };
}

static void count(struct walked *walked) {
    const struct host_record *record = walked->record;
    const struct host_process *process = walked->process;
    struct spent spent = {
        .tid = (uint32_t)record->tid,
        .event = record->kind == HOST_OFF_CPU ? SONDE_OFF_CPU : process->stream->counted.event.id,
        .amount = record->sample.weight_ns,
        .address = record->sample.address,
        .span_ns = record->sample.span_ns,
        .renewed_amount = record->sample.renewed_weight_ns,
        .renewed_ns = record->sample.renewed_ns,
        .waits = record->sample.waits,
        .end_ns = record->time_ns,
        .at_ns = record->time_ns,
        .has_stack = true,
        .end = walked->end,
        .key = key_of,
        .context = walked,
    };
    for (uint32_t i = 0; i < process->member_count; i++) {
        struct target *target = process->members[i];
        walked->is_shared = target->host->members != HOST_ONE;
        if (walked->map && target->ignored_mappings < walked->map->generation->ignored)
            target->ignored_mappings = walked->map->generation->ignored;
        target->host->samples += record->kind == HOST_SAMPLE;
        samples_add(target, &spent);
    }
}

/* --- walking ---------------------------------------------------------------------------------- */

static void note_use(struct copy_use *use, const struct host_sample *sample,
                     const struct unwind_copy_walk *walk) {
    use->walks++;
    use->cut += walk->end == UNWIND_COPY_SHORT && sample->stack_bytes >= sample->asked_bytes;
    use->small += walk->end != UNWIND_COPY_SHORT && walk->used_bytes <= sample->asked_bytes / 2;
}

static void count_note(struct walked *walked, int note) {
    walked->note = note;
    walked->end = note == STACK_NOTE_GONE ? STACK_END_GONE : STACK_END_ROOT;
    count(walked);
}

/* The kernel starts a program with a frame pointer of 0, in ld.so's _start, which has no unwind
 * information. */
static bool is_first_frame(const struct host_sample *sample, const struct unwind_copy_walk *walk) {
    return walk->end == UNWIND_COPY_NO_TABLE && walk->count == 1 &&
           sample->registers.value[UNWIND_REG_FP] == 0;
}

/* False: the walk waits for finding->waits_for. */
static bool walk_and_count(struct finding *finding, struct walked *walked) {
    const struct host_sample *sample = &walked->record->sample;
    uint64_t pcs[HOST_MAX_DEPTH];
    struct unwind_code_map code = {
        .context = finding, .find = find, .serial = finding->map->serial};
    struct unwind_copy copy = {
        .registers = sample->registers, .stack = sample->stack, .stack_bytes = sample->stack_bytes};
    struct unwind_copy_walk walk = {.pcs = pcs, .capacity = HOST_MAX_DEPTH};
    copy.registers.known = UNWIND_ALL_KNOWN;
    unwind_copy_walk(finding->stream->walker, &code, &copy, &walk);
    if (walk.end == UNWIND_COPY_WAITS && finding->may_wait && finding->waits_for)
        return false;
    if (walked->record->kind == HOST_SAMPLE)
        note_use(&finding->stream->use, sample, &walk);
    walked->map = finding->map;
    walked->pcs = pcs;
    walked->count = walk.count;
    set_end(walked, walk.end);
    if (walk.end == UNWIND_COPY_WAITS || !finding->may_wait) {
        walked->end = STACK_END_NO_TABLE_YET;
        walked->note = STACK_NOTE_NO_TABLE_YET;
    }
    if (walk.end == UNWIND_COPY_ROOT || is_first_frame(sample, &walk)) {
        walked->end = STACK_END_ROOT;
        walked->note = -1;
    }
    count(walked);
    return true;
}

void sample_add(struct host_stream *stream, struct host_process *process,
                const struct host_record *record) {
    const struct host_sample *sample = &record->sample;
    struct walked walked = {
        .record = record, .process = process, .kernel = stream->engine->host->kernel, .note = -1};
    process_find_members(process);
    if (process->member_count == 0)
        return;
    if (sample->abi != HOST_ABI_64) {
        count_note(&walked, sample->abi == HOST_ABI_32 ? STACK_NOTE_32BIT : -1);
        return;
    }
    bool is_stale = process->losses_seen != stream->losses;
    if (process->map_state == HOST_MAP_UNKNOWN ||
        (process->map_state == HOST_MAP_KNOWN && is_stale))
        load_maps(stream, process);
    if (!process->map && process->map_state == HOST_MAP_GONE) {
        count_note(&walked, STACK_NOTE_GONE);
        return;
    }
    struct finding finding = {
        .stream = stream, .process = process, .map = process->map, .may_wait = true};
    if (finding.map && walk_and_count(&finding, &walked))
        return;
    if (park_add(&stream->park, process, finding.map, finding.waits_for, record))
        return;
    finding.may_wait = false;
    if (finding.map)
        (void)walk_and_count(&finding, &walked);
    else
        count_note(&walked, STACK_NOTE_NO_TABLE_YET);
}

bool sample_has_map(struct host_stream *stream, struct host_process *process) {
    if (process->map_state == HOST_MAP_UNKNOWN)
        load_maps(stream, process);
    return process->map_state == HOST_MAP_KNOWN || process->map_state == HOST_MAP_GONE;
}

void sample_add_walked(struct host_stream *stream, struct host_process *process,
                       const struct host_record *record, const struct walked_stack *stack) {
    struct walked walked = {.record = record,
                            .process = process,
                            .map = process->map,
                            .kernel = stream->engine->host->kernel,
                            .pcs = stack->pcs,
                            .count = process->map ? stack->count : 0,
                            .end = stack->end};
    walked.note = stack->note >= 0 ? stack->note : stack_end_note(stack->end);
    process_find_members(process);
    for (uint32_t i = 0; i < walked.count; i++) {
        uint64_t address = walked.pcs[i] & ~RING_PC_EXACT;
        struct mapping *mapping = generation_find(walked.map->generation, address - (i > 0));
        if (mapping)
            load_table(stream, process, mapping); /* for its names */
    }
    count(&walked);
}

bool sample_retry(struct host_stream *stream, struct parked *parked, bool may_wait) {
    struct host_process *process = parked->process;
    struct walked walked = {.record = &parked->record,
                            .process = process,
                            .kernel = stream->engine->host->kernel,
                            .note = -1};
    process_find_members(process);
    if (!parked->map)
        parked->map = code_map_retain(process->map);
    if (!parked->map) {
        count_note(&walked, STACK_NOTE_GONE);
        return true;
    }
    struct finding finding = {
        .stream = stream, .process = process, .map = parked->map, .may_wait = may_wait};
    if (walk_and_count(&finding, &walked))
        return true;
    mapping_release(parked->waits_for);
    parked->waits_for = mapping_retain(finding.waits_for);
    return false;
}
