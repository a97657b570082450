/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/store/watch/shop.h"

#include "service/watch/level.h"
#include "service/watch/watcher.h"
#include "tests/unit/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NOISE     0.03 /* standard deviation of a function's cost in a slot on a host */
#define SAMPLE_NS 52631579

static const char *const first_names[SHOP_FUNCTIONS] = {
    "hash", "parse", "write", "read", "copy", "sort", "find", "lock", "zip", "log", "wait", "free"};

static uint64_t id_of(const char *text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state) {
    double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(2 * M_PI * uniform(state));
}

void shop_init(struct shop *shop, struct store *store, uint64_t seed) {
    *shop = (struct shop){.store = store, .version = "1.4", .unnamed = SIZE_MAX, .state = seed};
    memcpy(shop->names, first_names, sizeof first_names);
    for (size_t host = 0; host < SHOP_HOSTS; host++)
        for (size_t i = 0; i < SHOP_FUNCTIONS; i++)
            shop->costs[host][i] = 100.0 / (double)(i + 2);
}

void shop_multiply(struct shop *shop, size_t function, double factor) {
    for (size_t host = 0; host < SHOP_HOSTS; host++)
        shop->costs[host][function] *= factor;
}

static void put_names(struct shop *shop) {
    const char *const outer[] = {"handle", "main"};
    struct store_line lines[SHOP_FUNCTIONS + 2];
    struct store_frame frames[SHOP_FUNCTIONS + 2];
    struct store_stack stacks[SHOP_FUNCTIONS];
    uint64_t paths[SHOP_FUNCTIONS][3];
    struct store_put_result result = {0};
    for (size_t i = 0; i < SHOP_FUNCTIONS + 2; i++) {
        lines[i].function = i < SHOP_FUNCTIONS ? shop->names[i] : outer[i - SHOP_FUNCTIONS];
        lines[i].file = "";
        lines[i].line = 0;
        frames[i] = (struct store_frame){.id = id_of(lines[i].function),
                                         .build_id = "",
                                         .module = "/usr/bin/shop",
                                         .version = i == shop->unnamed ? 1 : 2,
                                         .lines = &lines[i],
                                         .line_count = i != shop->unnamed};
    }
    for (size_t i = 0; i < SHOP_FUNCTIONS; i++) {
        const uint64_t path[] = {frames[i].id, id_of("handle"), id_of("main")};
        memcpy(paths[i], path, sizeof path);
        stacks[i] = (struct store_stack){"shop", frames[i].id ^ 1, paths[i], 3};
    }
    const struct store_batch batch = {.stacks = stacks,
                                      .stack_count = SHOP_FUNCTIONS,
                                      .frames = frames,
                                      .frame_count = SHOP_FUNCTIONS + 2};
    CHECK_INT(shop->store->ops->put(shop->store, &batch, &result, NULL), ==, SONDE_OK);
}

static void put_window(struct shop *shop, size_t host) {
    static const char *const threads[] = {""};
    const struct store_label label = {"version", shop->version};
    uint64_t stack[SHOP_FUNCTIONS];
    uint8_t thread[SHOP_FUNCTIONS] = {0};
    int64_t value[SHOP_FUNCTIONS], whole = 0;
    char name[16], instance[40];
    struct store_put_result result = {0};
    uint32_t rows = 0;
    for (size_t i = 0; i < SHOP_FUNCTIONS; i++) {
        double cost = shop->costs[host][i] * (1 + NOISE * normal(&shop->state));
        if (cost <= 0)
            continue;
        stack[rows] = id_of(shop->names[i]) ^ 1;
        value[rows] = (int64_t)(cost * 1e9);
        whole += value[rows++];
    }
    snprintf(name, sizeof name, "web-%zu", host);
    snprintf(instance, sizeof instance, "%032zx", host + 1);
    const struct store_window window = {.source = host + 1,
                                        .seq = (uint64_t)shop->slot + 1,
                                        .epoch = 1,
                                        .event = "on-cpu",
                                        .service = "shop",
                                        .host = name,
                                        .instance = instance,
                                        .pid = 1,
                                        .begin_unix_s = SHOP_BEGIN + shop->slot * LEVEL_SLOT_S,
                                        .length_s = LEVEL_SLOT_S,
                                        .period_ns = SAMPLE_NS,
                                        .weight = 1,
                                        .clock = "",
                                        .samples = (uint64_t)(whole / SAMPLE_NS),
                                        .labels = &label,
                                        .label_count = 1,
                                        .threads = threads,
                                        .thread_count = 1,
                                        .stack = stack,
                                        .thread = thread,
                                        .value = value,
                                        .row_count = rows};
    const struct store_batch batch = {.windows = &window, .window_count = 1};
    CHECK_INT(shop->store->ops->put(shop->store, &batch, &result, NULL), ==, SONDE_OK);
    CHECK_INT(result.stored, ==, 1);
}

void shop_pass(struct shop *shop, size_t slots) {
    put_names(shop);
    for (size_t i = 0; i < slots; i++) {
        for (size_t host = 0; host < SHOP_HOSTS; host++)
            put_window(shop, host);
        shop->slot++;
    }
}

int64_t shop_now(const struct shop *shop) {
    return SHOP_BEGIN + shop->slot * LEVEL_SLOT_S + WATCHER_LATE_S;
}
