/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/event.h"

#include "tests/unit/check.h"

#include <string.h>

/* "a, b or c" */
static void add_name(struct sonde_buf *list, const char *name, bool is_first, bool is_last) {
    sonde_buf_printf(list, "%s%s", is_first ? "" : is_last ? " or " : ", ", name);
}

TEST(help_names_each_mode) {
    struct sonde_buf list = {0};
    for (size_t i = 0; i < SONDE_MODES; i++)
        add_name(&list, sonde_events[i].mode, i == 0, i == SONDE_MODES - 1);
    CHECK_STR(list.data, SONDE_MODE_NAMES);
    sonde_buf_finish(&list);
}

TEST(help_names_each_recorded_event) {
    struct sonde_buf list = {0};
    for (size_t i = 0; i < SONDE_EVENTS; i++)
        if (sonde_events[i].is_recorded)
            add_name(&list, sonde_events[i].name, list.len == 0, i == SONDE_COUNTED - 1);
    CHECK_STR(list.data, SONDE_EVENT_NAMES);
    sonde_buf_finish(&list);
}

TEST(help_names_each_counted_event) {
    struct sonde_buf list = {0};
    for (size_t i = SONDE_COUNTED; i < SONDE_EVENTS; i++)
        add_name(&list, sonde_events[i].name, list.len == 0, i == SONDE_EVENTS - 1);
    CHECK_STR(list.data, SONDE_COUNTED_NAMES);
    sonde_buf_finish(&list);
}

TEST(counted_events_are_counts_or_bytes_and_neither_modes_nor_recorded) {
    for (size_t i = SONDE_COUNTED; i < SONDE_EVENTS; i++) {
        CHECK_STR(sonde_events[i].amount.type.unit, i == SONDE_GROWTH ? "bytes" : "count");
        CHECK(!sonde_events[i].is_recorded && !sonde_events[i].mode);
        CHECK(sonde_event_is_counted((enum sonde_event_id)i));
    }
    CHECK(!sonde_event_is_counted(SONDE_MEM_INUSE));
    CHECK(!sonde_event_is_counted(SONDE_EVENTS));
}

TEST(only_types_of_counted_events_have_counted_words) {
    CHECK_STR(sonde_event_counted_words("page_faults"), "page faults");
    CHECK(!sonde_event_counted_words("growth")); /* of bytes */
    CHECK(!sonde_event_counted_words("samples"));
    CHECK(!sonde_event_counted_words("alloc_objects"));
    CHECK(!sonde_event_counted_words("cpu"));
}

TEST(a_counted_event_is_found_by_its_whole_name) {
    CHECK_INT(sonde_event_find_counted(sonde_slice_of("page-faults")), ==, SONDE_PAGE_FAULTS);
    CHECK_INT(sonde_event_find_counted(sonde_slice_of("branch-misses")), ==, SONDE_BRANCH_MISSES);
    CHECK_INT(sonde_event_find_counted(sonde_slice_of("page-fault")), ==, SONDE_EVENTS);
    CHECK_INT(sonde_event_find_counted(sonde_slice_of("on-cpu")), ==, SONDE_EVENTS);
    CHECK_INT(sonde_event_find_counted(sonde_slice_of("")), ==, SONDE_EVENTS);
}

TEST(each_row_is_whole_and_differs_from_the_others) {
    for (size_t i = 0; i < SONDE_EVENTS; i++) {
        const struct sonde_event *event = &sonde_events[i];
        CHECK(event->name && event->amount.type.type && event->amount.type.unit);
        CHECK(event->amount.words && event->title && event->rate_unit && event->per_rate > 0);
        CHECK(!event->is_recorded || (event->pyroscope_id && event->pyroscope_name));
        CHECK((i < SONDE_MODES) == (event->mode != NULL));
        CHECK(strcmp(event->name, SONDE_NO_EVENT) != 0);
        for (size_t k = 0; k < i; k++) {
            CHECK(strcmp(event->name, sonde_events[k].name) != 0);
            CHECK(strcmp(event->amount.type.type, sonde_events[k].amount.type.type) != 0);
        }
    }
}

TEST(a_pyroscope_id_joins_its_parts) {
    for (size_t i = 0; i < SONDE_EVENTS; i++) {
        const struct sonde_event *event = &sonde_events[i];
        struct sonde_buf id = {0};
        if (!event->is_recorded)
            continue;
        sonde_buf_printf(&id, "%s:%s:%s:%s:%s", event->pyroscope_name, event->amount.type.type,
                         event->amount.type.unit, event->period.type, event->period.unit);
        CHECK_STR(event->pyroscope_id, id.data);
        sonde_buf_finish(&id);
    }
}

TEST(a_senders_type_is_found_by_name_type_and_alias) {
    static const char *const types[][2] = {
        {"cpu", "on-cpu"},          {"on-cpu", "on-cpu"},         {"off_cpu", "off-cpu"},
        {"events", "off-cpu"},      {"alloc_space", "mem-alloc"}, {"inuse_space", "mem-inuse"},
        {"mem-alloc", "mem-alloc"},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        CHECK_STR(sonde_event_of_type(types[i][0])->name, types[i][1]);
    CHECK(!sonde_event_of_type("wall"));
    CHECK(!sonde_event_of_type(""));
    CHECK(!sonde_event_find("wall"));
}

TEST(an_event_without_a_row_is_a_sum_of_bytes_or_nanoseconds) {
    CHECK_STR(sonde_event_unit("mem-mine"), "bytes");
    CHECK_STR(sonde_event_unit("mine"), "nanoseconds");
    CHECK_STR(sonde_event_unit("mem-inuse"), "bytes");
    CHECK(!sonde_event_is_state("mem-mine"));
    CHECK(!sonde_event_is_state("mem-alloc"));
    CHECK(sonde_event_is_state("mem-inuse"));
}

TEST(a_mode_is_found_by_its_whole_name) {
    CHECK_INT(sonde_event_find_mode(sonde_slice_of("cpu")), ==, SONDE_ON_CPU);
    CHECK_INT(sonde_event_find_mode(sonde_slice_of("off-cpu")), ==, SONDE_OFF_CPU);
    CHECK_INT(sonde_event_find_mode(sonde_slice_of("cp")), ==, SONDE_MODES);
    CHECK_INT(sonde_event_find_mode(sonde_slice_of("on-cpu")), ==, SONDE_MODES);
    CHECK_INT(sonde_event_find_mode(sonde_slice_of("")), ==, SONDE_MODES);
}
