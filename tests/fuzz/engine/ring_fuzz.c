/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring records: the input is the contents of a ring, with head and tail, as a hostile guest may
 * write them. The records that the drain accepts are added to stacks, as in the engine. */
#include "service/engine/guest/drain.h"
#include "service/engine/report/stacks.h"
#include "service/engine/report/thread_names.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sink {
    struct stacks *stacks;
    struct space space;
    struct thread_names names;
};

static void on_sample(void *context, const struct ring_sample *sample) {
    struct sink *sink = context;
    uint32_t id = stacks_add_sample(sink->stacks, 0, &sink->space, sample);
    for (uint32_t steps = 0; id != 0 && id != STACKS_FULL; steps++) {
        if (steps > RING_MAX_DEPTH + 1)
            abort();
        id = stacks_node(sink->stacks, id)->parent;
    }
    (void)thread_names_number(&sink->names, sink->stacks, sample->record.tid);
    (void)thread_names_label(&sink->names, sink->stacks, sample->label);
}

static void on_thread(void *context, const struct ring_thread *thread) {
    thread_names_learn(&((struct sink *)context)->names, thread);
}

static void on_unseen(void *context, const struct ring_unseen *unseen) {
    if (unseen->cpu_ns > DRAIN_MAX_WEIGHT)
        abort();
}

static void on_span(void *context, const struct ring_span *span) {
    stacks_add_span(((struct sink *)context)->stacks, span);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char *memory;
    size_t bytes = drain_memory_bytes(1, RING_MIN_BYTES);
    uint64_t head = 0, tail = 0;
    if (size < 16)
        return 0;
    if (!memory && posix_memalign((void **)&memory, RING_PAGE, bytes) != 0)
        return 0;
    memcpy(&head, data, 8);
    memcpy(&tail, data + 8, 8);
    memset(memory, 0, bytes);
    struct ring_header *header = (struct ring_header *)memory;
    *header = (struct ring_header){
        .magic = RING_MAGIC, .version = 1, .ring_count = 1, .ring_bytes = RING_MIN_BYTES};
    struct ring_control *control = (struct ring_control *)(memory + RING_PAGE);
    control->head = head;
    control->tail = tail;
    /* Written at the tail, so that it is read first; wraps around at the end of the ring. */
    for (size_t i = 16; i < size; i++)
        memory[2 * RING_PAGE + (tail + i - 16) % RING_MIN_BYTES] = (char)data[i];
    struct drain drain;
    if (drain_init(&drain, memory, bytes, NULL) != SONDE_OK)
        return 0;
    struct sink sink = {.stacks = stacks_create(1000, 0)};
    struct drain_sink calls = {&sink, on_sample, on_thread, on_unseen, on_sample, on_span, NULL};
    for (uint64_t now = 1; now < 4; now++)
        (void)drain_run(&drain, now * 2 * DRAIN_STALL_NS, now == 1 ? 200 : 0, &calls);
    stacks_release(sink.stacks);
    space_finish(&sink.space);
    thread_names_finish(&sink.names);
    return 0;
}
