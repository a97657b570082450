/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/check.h"
#include "tests/unit/engine/collect.h"
#include "tests/unit/engine/fake_guest.h"

#include "service/symbol/symbol.h"

#include <stdio.h>
#include <unistd.h>

#define MS 1000000ull

static const struct engine_selector anything;
static const struct engine_cpu_spec spec = {.frequency_hz = 100};

struct scene {
    struct place place;
    struct engine *engine;
    struct fake_guest guest;
};

static void scene_init(struct scene *scene) {
    place_make(&scene->place);
    scene->engine = place_engine(&scene->place);
    fake_attach(&scene->guest, scene->place.socket, "server", 1);
}

static void scene_finish(struct scene *scene) {
    fake_close(&scene->guest);
    engine_destroy(scene->engine);
    place_remove(&scene->place);
}

static void stop(struct scene *scene, struct collected *collected) {
    collect_init(collected);
    CHECK_INT(engine_session_stop(scene->engine, &anything, &collect_events, collected, NULL), ==,
              SONDE_OK);
}

static void push(struct scene *scene, uint32_t count) {
    const uint64_t pcs[] = {(uint64_t)(uintptr_t)getpid};
    for (uint32_t i = 0; i < count; i++)
        CHECK(fake_push_sample(&scene->guest, 1, 10 * MS, pcs, 1));
    fake_wait_drained(&scene->guest);
}

TEST(a_session_is_started_once_and_its_result_is_kept) {
    struct scene scene;
    struct engine_session_info info;
    struct sonde_diag diag = {0};
    struct collected first, second, again;
    scene_init(&scene);
    CHECK_INT(engine_session_start(scene.engine, &spec, 60000, "ann", &info, NULL), ==, SONDE_OK);
    CHECK_STR(info.owner, "ann");
    CHECK_INT(info.lease_until_unix_ns - info.start_unix_ns, ==, 60000 * (int64_t)MS);
    wait_for_state(scene.engine, fake_start(&scene.guest).sequence);
    push(&scene, 17);
    CHECK_INT(engine_session_start(scene.engine, &spec, 0, "bob", NULL, &diag), ==,
              SONDE_SESSION_BUSY);
    CHECK(strstr(diag.text, "started by ann") != NULL);
    stop(&scene, &first);
    stop(&scene, &second);
    fake_stop(&scene.guest);
    collect_wait_end(&first);
    collect_wait_end(&second);
    CHECK_INT(sonde_profile_total(first.profiles[0], 0), ==, 17);
    CHECK_INT(sonde_profile_total(second.profiles[0], 0), ==, 17);
    stop(&scene, &again);
    collect_wait_end(&again);
    CHECK_INT(sonde_profile_total(again.profiles[0], 0), ==, 17);
    CHECK_STR(again.clock, "fake");
    CHECK_STR(collect_comment(again.profiles[0], "rate: "), "rate: 100 Hz");
    CHECK_INT(sonde_profile_info(again.profiles[0])->period, ==, 10 * MS);
    collect_finish(&first);
    collect_finish(&second);
    collect_finish(&again);
    scene_finish(&scene);
}

TEST(stopping_without_any_session_returns_an_empty_profile) {
    struct scene scene;
    struct collected collected;
    scene_init(&scene);
    stop(&scene, &collected);
    collect_wait_end(&collected);
    CHECK_INT(collected.err, ==, SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(collected.profiles[0]), ==, 0);
    collect_finish(&collected);
    scene_finish(&scene);
}

TEST(a_lease_that_runs_out_ends_the_session_and_keeps_its_result) {
    struct scene scene;
    struct collected collected;
    scene_init(&scene);
    CHECK_INT(engine_session_start(scene.engine, &spec, 300, NULL, NULL, NULL), ==, SONDE_OK);
    wait_for_state(scene.engine, fake_start(&scene.guest).sequence);
    push(&scene, 5);
    fake_stop(&scene.guest);
    for (int i = 0; i < 500; i++) { /* no event reports the end of the lease */
        if (engine_session_start(scene.engine, &spec, 60000, NULL, NULL, NULL) != SONDE_OK) {
            usleep(10000);
            continue;
        }
        fake_start(&scene.guest);
        stop(&scene, &collected);
        fake_stop(&scene.guest);
        collect_wait_end(&collected);
        CHECK_INT(sonde_profile_total(collected.profiles[0], 0), ==, 0);
        collect_finish(&collected);
        scene_finish(&scene);
        return;
    }
    check_fail(__FILE__, __LINE__, "the lease did not end the session");
}

TEST(a_session_counts_as_a_capture_and_ends_with_its_target) {
    struct scene scene;
    struct engine_counters counters;
    scene_init(&scene);
    CHECK_INT(engine_session_start(scene.engine, &spec, 0, NULL, NULL, NULL), ==, SONDE_OK);
    engine_counters(scene.engine, &counters);
    CHECK_INT(counters.captures_running, ==, 1);
    fake_start(&scene.guest);
    fake_close(&scene.guest);
    for (int i = 0; i < 500 && counters.captures_running > 0; i++) {
        usleep(10000);
        engine_counters(scene.engine, &counters);
    }
    CHECK_INT(counters.captures_running, ==, 0);
    scene_finish(&scene);
}

TEST(an_engine_that_shuts_down_answers_waiting_stops) {
    struct scene scene;
    struct collected collected;
    scene_init(&scene);
    CHECK_INT(engine_session_start(scene.engine, &spec, 0, NULL, NULL, NULL), ==, SONDE_OK);
    fake_start(&scene.guest);
    stop(&scene, &collected); /* the guest never confirms the stop */
    engine_destroy(scene.engine);
    scene.engine = NULL;
    CHECK_INT(collected.end_count, ==, 1);
    collect_finish(&collected);
    scene_finish(&scene);
}

struct answers {
    _Atomic int done;
    sonde_err err;
    char first[64], second[64], module[64];
    int quality;
};

static void on_symbols(void *context, sonde_err err, const struct sonde_diag *diag,
                       const struct engine_symbol *symbols, size_t count) {
    struct answers *answers = context;
    answers->err = err;
    if (!err && count == 3) {
        const char *first = symbols[0].frame_count ? symbols[0].frames[0].name : "";
        const char *second = symbols[1].frame_count ? symbols[1].frames[0].name : "";
        snprintf(answers->first, sizeof answers->first, "%s", first);
        snprintf(answers->second, sizeof answers->second, "%s", second);
        snprintf(answers->module, sizeof answers->module, "%s", symbols[0].module);
        answers->quality = symbols[2].quality;
    }
    answers->done = 1;
}

__attribute__((noinline, used)) void known_function(void) {
    __asm__ volatile("nop; nop; nop; nop");
}

TEST(addresses_are_named_without_any_capture) {
    struct scene scene;
    struct answers answers = {0};
    uint64_t start = (uint64_t)(uintptr_t)known_function;
    const uint64_t addresses[] = {start, start + 1, 0x10};
    scene_init(&scene);
    CHECK_INT(
        engine_symbolize(scene.engine, &anything, addresses, 3, false, on_symbols, &answers, NULL),
        ==, SONDE_OK);
    for (int i = 0; i < 20000 && !answers.done; i++)
        usleep(1000);
    CHECK_INT(answers.done, ==, 1);
    CHECK_INT(answers.err, ==, SONDE_OK);
    CHECK_STR(answers.first, "known_function");
    CHECK_STR(answers.second, "known_function");
    CHECK_STR(answers.module, "session_test");
    CHECK_INT(answers.quality, ==, SYMBOL_NONE);
    CHECK_INT(engine_symbolize(scene.engine, &anything, addresses, ENGINE_MAX_ADDRESSES + 1, false,
                               on_symbols, &answers, NULL),
              ==, SONDE_TOO_LARGE);
    scene_finish(&scene);
}

struct work {
    struct engine_work base;
    _Atomic int *ran;
};

static void run_work(struct engine_work *base) {
    atomic_fetch_add(((struct work *)base)->ran, 1);
}

TEST(submitted_work_runs_and_none_is_lost_at_the_end) {
    struct scene scene;
    _Atomic int ran = 0;
    static struct work works[500];
    int accepted = 0;
    scene_init(&scene);
    for (int i = 0; i < 500; i++) {
        works[i] = (struct work){.base = {.run = run_work}, .ran = &ran};
        accepted += engine_submit(scene.engine, &works[i].base);
    }
    engine_destroy(scene.engine);
    scene.engine = NULL;
    CHECK_INT(accepted, ==, 500);
    CHECK_INT(ran, ==, 500);
    scene_finish(&scene);
}
