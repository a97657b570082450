/* SPDX-License-Identifier: Apache-2.0
 *
 * RenderProfile, with the fake engine, which it does not ask. */
#include "api/profile/diff/diff.h"
#include "api/profile/pprof/pprof.h"
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <stdio.h>
#include <string.h>

#define MAX_FILE (size_t)((4u << 20) - 4096)

static struct setup setup;
static struct sonde_buf got;
static char media_type[64];

static bool on_event(struct watcher *watcher, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_RESULT)
        snprintf(media_type, sizeof media_type, "%s", event->result->media_type);
    else if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK)
        sonde_buf_append(&got, event->chunk.data, event->chunk.len);
    return true;
}

static sonde_err send(Sonde__V1__RenderProfileRequest *request, const struct sonde_buf *file,
                      int format, struct sonde_diag *diag) {
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct watcher watcher = {.on_message = on_event};
    rendering.format = (Sonde__V1__Format)format;
    request->rendering = &rendering;
    request->profile = (ProtobufCBinaryData){.len = file->len, .data = (uint8_t *)file->data};
    sonde_buf_finish(&got);
    media_type[0] = 0;
    watcher_start(&watcher, setup.client, &client_render_profile, &request->base, 10000);
    sonde_err err = watcher_end(&watcher, diag);
    sonde_buf_putc(&got, 0);
    return err;
}

static sonde_err render(const struct sonde_buf *file, int format, struct sonde_diag *diag) {
    Sonde__V1__RenderProfileRequest request = SONDE__V1__RENDER_PROFILE_REQUEST__INIT;
    return send(&request, file, format, diag);
}

static struct sonde_buf write(const struct sonde_profile *profile, int gzip_level) {
    struct sonde_buf file = {0};
    CHECK_INT(sonde_pprof_write(profile, gzip_level, &file, NULL), ==, SONDE_OK);
    return file;
}

static struct sonde_buf file_of(const char *name, int gzip_level) {
    struct sonde_profile *profile = fixture(name);
    struct sonde_buf file = write(profile, gzip_level);
    sonde_profile_destroy(profile);
    return file;
}

TEST(a_profile_file_is_drawn_in_every_format_of_its_kind) {
    static const char *const names[] = {"server", "memory", "heap"};
    size_t count;
    const struct sonde_format_info *table = sonde_format_table(&count);
    setup_begin(&setup);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct sonde_profile *profile = fixture(names[i]);
        struct sonde_buf file = write(profile, (int)i % 2);
        for (size_t row = 0; row < count; row++) {
            bool is_offered = sonde_format_from_output_of(sonde_slice_of(table[row].output),
                                                          sonde_draw_subject(profile)) != NULL;
            sonde_err err = render(&file, (int)table[row].format, NULL);
            if (table[row].is_drawn && is_offered != (err == SONDE_OK))
                check_fail(__FILE__, __LINE__, "%s as %s: %d", names[i], table[row].output, err);
            CHECK(err != SONDE_OK || got.len > 1);
        }
        sonde_buf_finish(&file);
        sonde_profile_destroy(profile);
    }
    setup_end(&setup);
}

TEST(a_file_with_a_base_is_drawn_as_a_difference) {
    Sonde__V1__RenderProfileRequest request = SONDE__V1__RENDER_PROFILE_REQUEST__INIT;
    struct sonde_profile *server = fixture("server"), *base = fixture("server"), *both;
    struct sonde_buf file;
    setup_begin(&setup);
    CHECK_INT(sonde_profile_scaled(server, 3, &both), ==, SONDE_OK);
    for (size_t i = 0; i < sonde_profile_sample_count(base); i++) {
        struct sonde_sample sample = sonde_profile_sample(base, i);
        struct sonde_label label = {0};
        uint32_t location;
        int64_t values[] = {-sample.values[0], -sample.values[1]};
        CHECK_INT(sonde_profile_add_location(
                      both, sonde_profile_location(both, sample.locations[0]), &location),
                  ==, 0);
        CHECK_INT(sonde_profile_string(both, "pprof::base", 11, &label.key), ==, 0);
        CHECK_INT(sonde_profile_string(both, "true", 4, &label.str), ==, 0);
        struct sonde_sample marked = {.locations = &location,
                                      .location_count = 1,
                                      .label_count = 1,
                                      .labels = &label,
                                      .values = values};
        CHECK_INT(sonde_profile_add_sample(both, &marked), ==, 0);
    }
    file = write(both, 1);
    CHECK_INT(render(&file, SONDE__V1__FORMAT__SVG_FLAMEGRAPH, NULL), ==, SONDE_OK);
    CHECK(strstr(got.data, "larger share than in the base") != NULL);
    CHECK_STR(media_type, "image/svg+xml");
    CHECK_INT(render(&file, SONDE__V1__FORMAT__COLLAPSED, NULL), ==, SONDE_OK);
    CHECK(strstr(got.data, " -") != NULL && strstr(got.data, "pprof::base") == NULL);
    CHECK_INT(render(&file, SONDE__V1__FORMAT__CHANGES, NULL), ==, SONDE_OK);
    CHECK(strstr(got.data, "\"measure\":\"share\",\"confidence\":0.95,") != NULL);
    CHECK_STR(media_type, "application/json");
    request.growth_only = true;
    CHECK_INT(send(&request, &file, SONDE__V1__FORMAT__COLLAPSED, NULL), ==, SONDE_OK);
    CHECK(strstr(got.data, " -") == NULL);
    sonde_buf_finish(&file);
    sonde_profile_destroy(both);
    sonde_profile_destroy(base);
    sonde_profile_destroy(server);
    setup_end(&setup);
}

TEST(a_file_that_is_not_pprof_is_refused_with_a_reason) {
    struct sonde_buf file = {0};
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    CHECK_INT(render(&file, SONDE__V1__FORMAT__COLLAPSED, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "profile: empty; send a pprof file, compressed with gzip or not");
    sonde_buf_puts(&file, "not a profile");
    CHECK_INT(render(&file, SONDE__V1__FORMAT__COLLAPSED, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strncmp(diag.text, "profile: not a pprof file: ", 27) == 0);
    sonde_buf_finish(&file);
    setup_end(&setup);
}

TEST(a_file_that_is_too_large_is_refused) {
    struct sonde_buf file = {0}, zeros = {0};
    struct sonde_diag diag = {0};
    setup_begin(&setup);
    sonde_buf_extend(&file, MAX_FILE + 1);
    memset(file.data, 0, file.len);
    CHECK_INT(render(&file, SONDE__V1__FORMAT__COLLAPSED, &diag), ==, SONDE_TOO_LARGE);
    CHECK_STR(diag.text, "profile: larger than 4190208 bytes; use `sonde draw FILE`");
    file.len = MAX_FILE;
    CHECK_INT(render(&file, SONDE__V1__FORMAT__COLLAPSED, &diag), ==, SONDE_INVALID_ARGUMENT);
    sonde_buf_finish(&file);
    sonde_buf_finish(&zeros);
    setup_end(&setup);
}

TEST(an_unknown_sample_type_of_a_file_is_refused) {
    Sonde__V1__RenderProfileRequest request = SONDE__V1__RENDER_PROFILE_REQUEST__INIT;
    struct sonde_buf file = file_of("heap", 1);
    setup_begin(&setup);
    request.sample_type = (char *)"inuse_objects";
    CHECK_INT(send(&request, &file, SONDE__V1__FORMAT__COLLAPSED, NULL), ==, SONDE_OK);
    request.sample_type = (char *)"nothing";
    CHECK_INT(send(&request, &file, SONDE__V1__FORMAT__COLLAPSED, NULL), ==,
              SONDE_INVALID_ARGUMENT);
    sonde_buf_finish(&file);
    setup_end(&setup);
}
