/* SPDX-License-Identifier: Apache-2.0 */
#include "service/function_times/function_times.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

static uint32_t add_location(struct sonde_profile *profile, const char *name) {
    struct sonde_function function = {0};
    struct sonde_line line = {0};
    struct sonde_location location = {.line_count = 1, .lines = &line};
    uint32_t id;
    CHECK(sonde_profile_string(profile, name, strlen(name), &function.name) == SONDE_OK);
    CHECK(sonde_profile_add_function(profile, &function, &line.function) == SONDE_OK);
    location.address = line.function;
    CHECK(sonde_profile_add_location(profile, &location, &id) == SONDE_OK);
    return id;
}

/* A profile with one sample of 1 ms; the names are separated by blanks, leaf first. */
static struct sonde_profile *make_profile(const char *type, const char *stack) {
    const struct sonde_value_type types[] = {{"samples", "count"}, {type, "nanoseconds"}};
    const int64_t values[] = {1, 1000000};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    uint32_t locations[16], count = 0;
    char copy[200], *rest = copy;
    snprintf(copy, sizeof copy, "%s", stack);
    for (char *name = strsep(&rest, " "); name; name = strsep(&rest, " "))
        locations[count++] = add_location(profile, name);
    const struct sonde_sample sample = {
        .locations = locations, .location_count = count, .values = values};
    CHECK(sonde_profile_add_sample(profile, &sample) == SONDE_OK);
    return profile;
}

static void add(struct function_times *times, const char *target, const char *stack) {
    struct sonde_profile *profile = make_profile("cpu", stack);
    function_times_add(times, target, profile);
    sonde_profile_destroy(profile);
}

struct wanted {
    const char *target, *function;
    uint64_t cpu_ns;
    size_t sums, found;
};

static void look(void *context, const struct function_time *time) {
    struct wanted *wanted = context;
    wanted->sums++;
    if (strcmp(time->target, wanted->target) == 0 && strcmp(time->function, wanted->function) == 0)
        wanted->cpu_ns += time->cpu_ns, wanted->found++;
}

static struct wanted find(struct function_times *times, const char *target, const char *function) {
    struct wanted wanted = {.target = target, .function = function};
    function_times_list(times, look, &wanted);
    return wanted;
}

static uint64_t milliseconds(struct function_times *times, const char *target,
                             const char *function) {
    struct wanted wanted = find(times, target, function);
    CHECK(wanted.found == 1);
    return wanted.cpu_ns / 1000000;
}

static struct function_times *make(const char *const *names, size_t count) {
    struct function_times *times = NULL;
    CHECK(function_times_create(names, count, &times, NULL) == SONDE_OK);
    return times;
}

TEST(a_function_has_the_time_of_all_samples_that_it_is_on) {
    static const char *const names[] = {"parse", "walk"};
    struct function_times *times = make(names, 2);
    add(times, "shop", "read parse main");
    add(times, "shop", "parse main");
    add(times, "shop", "idle main");
    CHECK(milliseconds(times, "shop", "parse") == 2);
    CHECK(milliseconds(times, "shop", "walk") == 0);
    function_times_destroy(times);
}

TEST(recursion_counts_once) {
    static const char *const names[] = {"walk"};
    struct function_times *times = make(names, 1);
    add(times, "shop", "walk walk walk main");
    add(times, "shop", "leaf walk visit walk main");
    CHECK(milliseconds(times, "shop", "walk") == 2);
    function_times_destroy(times);
}

TEST(a_name_is_found_with_and_without_its_arguments) {
    static const char *const names[] = {"ns::parse", "run(int)", "pars"};
    struct function_times *times = make(names, 3);
    add(times, "shop", "ns::parse(char) run(int) main");
    add(times, "shop", "ns::parse_all run(long)");
    CHECK(milliseconds(times, "shop", "ns::parse") == 1);
    CHECK(milliseconds(times, "shop", "run(int)") == 1);
    CHECK(milliseconds(times, "shop", "pars") == 0);
    function_times_destroy(times);
}

TEST(targets_are_summed_by_name_and_only_cpu_time_counts) {
    static const char *const names[] = {"parse"};
    struct function_times *times = make(names, 1);
    add(times, "shop", "parse");
    add(times, "shop", "parse");
    add(times, "other shop", "parse");
    struct sonde_profile *waits = make_profile("off_cpu", "parse");
    function_times_add(times, "shop", waits);
    sonde_profile_destroy(waits);
    CHECK(milliseconds(times, "shop", "parse") == 2);
    CHECK(milliseconds(times, "other shop", "parse") == 1);
    function_times_destroy(times);
}

TEST(targets_beyond_the_limit_are_summed_as_other) {
    char texts[FUNCTION_TIMES_FUNCTIONS][16], target[32];
    const char *names[FUNCTION_TIMES_FUNCTIONS];
    for (size_t i = 0; i < FUNCTION_TIMES_FUNCTIONS; i++) {
        snprintf(texts[i], sizeof texts[i], "f%zu", i);
        names[i] = texts[i];
    }
    struct function_times *times = make(names, FUNCTION_TIMES_FUNCTIONS);
    size_t most = FUNCTION_TIMES_SUMS / FUNCTION_TIMES_FUNCTIONS;
    for (size_t i = 0; i < most + 20; i++) {
        snprintf(target, sizeof target, "target %zu", i);
        add(times, target, "f0 f99");
    }
    struct wanted other = find(times, "other", "f99");
    CHECK(other.sums == FUNCTION_TIMES_SUMS && other.found == 1);
    CHECK(other.cpu_ns == 21 * 1000000);
    CHECK(milliseconds(times, "target 0", "f0") == 1);
    function_times_destroy(times);
}

TEST(a_list_that_is_too_long_or_has_no_name_is_refused) {
    char texts[FUNCTION_TIMES_FUNCTIONS + 1][16], longest[FUNCTION_TIMES_NAME + 2];
    const char *names[FUNCTION_TIMES_FUNCTIONS + 1], *bad[] = {""};
    struct function_times *times;
    struct sonde_diag diag = {0};
    for (size_t i = 0; i <= FUNCTION_TIMES_FUNCTIONS; i++) {
        snprintf(texts[i], sizeof texts[i], "f%zu", i);
        names[i] = texts[i];
    }
    CHECK(function_times_create(names, FUNCTION_TIMES_FUNCTIONS + 1, &times, &diag) ==
          SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "at most 100 functions") && !times);
    CHECK(function_times_create(bad, 1, &times, NULL) == SONDE_INVALID_ARGUMENT);
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    bad[0] = longest;
    CHECK(function_times_create(bad, 1, &times, NULL) == SONDE_INVALID_ARGUMENT);
    names[FUNCTION_TIMES_FUNCTIONS] = names[0]; /* given twice */
    CHECK(function_times_create(names, FUNCTION_TIMES_FUNCTIONS + 1, &times, NULL) == SONDE_OK);
    function_times_destroy(times);
}
