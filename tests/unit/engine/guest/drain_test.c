/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings of well-behaved and of hostile guests. The memory ends at an inaccessible page, so that an
 * access beyond it crashes. */
#include "service/engine/guest/drain.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <sys/mman.h>

#define RING_BYTES RING_MIN_BYTES

struct seen {
    uint32_t samples, threads, unseen, depth;
    uint64_t weight_ns, last_pc, span;
};

static void on_sample(void *context, const struct ring_sample *sample) {
    struct seen *seen = context;
    seen->samples++;
    seen->weight_ns += sample->weight_ns;
    seen->depth = sample->record.depth;
    if (seen->depth > 0)
        seen->last_pc = sample->pcs[seen->depth - 1];
}

static void on_thread(void *context, const struct ring_thread *thread) {
    ((struct seen *)context)->threads++;
}

static void on_unseen(void *context, const struct ring_unseen *unseen) {
    ((struct seen *)context)->unseen++;
}

static void on_span(void *context, const struct ring_span *span) {
    ((struct seen *)context)->span = span->request;
}

struct fixture {
    char *memory;
    size_t bytes;
    struct drain drain;
    struct seen seen;
    struct drain_sink sink;
};

static void fixture_init(struct fixture *fixture, uint32_t rings) {
    memset(fixture, 0, sizeof *fixture);
    fixture->bytes = drain_memory_bytes(rings, RING_BYTES);
    fixture->memory = mmap(NULL, fixture->bytes + 4096, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(fixture->memory != MAP_FAILED);
    mprotect(fixture->memory + fixture->bytes, 4096, PROT_NONE);
    struct ring_header *header = (struct ring_header *)fixture->memory;
    *header = (struct ring_header){
        .magic = RING_MAGIC, .version = 1, .ring_count = rings, .ring_bytes = RING_BYTES};
    struct sonde_diag diag = {0};
    CHECK_INT(drain_init(&fixture->drain, fixture->memory, fixture->bytes, &diag), ==, SONDE_OK);
    fixture->sink = (struct drain_sink){&fixture->seen, on_sample, on_thread, on_unseen,
                                        on_sample,      on_span,   NULL};
}

static void fixture_finish(struct fixture *fixture) {
    munmap(fixture->memory, fixture->bytes + 4096);
}

static struct ring_control *control_of(struct fixture *fixture) {
    return fixture->drain.rings[0].control;
}

static char *data_at(struct fixture *fixture, uint64_t count) {
    return fixture->drain.rings[0].data + count % RING_BYTES;
}

/* Writes a record at head that claims to have the given size. */
static void push(struct fixture *fixture, const struct ring_record *record, uint32_t bytes,
                 uint32_t claimed) {
    struct ring_control *control = control_of(fixture);
    char *place = data_at(fixture, control->head);
    memcpy(place + 4, (const char *)record + 4, bytes - 4);
    ((struct ring_record *)place)->size = claimed;
    control->head += bytes;
}

static void push_sample(struct fixture *fixture, uint16_t depth, uint64_t weight_ns) {
    _Alignas(8) char bytes[sizeof(struct ring_sample) + RING_MAX_DEPTH * 8] = {0};
    struct ring_sample *sample = (struct ring_sample *)bytes;
    uint32_t size = (uint32_t)(sizeof *sample + depth * 8);
    sample->record.kind = RING_RECORD_SAMPLE;
    sample->record.depth = depth;
    sample->weight_ns = weight_ns;
    for (uint16_t i = 0; i < depth; i++)
        sample->pcs[i] = 0x1000 + i;
    push(fixture, &sample->record, size, size);
}

TEST(a_record_is_delivered_unchanged_and_its_memory_is_zeroed) {
    struct fixture fixture;
    fixture_init(&fixture, 1);
    push_sample(&fixture, 3, 1000);
    CHECK_INT(drain_run(&fixture.drain, 1, 0, &fixture.sink), ==, 0);
    CHECK_INT(fixture.seen.samples, ==, 1);
    CHECK_INT(fixture.seen.weight_ns, ==, 1000);
    CHECK_INT(fixture.seen.last_pc, ==, 0x1002);
    CHECK_INT(control_of(&fixture)->tail, ==, control_of(&fixture)->head);
    for (uint32_t i = 0; i < 256; i++)
        CHECK_INT(*data_at(&fixture, i), ==, 0);
    fixture_finish(&fixture);
}

TEST(a_span_of_the_wrong_size_is_corrupt) {
    struct fixture fixture;
    fixture_init(&fixture, 1);
    struct {
        struct ring_span span;
        uint64_t more;
    } record = {.span = {.record = {.kind = RING_RECORD_SPAN}, .request = 7}};
    push(&fixture, &record.span.record, sizeof record.span, sizeof record.span);
    CHECK_INT(drain_run(&fixture.drain, 1, 0, &fixture.sink), ==, 0);
    CHECK_INT(fixture.seen.span, ==, 7);
    record.span.request = 8;
    push(&fixture, &record.span.record, sizeof record, sizeof record);
    CHECK_INT(drain_run(&fixture.drain, 2, 0, &fixture.sink), ==, 1);
    CHECK_INT(fixture.seen.span, ==, 7);
    fixture_finish(&fixture);
}

TEST(a_reserved_record_is_waited_for) {
    struct fixture fixture;
    fixture_init(&fixture, 1);
    struct ring_record record = {.kind = RING_RECORD_PAD};
    push(&fixture, &record, sizeof record, 0);
    CHECK_INT(drain_run(&fixture.drain, 1, 0, &fixture.sink), ==, 0);
    CHECK_INT(control_of(&fixture)->tail, ==, 0);
    ((struct ring_record *)data_at(&fixture, 0))->size = sizeof record;
    CHECK_INT(drain_run(&fixture.drain, 2, 0, &fixture.sink), ==, 0);
    CHECK_INT(control_of(&fixture)->tail, ==, sizeof record);
    fixture_finish(&fixture);
}

TEST(many_laps_with_padding_lose_nothing) {
    struct fixture fixture;
    fixture_init(&fixture, 1);
    uint64_t pushed = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        uint16_t depth = (uint16_t)(i % (RING_MAX_DEPTH + 1));
        uint64_t size = sizeof(struct ring_sample) + depth * 8u;
        uint64_t rest = RING_BYTES - control_of(&fixture)->head % RING_BYTES;
        if (rest < size) {
            struct ring_record pad = {.kind = RING_RECORD_PAD};
            char *place = data_at(&fixture, control_of(&fixture)->head);
            memcpy(place + 4, (char *)&pad + 4, 4);
            ((struct ring_record *)place)->size = (uint32_t)rest;
            control_of(&fixture)->head += rest;
        }
        push_sample(&fixture, depth, 7);
        pushed++;
        if (i % 40 == 0)
            CHECK_INT(drain_run(&fixture.drain, i + 1, 0, &fixture.sink), ==, 0);
    }
    CHECK_INT(drain_run(&fixture.drain, 99999, 0, &fixture.sink), ==, 0);
    CHECK_INT(fixture.seen.samples, ==, pushed);
    CHECK_INT(fixture.seen.weight_ns, ==, pushed * 7);
    fixture_finish(&fixture);
}

TEST(a_header_that_does_not_fit_its_memory_is_refused) {
    struct fixture fixture;
    struct drain drain;
    fixture_init(&fixture, 2);
    struct ring_header *header = (struct ring_header *)fixture.memory;
    struct ring_header good = *header;
    header->ring_count = 3;
    CHECK_INT(drain_init(&drain, fixture.memory, fixture.bytes, NULL), ==, SONDE_CORRUPT);
    header->ring_count = RING_MAX_RINGS + 1;
    CHECK_INT(drain_init(&drain, fixture.memory, fixture.bytes, NULL), ==, SONDE_CORRUPT);
    header->ring_count = 0;
    CHECK_INT(drain_init(&drain, fixture.memory, fixture.bytes, NULL), ==, SONDE_CORRUPT);
    *header = good;
    header->ring_bytes = RING_BYTES + 8;
    CHECK_INT(drain_init(&drain, fixture.memory, fixture.bytes, NULL), ==, SONDE_CORRUPT);
    header->ring_bytes = 1ull << 63;
    CHECK_INT(drain_init(&drain, fixture.memory, fixture.bytes, NULL), ==, SONDE_CORRUPT);
    *header = good;
    header->magic++;
    CHECK_INT(drain_init(&drain, fixture.memory, fixture.bytes, NULL), ==, SONDE_CORRUPT);
    *header = good;
    CHECK_INT(drain_init(&drain, fixture.memory, 100, NULL), ==, SONDE_CORRUPT);
    CHECK_INT(drain_init(&drain, fixture.memory, fixture.bytes, NULL), ==, SONDE_OK);
    fixture_finish(&fixture);
}

/* Sizes beyond the ring, beyond the head, or that are not multiples of 8. */
TEST(a_bad_size_is_counted_and_later_records_are_read) {
    static const uint32_t sizes[] = {4,           12,        24 + 1, RING_BYTES, RING_BYTES + 8,
                                     0xfffffff8u, 0x7ffffff8};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct fixture fixture;
        fixture_init(&fixture, 1);
        struct ring_record record = {.kind = RING_RECORD_SAMPLE};
        push(&fixture, &record, sizeof record, sizes[i]);
        CHECK_INT(drain_run(&fixture.drain, 1, 0, &fixture.sink), ==, 1);
        CHECK_INT(fixture.seen.samples, ==, 0);
        push_sample(&fixture, 2, 5);
        CHECK_INT(drain_run(&fixture.drain, 2, 0, &fixture.sink), ==, 0);
        CHECK_INT(fixture.seen.samples, ==, 1);
        fixture_finish(&fixture);
    }
}

TEST(a_false_depth_drops_that_record_only) {
    struct fixture fixture;
    fixture_init(&fixture, 1);
    struct ring_sample sample = {.record = {.kind = RING_RECORD_SAMPLE, .depth = 100}};
    push(&fixture, &sample.record, sizeof sample, sizeof sample);
    push_sample(&fixture, 1, 5);
    CHECK_INT(drain_run(&fixture.drain, 1, 0, &fixture.sink), ==, 1);
    CHECK_INT(fixture.seen.samples, ==, 1);
    sample = (struct ring_sample){.record = {.kind = RING_RECORD_SAMPLE}, .end = RING_END_COUNT};
    push(&fixture, &sample.record, sizeof sample, sizeof sample);
    sample = (struct ring_sample){.record = {.kind = RING_RECORD_SAMPLE}, .weight_ns = UINT64_MAX};
    push(&fixture, &sample.record, sizeof sample, sizeof sample);
    sample = (struct ring_sample){.record = {.kind = 77}};
    push(&fixture, &sample.record, sizeof sample, sizeof sample);
    struct ring_thread thread = {.record = {.kind = RING_RECORD_THREAD}, .label_len = 65};
    push(&fixture, &thread.record, sizeof thread, sizeof thread);
    struct ring_unseen unseen = {.record = {.kind = RING_RECORD_UNSEEN}, .cpu_ns = UINT64_MAX};
    push(&fixture, &unseen.record, sizeof unseen, sizeof unseen);
    CHECK_INT(drain_run(&fixture.drain, 2, 0, &fixture.sink), ==, 5);
    CHECK_INT(fixture.seen.samples + fixture.seen.threads + fixture.seen.unseen, ==, 1);
    fixture_finish(&fixture);
}

TEST(a_head_out_of_reach_resynchronises_and_after_many_the_ring_is_left) {
    struct fixture fixture;
    fixture_init(&fixture, 1);
    for (uint32_t i = 0; i <= DRAIN_MAX_RESYNCS; i++) {
        control_of(&fixture)->head += RING_BYTES + 8;
        CHECK_INT(drain_run(&fixture.drain, 1, 0, &fixture.sink), ==, 1);
    }
    push_sample(&fixture, 1, 5);
    CHECK_INT(drain_run(&fixture.drain, 1, 0, &fixture.sink), ==, 0);
    CHECK_INT(fixture.seen.samples, ==, 0);
    fixture_finish(&fixture);
}

TEST(a_tail_the_guest_moves_is_not_believed) {
    struct fixture fixture;
    fixture_init(&fixture, 1);
    push_sample(&fixture, 1, 5);
    control_of(&fixture)->tail = 1ull << 40;
    CHECK_INT(drain_run(&fixture.drain, 1, 0, &fixture.sink), ==, 0);
    CHECK_INT(fixture.seen.samples, ==, 1);
    fixture_finish(&fixture);
}

TEST(a_record_that_is_never_published_is_given_up_when_others_wait_behind_it) {
    struct fixture fixture;
    fixture_init(&fixture, 1);
    struct ring_record record = {.kind = RING_RECORD_PAD};
    push(&fixture, &record, sizeof record, 0);
    for (uint32_t i = 0; i < 600; i++)
        push_sample(&fixture, 1, 5);
    CHECK_INT(control_of(&fixture)->head, >, RING_BYTES / 2);
    CHECK_INT(drain_run(&fixture.drain, 1000, 0, &fixture.sink), ==, 0);
    CHECK_INT(drain_run(&fixture.drain, 1000 + DRAIN_STALL_NS, 0, &fixture.sink), ==, 0);
    CHECK_INT(drain_run(&fixture.drain, 1002 + DRAIN_STALL_NS, 0, &fixture.sink), ==, 1);
    push_sample(&fixture, 1, 5);
    CHECK_INT(drain_run(&fixture.drain, 1003 + DRAIN_STALL_NS, 0, &fixture.sink), ==, 0);
    CHECK_INT(fixture.seen.samples, ==, 1);
    fixture_finish(&fixture);
}

TEST(a_budget_ends_a_run_and_the_next_run_reads_the_rest) {
    struct fixture fixture;
    fixture_init(&fixture, 1);
    for (uint32_t i = 0; i < 100; i++)
        push_sample(&fixture, 1, 5);
    uint64_t size = sizeof(struct ring_sample) + 8;
    CHECK_INT(drain_run(&fixture.drain, 1, 10 * size, &fixture.sink), ==, 0);
    CHECK_INT(fixture.seen.samples, ==, 10);
    CHECK(fixture.drain.has_more);
    CHECK_INT(drain_run(&fixture.drain, 2, 1000 * size, &fixture.sink), ==, 0);
    CHECK_INT(fixture.seen.samples, ==, 100);
    CHECK(!fixture.drain.has_more);
    fixture_finish(&fixture);
}

TEST(random_memory_never_leads_outside) {
    struct fixture fixture;
    srand(7);
    for (int round = 0; round < 300; round++) {
        fixture_init(&fixture, 1);
        for (size_t i = RING_PAGE; i < fixture.bytes; i++)
            fixture.memory[i] = (char)(rand() % 4 ? 0 : rand());
        control_of(&fixture)->head = (uint64_t)rand() % (RING_BYTES + 64) & ~7ull;
        control_of(&fixture)->tail = 0;
        for (uint64_t now = 1; now < 4; now++)
            (void)drain_run(&fixture.drain, now, 0, &fixture.sink);
        fixture_finish(&fixture);
    }
}

static bool is_over(void *context) {
    return ((struct seen *)context)->samples >= 20;
}

TEST(a_run_ends_when_its_time_is_up_and_the_next_one_goes_on) {
    struct fixture fixture;
    fixture_init(&fixture, 1);
    for (int i = 0; i < 80; i++)
        push_sample(&fixture, 3, 1000);
    fixture.sink.is_over = is_over;
    CHECK_INT(drain_run(&fixture.drain, 1, 0, &fixture.sink), ==, 0);
    CHECK(fixture.drain.has_more);
    CHECK_INT(fixture.seen.samples, ==, 2 * DRAIN_LOOK - 1);
    CHECK_INT(fixture.drain.records, ==, 2 * DRAIN_LOOK - 1);
    fixture.sink.is_over = NULL;
    CHECK_INT(drain_run(&fixture.drain, 2, 0, &fixture.sink), ==, 0);
    CHECK_INT(fixture.seen.samples, ==, 80);
    CHECK(!fixture.drain.has_more);
    fixture_finish(&fixture);
}

/* Records of 64 bytes, which fill the ring several times. */
TEST(discarded_records_are_counted_and_leave_zeros_for_the_next_ones) {
    const uint16_t depth = (64 - sizeof(struct ring_sample)) / 8;
    struct fixture fixture;
    fixture_init(&fixture, 1);
    push_sample(&fixture, depth, 1000);
    CHECK_INT(drain_run(&fixture.drain, 1, 0, &fixture.sink), ==, 0);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 700; i++)
            push_sample(&fixture, depth, 1000);
        CHECK_INT(drain_discard(&fixture.drain), ==, 700);
        CHECK_INT(control_of(&fixture)->tail, ==, control_of(&fixture)->head);
        for (size_t i = 0; i < RING_BYTES; i++)
            CHECK_INT(fixture.drain.rings[0].data[i], ==, 0);
    }
    push_sample(&fixture, depth, 1000);
    CHECK_INT(drain_run(&fixture.drain, 2, 0, &fixture.sink), ==, 0);
    CHECK_INT(fixture.seen.samples, ==, 2);
    CHECK_INT(drain_discard(&fixture.drain), ==, 0);
    fixture_finish(&fixture);
}

TEST(a_ring_with_an_impossible_head_is_not_discarded) {
    struct fixture fixture;
    fixture_init(&fixture, 1);
    control_of(&fixture)->head = RING_BYTES + 8;
    CHECK_INT(drain_discard(&fixture.drain), ==, 0);
    control_of(&fixture)->head = 12;
    CHECK_INT(drain_discard(&fixture.drain), ==, 0);
    CHECK_INT(control_of(&fixture)->tail, ==, 0);
    fixture_finish(&fixture);
}
