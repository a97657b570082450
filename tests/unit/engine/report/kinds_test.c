/* SPDX-License-Identifier: Apache-2.0
 *
 * The kind of a frame is the same in a capture, in a profile read from a file, and in Symbolize. */
#include "api/profile/pprof/pprof.h"
#include "service/symbol/symbol.h"
#include "tests/unit/engine/scene.h"

#include <semaphore.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAIN, LIBRARY, VDSO, NAMED_JIT, NAMELESS_JIT, NOWHERE, PLACES, KERNEL = PLACES, ASKED };

static const enum sonde_frame_kind kinds[ASKED] = {
    [MAIN] = SONDE_FRAME_APPLICATION, [LIBRARY] = SONDE_FRAME_LIBRARY,
    [VDSO] = SONDE_FRAME_LIBRARY,     [NAMED_JIT] = SONDE_FRAME_JIT,
    [NAMELESS_JIT] = SONDE_FRAME_JIT, [NOWHERE] = SONDE_FRAME_UNKNOWN,
    [KERNEL] = SONDE_FRAME_KERNEL,
};

static char map_path[64];

static void find_places(uint64_t pcs[ASKED]) {
    char *code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    snprintf(map_path, sizeof map_path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(map_path, "w");
    CHECK(map);
    fprintf(map, "%llx 100 compiled\n", (unsigned long long)(uintptr_t)code);
    fclose(map);
    pcs[MAIN] = (uint64_t)(uintptr_t)burn_tree + 4;
    pcs[LIBRARY] = (uint64_t)(uintptr_t)getpid + 1;
    pcs[VDSO] = getauxval(AT_SYSINFO_EHDR) + 0x400;
    pcs[NAMED_JIT] = (uint64_t)(uintptr_t)code + 8;
    pcs[NAMELESS_JIT] = (uint64_t)(uintptr_t)code + 0x800;
    pcs[NOWHERE] = 0x10;
    pcs[KERNEL] = 0xffffffff81001000;
}

static void check_profile(const struct sonde_profile *profile) {
    struct sonde_sample sample = sonde_profile_sample(profile, 0);
    CHECK_INT(sample.location_count, ==, PLACES);
    for (int i = 0; i < PLACES; i++) {
        const struct sonde_location *location =
            sonde_profile_location(profile, sample.locations[i]);
        CHECK_INT(location->kind, ==, kinds[i]);
        CHECK_INT(location->mapping != 0, ==, i != NOWHERE);
        if (i != VDSO) /* there may be no function at that address */
            CHECK_INT(location->line_count > 0, ==, i != NAMELESS_JIT && i != NOWHERE);
    }
}

struct symbolized {
    sem_t done;
    enum sonde_frame_kind kinds[ASKED];
    char names[ASKED][64];
    sonde_err err;
};

static void on_symbols(void *context, sonde_err err, const struct sonde_diag *diag,
                       const struct engine_symbol *symbols, size_t count) {
    struct symbolized *got = context;
    got->err = err;
    for (size_t i = 0; i < count && i < ASKED; i++) {
        got->kinds[i] = symbols[i].kind;
        snprintf(got->names[i], sizeof got->names[i], "%s",
                 symbols[i].frame_count ? symbols[i].frames[0].name : "");
    }
    sem_post(&got->done);
}

static void check_symbolize(struct scene *scene, const uint64_t *pcs) {
    const struct engine_selector anything = {0};
    struct symbolized got = {.err = SONDE_INTERNAL};
    sem_init(&got.done, 0, 0);
    CHECK_INT(engine_symbolize(scene->engine, &anything, pcs, ASKED, false, on_symbols, &got, NULL),
              ==, SONDE_OK);
    sem_wait(&got.done);
    CHECK_INT(got.err, ==, SONDE_OK);
    for (int i = 0; i < ASKED; i++)
        CHECK_INT(got.kinds[i], ==, kinds[i]);
    CHECK_STR(got.names[MAIN], "burn_tree");
    CHECK_STR(got.names[NAMED_JIT], "compiled");
    CHECK_STR(got.names[NAMELESS_JIT], "");
}

TEST(the_kind_of_a_frame_is_the_same_in_all_answers) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    uint64_t pcs[ASKED], returns[PLACES];
    if (getauxval(AT_SYSINFO_EHDR) == 0)
        check_skip("no vdso on this machine");
    find_places(pcs);
    for (int i = 0; i < PLACES; i++)
        returns[i] = pcs[i] + (i > 0); /* all but the leaf are return addresses */
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    CHECK(fake_push_sample(&scene.guest, 1, 10 * MS, returns, PLACES));
    settle(&scene);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_OK);
    const struct sonde_profile *profile = scene.collected.profiles[0];
    struct sonde_profile *back;
    struct sonde_buf file = {0};
    check_profile(profile);
    CHECK_INT(sonde_pprof_write(profile, 0, &file, NULL), ==, SONDE_OK);
    CHECK_INT(sonde_pprof_read(sonde_buf_slice(&file), 1 << 24, &back, NULL), ==, SONDE_OK);
    check_profile(back);
    check_symbolize(&scene, pcs);
    sonde_profile_destroy(back);
    sonde_buf_finish(&file);
    scene_finish(&scene);
    unlink(map_path);
}
