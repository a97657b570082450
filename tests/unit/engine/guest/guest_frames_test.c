/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/guest/guest_frames.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <pb_encode.h>
#include <stdlib.h>
#include <unistd.h>

struct heard {
    int count;
    uint64_t generation;
    sonde_err answer;
};

static sonde_err on_message(void *context, const frames_from_guest *message) {
    struct heard *heard = context;
    heard->count++;
    if (message->which_message == sonde_guest_v1_FromGuest_maps_tag)
        heard->generation = message->message.maps.generation;
    return heard->answer;
}

static size_t encode(const frames_from_guest *message, char *out, size_t size) {
    pb_ostream_t stream = pb_ostream_from_buffer((pb_byte_t *)out + 4, size - 4);
    CHECK(pb_encode(&stream, sonde_guest_v1_FromGuest_fields, message));
    uint32_t len = (uint32_t)stream.bytes_written;
    memcpy(out, &len, sizeof len);
    return len + 4;
}

static size_t maps_frame(uint64_t generation, char *out, size_t size) {
    frames_from_guest message = sonde_guest_v1_FromGuest_init_zero;
    message.which_message = sonde_guest_v1_FromGuest_maps_tag;
    message.message.maps.generation = generation;
    message.message.maps.mappings_count = 2;
    memset(message.message.maps.mappings[1].path, 'p', 255);
    return encode(&message, out, size);
}

TEST(frames_come_out_whole_however_the_bytes_arrive) {
    char bytes[4096];
    size_t len = maps_frame(1, bytes, sizeof bytes);
    len += maps_frame(2, bytes + len, sizeof bytes - len);
    for (size_t step = 1; step <= len; step++) {
        struct frames frames = {0};
        struct heard heard = {0};
        for (size_t at = 0; at < len; at += step) {
            size_t part = len - at < step ? len - at : step;
            CHECK_INT(frames_feed(&frames, bytes + at, part, on_message, &heard), ==, SONDE_OK);
        }
        CHECK_INT(heard.count, ==, 2);
        CHECK_INT(heard.generation, ==, 2);
        CHECK_INT(frames.partial.len, ==, 0);
        frames_finish(&frames);
    }
}

static sonde_err pause_after(void *context, const frames_from_guest *message) {
    struct frames *frames = context;
    frames->is_paused = true;
    return SONDE_OK;
}

TEST(a_pause_leaves_the_following_frames_for_later) {
    char bytes[4096];
    size_t len = 0;
    for (uint64_t i = 1; i <= 3; i++)
        len += maps_frame(i, bytes + len, sizeof bytes - len);
    struct frames frames = {0};
    struct heard heard = {0};
    CHECK_INT(frames_feed(&frames, bytes, len - 1, pause_after, &frames), ==, SONDE_OK);
    CHECK(frames.is_paused);
    CHECK_INT(frames.partial.len, ==, len - 1 - len / 3);
    CHECK_INT(frames_feed(&frames, "", 0, on_message, &heard), ==, SONDE_OK);
    CHECK(!frames.is_paused);
    CHECK_INT(heard.generation, ==, 2); /* the third is not complete */
    CHECK_INT(frames_feed(&frames, bytes + len - 1, 1, on_message, &heard), ==, SONDE_OK);
    CHECK_INT(heard.generation, ==, 3);
    CHECK_INT(heard.count, ==, 2);
    frames_finish(&frames);
}

TEST(a_length_out_of_bounds_ends_the_stream) {
    static const uint32_t lengths[] = {0, FRAMES_MAX_BYTES + 1, 0xffffffffu};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct frames frames = {0};
        struct heard heard = {0};
        CHECK_INT(frames_feed(&frames, (const char *)&lengths[i], 4, on_message, &heard), ==,
                  SONDE_PROTOCOL);
        CHECK_INT(heard.count, ==, 0);
        frames_finish(&frames);
    }
}

TEST(bytes_that_are_no_message_and_a_handlers_refusal_end_the_stream) {
    struct frames frames = {0};
    struct heard heard = {0};
    CHECK_INT(frames_feed(&frames, "\3\0\0\0\xff\xff\xff", 7, on_message, &heard), ==,
              SONDE_PROTOCOL);
    frames_finish(&frames);
    char bytes[4096];
    size_t len = maps_frame(1, bytes, sizeof bytes);
    heard.answer = SONDE_PROTOCOL;
    CHECK_INT(frames_feed(&frames, bytes, len, on_message, &heard), ==, SONDE_PROTOCOL);
    frames_finish(&frames);
}

TEST(descriptors_are_taken_in_order_and_the_rest_is_closed) {
    struct frames frames = {0};
    int fds[FRAMES_MAX_FDS + 1];
    for (uint32_t i = 0; i <= FRAMES_MAX_FDS; i++) {
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        CHECK_INT(frames_add_fd(&frames, fds[i]), ==,
                  i < FRAMES_MAX_FDS ? SONDE_OK : SONDE_PROTOCOL);
    }
    CHECK_INT(frames_take_fd(&frames), ==, fds[0]);
    CHECK_INT(fcntl(fds[FRAMES_MAX_FDS], F_GETFD), ==, -1);
    frames_finish(&frames);
    for (uint32_t i = 1; i < FRAMES_MAX_FDS; i++)
        CHECK_INT(fcntl(fds[i], F_GETFD), ==, -1);
    CHECK_INT(close(fds[0]), ==, 0);
    CHECK_INT(frames_take_fd(&frames), ==, -1);
}

TEST(the_largest_answer_fits_its_frame) {
    frames_to_guest message = sonde_guest_v1_ToGuest_init_zero;
    char out[FRAMES_TO_BYTES];
    message.which_message = sonde_guest_v1_ToGuest_table_tag;
    memset(&message.message.table, 0xff, sizeof message.message.table);
    CHECK_INT(frames_encode(&message, out), >, 40);
    message.which_message = sonde_guest_v1_ToGuest_refusal_tag;
    memset(&message.message, 0, sizeof message.message);
    memset(message.message.refusal.reason, 'x', sizeof message.message.refusal.reason - 1);
    CHECK_INT(frames_encode(&message, out), >, 127);
}
