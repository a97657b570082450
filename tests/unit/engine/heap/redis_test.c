/* SPDX-License-Identifier: Apache-2.0
 *
 * Debian's unmodified redis-server. */
#include "api/draw/draw.h"
#include "tests/unit/engine/heap/stage.h"
#include "tests/unit/temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[32], path[64];

static void load(const char *what) {
    char command[256];
    snprintf(command, sizeof command, "redis-benchmark -s %s -q -t set -n 20000 -r 20000 %s >&2",
             path, what);
    CHECK_INT(system(command), ==, 0);
}

static void begin(struct stage *stage) {
    if (access("/usr/bin/redis-server", X_OK) != 0)
        check_skip("no redis-server here");
    CHECK(mkdtemp(temporary_template(folder, sizeof folder)) != NULL);
    snprintf(path, sizeof path, "%s/redis.sock", folder);
    const char *const command[] = {"redis-server", "--port", "0",     "--unixsocket", path,
                                   "--save",       "",       "--dir", folder,         NULL};
    stage_init(stage, STAGE_PROF, command);
    for (int i = 0; i < 300 && access(path, F_OK) != 0; i++)
        usleep(20000);
}

static void end(struct stage *stage) {
    char command[64];
    stage_finish(stage);
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_INT(system(command), ==, 0);
}

static void check_formats(const struct sonde_profile *profile) {
    size_t count;
    const struct sonde_format_info *formats = sonde_format_table(&count);
    struct sonde_draw_options options = sonde_draw_defaults(profile);
    for (size_t i = 0; i < count; i++) {
        struct sonde_buf out = {0};
        struct sonde_diag diag = {0};
        if (!(formats[i].offered & SONDE_OF_HEAP) || !formats[i].is_drawn)
            continue;
        CHECK_INT(sonde_draw(profile, formats[i].format, &options, &out, &diag), ==, SONDE_OK);
        CHECK(out.len > 100);
        sonde_buf_finish(&out);
    }
}

TEST(redis_shows_what_it_holds_in_every_format) {
    struct stage stage;
    begin(&stage);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
    load("-d 4096");
    struct got got = stage_get(&stage, (struct engine_heap_query){0});
    CHECK_INT(got.err, ==, SONDE_OK);
    const struct sonde_profile *profile = got.result.profile;
    size_t space = sonde_profile_find_type(profile, "inuse_space");
    CHECK_INT(sonde_profile_total(profile, space), >, 40 << 20); /* of at least 50 MB */
    CHECK_INT(sonde_profile_total(profile, space), <, 400 << 20);
    check_formats(profile);
    got_finish(&got);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_DEACTIVATE).err, ==, SONDE_OK);
    load("-d 10"); /* it is still alive */
    end(&stage);
}

TEST(redis_is_sampled_for_cpu_and_heap_at_once) {
    struct stage stage;
    struct collected collected;
    struct engine_capture *capture;
    begin(&stage);
    struct engine_cpu_spec spec = {.target = stage.target, .frequency_hz = 99, .duration_ms = 1500};
    collect_init(&collected);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
    CHECK_INT(engine_capture_cpu(stage.engine, &spec, &collect_events, &collected, &capture, NULL),
              ==, SONDE_OK);
    load("-d 1000");
    collect_wait_end(&collected);
    engine_capture_release(capture);
    CHECK(collected.err == SONDE_OK || collected.err == SONDE_NO_CLOCK);
    load("-d 1000"); /* the hook still works after the capture has ended */
    struct got got = stage_get(&stage, (struct engine_heap_query){0});
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK(profile_bytes(got.result.profile, "main") > 0);
    got_finish(&got);
    collect_finish(&collected);
    end(&stage);
}
