/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/perf_file/parts.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_WORDS 4096u

/* A record of words, and an event that says what they are. */
struct scene {
    struct perf_file file;
    uint64_t words[MAX_WORDS];
    size_t count;
};

static void begin(struct scene *scene, uint64_t sample_type, uint32_t type, uint16_t misc) {
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof attr,
                                   .sample_type = sample_type,
                                   .sample_period = 77,
                                   .sample_regs_user = 0xff0fff,
                                   .sample_id_all = 1};
    struct perf_event_header header = {.type = type, .misc = misc};
    memset(scene, 0, sizeof *scene);
    perf_events_init(&scene->file.events);
    CHECK_INT(perf_events_add(&scene->file.events,
                              (struct sonde_slice){(const char *)&attr, sizeof attr},
                              (struct sonde_slice){"", 0}),
              ==, SONDE_OK);
    perf_events_name_rest(&scene->file.events);
    memcpy(scene->words, &header, sizeof header);
    scene->count = 1;
}

static void put(struct scene *scene, uint64_t word) {
    CHECK(scene->count < MAX_WORDS);
    scene->words[scene->count++] = word;
}

/* From a block of its own size, so that a sanitizer sees reads outside of it. */
static bool parse(struct scene *scene, struct perf_file_record *record, uint8_t **block) {
    struct perf_event_header header;
    bool is_needed;
    size_t size = scene->count * sizeof(uint64_t);
    memcpy(&header, scene->words, sizeof header);
    header.size = (uint16_t)size;
    memcpy(scene->words, &header, sizeof header);
    *block = malloc(size);
    CHECK(*block != NULL);
    memcpy(*block, scene->words, size);
    return perf_record_parse(&scene->file, *block, size, record, &is_needed);
}

static void finish(struct scene *scene, uint8_t *block) {
    free(block);
    perf_events_finish(&scene->file.events);
}

TEST(a_chain_is_split_into_the_kernels_and_the_processes_part) {
    struct scene scene;
    struct perf_file_record record;
    uint8_t *block;
    begin(&scene, PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN, PERF_RECORD_SAMPLE, 1);
    const uint64_t words[] = {
        5, 7, 6, (uint64_t)PERF_CONTEXT_KERNEL, 10, 11, (uint64_t)PERF_CONTEXT_USER, 20, 21};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        put(&scene, words[i]);
    CHECK(parse(&scene, &record, &block));
    CHECK_INT(record.pid, ==, 7);
    CHECK_INT(record.sample.kernel_count, ==, 2);
    CHECK_INT(record.sample.kernel[1], ==, 11);
    CHECK_INT(record.sample.user_count, ==, 2);
    CHECK_INT(record.sample.user[0], ==, 20);
    CHECK_INT(record.sample.period, ==, 77);
    CHECK(record.sample.is_in_kernel);
    finish(&scene, block);
}

TEST(a_chain_is_cut_at_its_limit) {
    struct scene scene;
    struct perf_file_record record;
    uint8_t *block;
    begin(&scene, PERF_SAMPLE_CALLCHAIN, PERF_RECORD_SAMPLE, 2);
    put(&scene, PERF_FILE_MAX_CHAIN + 100);
    put(&scene, (uint64_t)PERF_CONTEXT_USER);
    for (uint32_t i = 1; i < PERF_FILE_MAX_CHAIN + 100; i++)
        put(&scene, i);
    CHECK(parse(&scene, &record, &block));
    CHECK_INT(record.sample.user_count, ==, PERF_FILE_MAX_CHAIN);
    finish(&scene, block);
}

TEST(a_chain_that_is_longer_than_its_record_is_refused) {
    struct scene scene;
    struct perf_file_record record;
    uint8_t *block;
    begin(&scene, PERF_SAMPLE_CALLCHAIN, PERF_RECORD_SAMPLE, 2);
    put(&scene, UINT64_MAX / 8);
    put(&scene, 1);
    CHECK(!parse(&scene, &record, &block));
    finish(&scene, block);
}

TEST(registers_get_their_dwarf_numbers_and_segments_are_skipped) {
    struct scene scene;
    struct perf_file_record record;
    uint8_t *block;
    begin(&scene, PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER, PERF_RECORD_SAMPLE, 2);
    put(&scene, PERF_SAMPLE_REGS_ABI_64);
    for (uint64_t i = 0; i < 20; i++) /* AX to IP, three segments, R8 to R15 */
        put(&scene, 100 + i);
    put(&scene, 16);
    put(&scene, 1);
    put(&scene, 2);
    put(&scene, 8);
    CHECK(parse(&scene, &record, &block));
    CHECK(record.sample.has_registers);
    CHECK_INT(record.sample.registers.value[UNWIND_REG_PC], ==, 108);
    CHECK_INT(record.sample.registers.value[UNWIND_REG_SP], ==, 107);
    CHECK_INT(record.sample.registers.value[UNWIND_REG_RBX], ==, 101);
    CHECK_INT(record.sample.registers.value[8], ==, 112);
    CHECK_INT(record.sample.registers.value[15], ==, 119);
    CHECK_INT(record.sample.stack_bytes, ==, 8);
    finish(&scene, block);
}

TEST(a_copy_that_is_longer_than_was_asked_for_is_refused) {
    struct scene scene;
    struct perf_file_record record;
    uint8_t *block;
    begin(&scene, PERF_SAMPLE_STACK_USER, PERF_RECORD_SAMPLE, 2);
    put(&scene, 8);
    put(&scene, 1);
    put(&scene, 16);
    CHECK(!parse(&scene, &record, &block));
    finish(&scene, block);
}

TEST(ids_beyond_their_limit_are_left_out) {
    struct scene scene;
    struct perf_event_attr attr = {.size = sizeof attr};
    size_t count = PERF_MAX_IDS + 10;
    uint64_t *ids = calloc(count, sizeof *ids);
    begin(&scene, 0, PERF_RECORD_SAMPLE, 2);
    CHECK(ids != NULL);
    for (size_t i = 0; i < count; i++)
        ids[i] = i + 1;
    CHECK_INT(perf_events_add(&scene.file.events,
                              (struct sonde_slice){(const char *)&attr, sizeof attr},
                              (struct sonde_slice){(const char *)ids, count * sizeof *ids}),
              ==, SONDE_OK);
    CHECK_INT(scene.file.events.id_count, ==, PERF_MAX_IDS);
    CHECK(perf_events_find(&scene.file.events, count) == NULL);
    free(ids);
    finish(&scene, NULL);
}

TEST(entries_beyond_their_limit_are_refused) {
    struct scene scene;
    struct perf_event_attr attr = {.size = sizeof attr};
    const struct sonde_slice bytes = {(const char *)&attr, sizeof attr}, none = {"", 0};
    begin(&scene, 0, PERF_RECORD_SAMPLE, 2);
    for (uint32_t i = 1; i < PERF_MAX_ENTRIES; i++)
        CHECK_INT(perf_events_add(&scene.file.events, bytes, none), ==, SONDE_OK);
    CHECK_INT(perf_events_add(&scene.file.events, bytes, none), ==, SONDE_TOO_LARGE);
    finish(&scene, NULL);
}

TEST(build_ids_beyond_their_limit_are_left_out) {
    struct perf_features features;
    struct {
        struct perf_event_header header;
        int32_t pid;
        uint8_t build_id[24];
        char path[28];
    } record = {.header = {.size = sizeof record}};
    perf_features_init(&features);
    for (uint32_t i = 0; i < PERF_FILE_MAX_BUILD_IDS + 5; i++) {
        snprintf(record.path, sizeof record.path, "/lib/%u", i);
        CHECK(perf_features_add_build_id(&features, (const uint8_t *)&record, sizeof record));
    }
    CHECK_INT(features.build_id_count, ==, PERF_FILE_MAX_BUILD_IDS);
    perf_features_finish(&features);
}
