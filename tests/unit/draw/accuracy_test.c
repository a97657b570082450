/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/accuracy.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

/* Two functions, with their values of both types. */
static struct sonde_profile *create(const struct sonde_value_type types[2], int64_t period,
                                    const int64_t values[2][2]) {
    static const char *const names[] = {"first", "second"};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    CHECK(profile != NULL);
    const struct sonde_profile_info info = {
        .period_type = types[1], .period = period, .default_type = 1};
    sonde_profile_set_info(profile, &info);
    for (uint64_t i = 0; i < 2; i++) {
        struct sonde_function function = {0};
        struct sonde_line line = {0};
        struct sonde_location location = {.address = i + 1, .lines = &line, .line_count = 1};
        uint32_t id = 0;
        CHECK_INT(sonde_profile_string(profile, names[i], strlen(names[i]), &function.name), ==,
                  SONDE_OK);
        CHECK_INT(sonde_profile_add_function(profile, &function, &line.function), ==, SONDE_OK);
        CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
        const struct sonde_sample sample = {
            .locations = &id, .location_count = 1, .values = values[i]};
        CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    }
    return profile;
}

static struct sonde_profile *cpu(int64_t first, int64_t second) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    const int64_t values[2][2] = {{first, first * 10000000}, {second, second * 10000000}};
    return create(types, 10000000, values);
}

static struct sonde_profile *heap(int64_t period, int64_t objects, int64_t size) {
    static const struct sonde_value_type types[] = {{"inuse_objects", "count"},
                                                    {"inuse_space", "bytes"}};
    const int64_t values[2][2] = {{objects, objects * size}, {0, 0}};
    return create(types, period, values);
}

/* Consumes the profile; the caller frees the text. */
static char *drawn(struct sonde_profile *profile, enum sonde_format format) {
    const struct sonde_draw_options options = {.type_index = 1};
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw(profile, format, &options, &out, NULL), ==, SONDE_OK);
    sonde_buf_puts(&out, "");
    sonde_profile_destroy(profile);
    return out.data;
}

static void check_drawn(struct sonde_profile *profile, enum sonde_format format,
                        const char *expected) {
    char *text = drawn(profile, format);
    if (!strstr(text, expected))
        printf("%s\n", text);
    CHECK(strstr(text, expected) != NULL);
    free(text);
}

TEST(few_samples_say_how_exact_their_shares_are) {
    static const char words[] = "96 samples: shares are exact to about ± 10 points";
    check_drawn(cpu(76, 20), SONDE_FORMAT_TEXT_TOP, words);
    check_drawn(cpu(76, 20), SONDE_FORMAT_SVG_FLAMEGRAPH, words);
    check_drawn(cpu(76, 20), SONDE_FORMAT_SVG_CALLGRAPH, words);
    check_drawn(cpu(76, 20), SONDE_FORMAT_MARKDOWN, words);
    check_drawn(cpu(1, 0), SONDE_FORMAT_TEXT_TOP,
                "1 sample: shares are exact to about ± 45 points");
    check_drawn(cpu(5000, 0), SONDE_FORMAT_MARKDOWN,
                "5,000 samples: shares are exact to about ± 1 point");
}

/* Wilson's intervals: of 20 in 96 13.9 to 30.0 %, of 76 70.0 to 86.1 %. */
TEST(rows_have_their_error_if_it_is_more_than_a_tenth_of_the_value) {
    check_drawn(cpu(76, 20), SONDE_FORMAT_TEXT_TOP,
                "      flat   flat%    sum%        cum    cum% ±flat  ±cum  name\n"
                "     760ms  79.17%  79.17%      760ms  79.17%  ±8.0  ±8.0  first\n"
                "     200ms  20.83% 100.00%      200ms  20.83%  ±8.0  ±8.0  second\n");
    check_drawn(cpu(7600, 600), SONDE_FORMAT_TEXT_TOP,
                "      flat   flat%    sum%        cum    cum%  name\n"
                "       76s  92.68%  92.68%        76s  92.68%  first\n");
    check_drawn(cpu(760, 20), SONDE_FORMAT_MARKDOWN,
                "| 7.60 s (97.4 %) | 7.60 s (97.4 %) | `first` | |\n"
                "| 200.00 ms (2.6 % ± 1.1) | 200.00 ms (2.6 % ± 1.1) | `second` | |\n");
}

TEST(many_samples_and_differences_need_no_sentence) {
    struct sonde_profile *profiles[] = {cpu(9000, 1000), cpu(90, -10)};
    for (size_t i = 0; i < 2; i++) {
        struct sonde_buf out = {0};
        draw_put_accuracy(profiles[i], 1, &out);
        CHECK_INT(out.len, ==, 0);
        sonde_profile_destroy(profiles[i]);
    }
}

/* A block that is larger than the mean distance of samples is certain to be sampled. */
TEST(memory_that_is_certain_to_be_sampled_is_exact) {
    check_drawn(heap(4096, 1, 6ll << 30), SONDE_FORMAT_TEXT_TOP,
                "# estimated from 1 sample (exact: allocations of that size are always sampled), "
                "one per 4.00 KiB\n");
    check_drawn(heap(16384, 200, 1 << 20), SONDE_FORMAT_TEXT_TOP,
                "# estimated from 200 samples (exact");
    check_drawn(heap(1 << 20, 102400, 1024), SONDE_FORMAT_TEXT_TOP,
                "# estimated from 100 samples (± 19.6 %), one per 1.00 MiB\n");
}
