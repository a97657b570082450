/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile of several processes: each stack begins with its process, in every format. */
#include "api/draw/draw.h"
#include "api/profile/pprof/pprof.h"
#include "service/engine/report/report.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

static void add(struct report_part *part, const char *process, uint32_t pid, uint64_t n) {
    struct count_key key = {.thread = stacks_add_thread(part->stacks, pid, pid + 1, "io")};
    uint32_t parent = stacks_add_process(part->stacks, process);
    parent = stacks_add_frame(part->stacks, parent, 0, 0x1001);
    key.stack = stacks_add_frame(part->stacks, parent, 0, 0x2000 | RING_PC_EXACT);
    CHECK_INT(counts_add(&part->counts, &key, n, 0), ==, SONDE_OK);
}

/* In two parts, as after a full stack table. In each, the processes have other numbers. */
static struct sonde_profile *make_profile(void) {
    struct report_input input = {.part_count = 2, .frequency_hz = 99, .target_name = "@all"};
    struct sonde_profile *profile;
    input.metadata.period_ns = 10000000;
    for (int i = 0; i < 2; i++)
        input.parts[i].stacks = stacks_create(0, 0);
    add(&input.parts[0], "web", 12, 2);
    add(&input.parts[0], "db", 15, 3);
    add(&input.parts[1], "db", 15, 4);
    add(&input.parts[1], "web", 13, 5);
    CHECK_INT(report_build(&input, NULL, &profile, NULL), ==, SONDE_OK);
    report_input_finish(&input);
    return profile;
}

static const char *root_of(const struct sonde_profile *profile, size_t index,
                           enum sonde_frame_kind *kind) {
    struct sonde_sample sample = sonde_profile_sample(profile, index);
    const struct sonde_location *root =
        sonde_profile_location(profile, sample.locations[sample.location_count - 1]);
    *kind = root->kind;
    CHECK_INT(root->line_count, ==, 1);
    return sonde_profile_text(profile,
                              sonde_profile_function(profile, root->lines[0].function)->name);
}

static int64_t samples_below(const struct sonde_profile *profile, const char *name) {
    enum sonde_frame_kind kind;
    int64_t sum = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        if (strcmp(root_of(profile, i, &kind), name) == 0)
            sum += sonde_profile_sample(profile, i).values[0];
        CHECK_INT(kind, ==, SONDE_FRAME_NOTE);
    }
    return sum;
}

TEST(the_deepest_stack_keeps_its_process_and_its_note) {
    enum { DEPTH = 512 + 127 }; /* frames of a process and of the kernel, as seen from outside */
    struct report_input input = {.part_count = 1};
    struct report_part *part = &input.parts[0];
    struct count_key key = {0};
    struct sonde_profile *profile;
    enum sonde_frame_kind kind;
    part->stacks = stacks_create(0, 0);
    uint32_t parent = stacks_add_process(part->stacks, "web");
    parent = stacks_add_frame(part->stacks, parent, STACKS_NOTE, STACK_NOTE_TRUNCATED);
    for (uint64_t i = 0; i < DEPTH; i++)
        parent = stacks_add_frame(part->stacks, parent, 0, 0x1001 + i);
    key.stack = parent;
    CHECK_INT(counts_add(&part->counts, &key, 1, 0), ==, SONDE_OK);
    CHECK_INT(report_build(&input, NULL, &profile, NULL), ==, SONDE_OK);
    CHECK_INT(sonde_profile_sample(profile, 0).location_count, ==, DEPTH + 2);
    CHECK_STR(root_of(profile, 0, &kind), "web");
    report_input_finish(&input);
    sonde_profile_destroy(profile);
}

TEST(processes_are_merged_by_name_and_told_apart_by_the_label_pid) {
    struct sonde_profile *profile = make_profile();
    CHECK_INT(samples_below(profile, "web"), ==, 7);
    CHECK_INT(samples_below(profile, "db"), ==, 7);
    uint32_t pids = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        for (uint32_t j = 0; j < sample.label_count; j++)
            if (strcmp(sonde_profile_text(profile, sample.labels[j].key), "pid") == 0)
                pids |= 1u << sample.labels[j].num;
    }
    CHECK_INT(pids, ==, 1u << 12 | 1u << 13 | 1u << 15);
    CHECK_STR(sonde_profile_comment(profile, 0), "target: @all");
    sonde_profile_destroy(profile);
}

/* Those that show stacks; the others list leaves or addresses. */
static bool shows_stacks(const struct sonde_format_info *format) {
    return format->is_drawn && format->offered & SONDE_OF_CPU &&
           format->format != SONDE_FORMAT_PPROF && format->format != SONDE_FORMAT_LEGACY_CPU;
}

TEST(every_format_keeps_the_processes) {
    struct sonde_profile *profile = make_profile(), *read = NULL;
    struct sonde_draw_options options = sonde_draw_defaults(profile);
    struct sonde_diag diag = {0};
    size_t count, shown = 0;
    const struct sonde_format_info *formats = sonde_format_table(&count);
    for (size_t i = 0; i < count; i++) {
        struct sonde_buf out = {0};
        if (!shows_stacks(&formats[i]))
            continue;
        CHECK_INT(sonde_draw(profile, formats[i].format, &options, &out, &diag), ==, SONDE_OK);
        shown++;
        if (!memmem(out.data, out.len, "web", 3) || !memmem(out.data, out.len, "db", 2))
            check_fail(__FILE__, __LINE__, "%s does not name the processes", formats[i].output);
        sonde_buf_finish(&out);
    }
    CHECK_INT(shown, >, 5);
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_PPROF, &options, &out, &diag), ==, SONDE_OK);
    CHECK_INT(sonde_pprof_read(sonde_buf_slice(&out), 1 << 24, &read, &diag), ==, SONDE_OK);
    CHECK_INT(samples_below(read, "web"), ==, 7);
    sonde_buf_finish(&out);
    sonde_profile_destroy(read);
    sonde_profile_destroy(profile);
}
