/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation sites of heap profiles that are made here. */
#include "clients/cli/verbs/leaks/sites.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

static struct sonde_profile *make_profile(const char *type) {
    struct sonde_value_type types[] = {{type, "bytes"}};
    struct sonde_profile *profile = sonde_profile_create(types, 1, 0);
    CHECK(profile);
    return profile;
}

static uint32_t string_of(struct sonde_profile *profile, const char *text) {
    uint32_t id;
    CHECK(!sonde_profile_string(profile, text, strlen(text), &id));
    return id;
}

/* A stack of functions, leaf first, each in a location of its own. */
static void add(struct sonde_profile *profile, const char *const *names, uint32_t count,
                int64_t bytes) {
    uint32_t locations[16];
    for (uint32_t i = 0; i < count; i++) {
        struct sonde_function function = {.name = string_of(profile, names[i])};
        struct sonde_line line = {0};
        CHECK(!sonde_profile_add_function(profile, &function, &line.function));
        struct sonde_location location = {
            .address = 4096 + line.function, .line_count = 1, .lines = &line};
        CHECK(!sonde_profile_add_location(profile, &location, &locations[i]));
    }
    struct sonde_sample sample = {
        .locations = locations, .location_count = count, .values = &bytes};
    CHECK(!sonde_profile_add_sample(profile, &sample));
}

#define ADD(profile, bytes, ...)                     \
    add(profile, (const char *const[]){__VA_ARGS__}, \
        (uint32_t)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *)), bytes)

static void take(struct sites *sites, size_t block, struct sonde_profile *profile) {
    struct sonde_diag diag = {0};
    CHECK(!sites_add(sites, block, profile, &diag));
    sonde_profile_destroy(profile);
}

static const struct site *find(const struct sites *sites, const char *name) {
    for (size_t i = 0; i < sites->count; i++)
        if (strcmp(sites->items[i].name, name) == 0)
            return &sites->items[i];
    return NULL;
}

TEST(a_site_is_what_called_the_allocator_and_its_containers) {
    struct sites sites;
    struct sonde_profile *profile = make_profile("inuse_space");
    ADD(profile, 100, "malloc", "operator new(unsigned long)", "std::vector<int>::push_back(int)",
        "shop::open()", "serve", "main");
    ADD(profile, 7, "alloc::alloc::alloc", "<alloc::vec::Vec<T> as Clone>::clone", "bank::pay");
    ADD(profile, 1, "malloc", "std::thread::start()");
    ADD(profile, 5, "malloc",
        "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)",
        "shop::Order& std::vector<shop::Order>::emplace_back<int>(int&&)",
        "std::vector<int> shop::collect<int>()", "main");
    sites_init(&sites);
    take(&sites, 0, profile);
    CHECK(find(&sites, "shop::open()") && find(&sites, "bank::pay"));
    CHECK(find(&sites, "std::thread::start()"));
    CHECK(find(&sites, "std::vector<int> shop::collect<int>()"));
    CHECK_STR(find(&sites, "shop::open()")->callers[0], "serve");
    CHECK_STR(find(&sites, "shop::open()")->callers[1], "main");
    CHECK(!find(&sites, "shop::open()")->callers[2]);
    CHECK_INT(sites.totals[0], ==, 113);
    sites_finish(&sites);
}

TEST(blocks_are_apart_and_callers_are_those_of_the_last_largest_stack) {
    struct sites sites;
    struct sonde_profile *first = make_profile("inuse_space"),
                         *second = make_profile("inuse_space");
    ADD(first, 100, "malloc", "keep", "old", "main");
    ADD(second, 10, "malloc", "keep", "small", "main");
    ADD(second, 50, "malloc", "keep", "new", "main");
    sites_init(&sites);
    take(&sites, 0, first);
    take(&sites, 3, second);
    const struct site *keep = find(&sites, "keep");
    CHECK(keep);
    CHECK_INT(keep->values[0], ==, 100);
    CHECK_INT(keep->values[1], ==, 0);
    CHECK_INT(keep->values[3], ==, 60);
    CHECK_STR(keep->callers[0], "new");
    sites_finish(&sites);
}

TEST(sites_beyond_the_limit_are_counted_and_stay_in_the_total) {
    struct sites sites;
    struct sonde_profile *profile = make_profile("inuse_space");
    for (uint32_t i = 0; i < SITES_MAX + 3; i++) {
        char name[24];
        snprintf(name, sizeof name, "site_%u", i);
        ADD(profile, 2, "malloc", name);
    }
    sites_init(&sites);
    take(&sites, 0, profile);
    CHECK_INT(sites.count, ==, SITES_MAX);
    CHECK_INT(sites.left_out, ==, 3);
    CHECK_INT(sites.totals[0], ==, 2 * (SITES_MAX + 3));
    sites_finish(&sites);
}

TEST(a_profile_without_live_memory_is_refused) {
    struct sites sites;
    struct sonde_diag diag = {0};
    struct sonde_profile *profile = make_profile("cpu");
    sites_init(&sites);
    CHECK_INT(sites_add(&sites, 0, profile, &diag), ==, SONDE_INVALID_ARGUMENT);
    sonde_profile_destroy(profile);
    sites_finish(&sites);
}
