/* SPDX-License-Identifier: Apache-2.0
 *
 * H7: a heap that grows and grows dumps at each new maximum; few of those are kept, and none stays
 * in the program's folder. */
#include "tests/unit/heap/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint32_t left_over(void) {
    FILE *pipe = popen("ls -A | grep -c 'jeprof.*heap$'", "r");
    uint32_t count = 0;
    CHECK_INT(fscanf(pipe, "%u", &count), ==, 1);
    pclose(pipe);
    return count;
}

TEST(h7_dumps_at_new_maxima_are_caught_bounded_and_kept) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    struct asked asked = stage_ask_verb(&stage, ENGINE_HEAP_GDUMP_ON);
    CHECK_INT(asked.err, ==, SONDE_OK);
    CHECK(asked.state.gdump);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
    for (int i = 0; i < 4; i++)
        stage_tell(&stage, 'd'); /* 80 new maxima */
    for (int i = 0; i < 200 && asked.dump_count == 0; i++, usleep(20000))
        asked = stage_ask_verb(&stage, ENGINE_HEAP_STATUS);
    CHECK(asked.dump_count >= 1 && asked.dump_count <= 5);
    CHECK(asked.state.gdump);
    struct got got =
        stage_get(&stage, (struct engine_heap_query){.name = "000001.heap", .raw = true});
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK(strncmp(got.result.text.data, "heap_v2/65536\n", 14) == 0);
    CHECK(strstr(got.result.text.data, "\nMAPPED_LIBRARIES:\n") != NULL); /* whole */
    got_finish(&got);
    CHECK_INT(left_over(), ==, 0);
    asked = stage_ask_verb(&stage, ENGINE_HEAP_GDUMP_OFF);
    CHECK_INT(asked.err, ==, SONDE_OK);
    CHECK(!asked.state.gdump);
    size_t before = asked.dump_count;
    stage_tell(&stage, 'd');
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_STATUS).dump_count, <=, before + 1);
    CHECK_INT(left_over(), ==, 0);
    stage_finish(&stage);
}
