/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/clients/cli/gate/runs.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

#define PERIOD_NS 1001001

static uint32_t add_location(struct sonde_profile *profile, uint64_t address, const char *name) {
    struct sonde_function function = {0};
    struct sonde_line line = {0};
    struct sonde_location location = {
        .address = address, .lines = &line, .line_count = 1, .kind = SONDE_FRAME_APPLICATION};
    uint32_t id = 0;
    CHECK_INT(sonde_profile_string(profile, name, strlen(name), &function.name), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_function(profile, &function, &line.function), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
    return id;
}

static struct sonde_profile *create(void) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    CHECK(profile != NULL);
    const struct sonde_profile_info info = {
        .period_type = types[1], .period = PERIOD_NS, .duration_ns = 1000000000, .default_type = 1};
    sonde_profile_set_info(profile, &info);
    return profile;
}

static struct sonde_profile *profile_of(const struct simulation *simulation,
                                        const struct sampling *sampling, size_t block) {
    struct sonde_profile *profile = create();
    uint32_t caller = add_location(profile, 1, "main");
    for (size_t i = 0; i < simulation->function_count; i++) {
        const struct verdict_cell *cell = &sampling->cells[i][block];
        char name[32];
        snprintf(name, sizeof name, "function %zu", i);
        uint32_t locations[] = {add_location(profile, 2 + i, name), caller};
        int64_t values[] = {(int64_t)cell->samples, (int64_t)cell->value * PERIOD_NS};
        const struct sonde_sample sample = {
            .locations = locations, .location_count = 2, .values = values};
        if (cell->samples > 0)
            CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    }
    return profile;
}

void runs_add(struct runs *runs, int side, struct simulation *simulation) {
    struct sampling *sampling = calloc(1, sizeof *sampling);
    CHECK(sampling != NULL);
    simulation_run(simulation, sampling);
    for (size_t i = 0; i < simulation->block_count; i++)
        runs->profiles[side][runs->counts[side]++] = profile_of(simulation, sampling, i);
    free(sampling);
}

struct sonde_comparison *runs_compare(const struct runs *runs, double confidence) {
    struct sonde_blocks_side sides[2];
    const struct sonde_comparison_options options = {.confidence = confidence,
                                                     .measure = VERDICT_AMOUNT};
    struct sonde_comparison *comparison = NULL;
    for (int i = 0; i < 2; i++)
        sides[i] = (struct sonde_blocks_side){
            .profiles = (const struct sonde_profile *const *)runs->profiles[i],
            .count = runs->counts[i],
            .scale = 1};
    CHECK_INT(sonde_comparison_create(sides, &options, &comparison, NULL), ==, SONDE_OK);
    return comparison;
}

void runs_finish(struct runs *runs) {
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < runs->counts[side]; i++)
            sonde_profile_destroy(runs->profiles[side][i]);
    *runs = (struct runs){0};
}
