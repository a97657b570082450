/* SPDX-License-Identifier: Apache-2.0
 *
 * H7: a growing heap dumps at each new maximum. Few of these dumps are kept, and none stays in the
 * program's directory. */
#include "tests/unit/engine/fake_guest.h"
#include "tests/unit/engine/heap/stage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DUMP_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static uint32_t left_over(void) {
    FILE *pipe = popen("ls -A | grep -c 'jeprof.*heap$'", "r");
    uint32_t count = 0;
    CHECK_INT(fscanf(pipe, "%u", &count), ==, 1);
    pclose(pipe);
    return count;
}

TEST(h7_dumps_at_new_maxima_are_saved_within_bounds) {
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
    CHECK(strstr(got.result.text.data, "\nMAPPED_LIBRARIES:\n") != NULL); /* complete */
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

static void on_switched(void *context, sonde_err err, const struct sonde_diag *diag,
                        const struct engine_heap_state *state, const struct engine_heap_dump *dumps,
                        size_t dump_count) {
}

/* Memory with 100 bytes, of which some are written. */
static int make_dump(size_t written, int seals) {
    int fd = memfd_create("dump", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && write(fd, (char[100]){0}, written) == (ssize_t)written);
    CHECK(ftruncate(fd, 100) == 0 && (!seals || fcntl(fd, F_ADD_SEALS, seals) == 0));
    return fd;
}

/* Closes fd. */
static void send_descriptor(struct fake_guest *guest, uint64_t skipped, int fd) {
    sonde_guest_v1_FromGuest message = sonde_guest_v1_FromGuest_init_zero;
    CHECK(fd >= 0);
    message.which_message = sonde_guest_v1_FromGuest_heap_gdump_tag;
    message.message.heap_gdump.bytes = 100;
    message.message.heap_gdump.skipped = skipped;
    fake_send(guest, &message, fd);
    close(fd);
}

static void send_gdump(struct fake_guest *guest, uint64_t skipped) {
    send_descriptor(guest, skipped, make_dump(100, DUMP_SEALS));
}

TEST(a_guest_that_sends_anything_but_a_whole_sealed_dump_is_disconnected) {
    struct stage stage = {0};
    int ends[2];
    place_make(&stage.place);
    stage.engine = place_engine(&stage.place);
    CHECK_INT(pipe(ends), ==, 0);
    int wrong[] = {
        make_dump(100, 0),
        make_dump(100, F_SEAL_SHRINK | F_SEAL_GROW),
        make_dump(100, F_SEAL_SHRINK | F_SEAL_WRITE),
        make_dump(0, DUMP_SEALS), /* a hole */
        open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
        open("/dev/zero", O_RDONLY | O_CLOEXEC),
        ends[0],
    };
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct fake_guest guest;
        fake_attach(&guest, stage.place.socket, "server", i);
        send_descriptor(&guest, 0, wrong[i]);
        CHECK(fake_is_disconnected(&guest));
        fake_close(&guest);
    }
    close(ends[1]);
    engine_destroy(stage.engine);
    place_remove(&stage.place);
}

TEST(h7_dumps_that_the_rate_limits_drop_are_counted_in_the_state) {
    struct stage stage = {.pid = getpid()};
    struct fake_guest guest;
    struct engine_heap_request request = {.verb = ENGINE_HEAP_GDUMP_ON};
    sonde_guest_v1_ToGuest command;
    sonde_guest_v1_FromGuest answer = sonde_guest_v1_FromGuest_init_zero;
    place_make(&stage.place);
    stage.engine = place_engine(&stage.place);
    fake_attach(&guest, stage.place.socket, "server", 1);
    stage.target.pid = request.target.pid = getpid();
    CHECK_INT(engine_heap(stage.engine, &request, on_switched, NULL, NULL), ==, SONDE_OK);
    fake_expect(&guest, sonde_guest_v1_ToGuest_heap_command_tag, &command);
    answer.which_message = sonde_guest_v1_FromGuest_heap_answer_tag;
    answer.message.heap_answer.sequence = command.message.heap_command.sequence;
    strcpy(answer.message.heap_answer.symbol, "mallctl");
    answer.message.heap_answer.profiling = answer.message.heap_answer.gdump = true;
    fake_send(&guest, &answer, -1);
    send_gdump(&guest, 0);
    send_gdump(&guest, 7); /* too soon: the eighth skipped dump */
    struct asked asked = {0};
    for (int i = 0; i < 300 && asked.state.gdump_skipped < 8; i++, usleep(10000))
        asked = stage_ask_verb(&stage, ENGINE_HEAP_LIST);
    CHECK_INT(asked.state.gdump_skipped, ==, 8);
    for (int i = 0; i < 300 && asked.dump_count == 0; i++, usleep(10000))
        asked = stage_ask_verb(&stage, ENGINE_HEAP_LIST);
    CHECK_INT(asked.dump_count, ==, 1);
    fake_close(&guest);
    engine_destroy(stage.engine);
    place_remove(&stage.place);
}
