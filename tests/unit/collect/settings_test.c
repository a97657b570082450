/* SPDX-License-Identifier: Apache-2.0 */
#include "service/collect/settings.h"
#include "tests/unit/check.h"

#include <math.h>
#include <stdio.h>

static Sonde__V1__CollectRule rule[2];
static Sonde__V1__CollectRule *rules[2] = {&rule[0], &rule[1]};

static Sonde__V1__CollectSettings *make(const char *first, double p, const char *second,
                                        double second_p) {
    Sonde__V1__CollectSettings from = SONDE__V1__COLLECT_SETTINGS__INIT, *settings = NULL;
    sonde__v1__collect_rule__init(&rule[0]);
    sonde__v1__collect_rule__init(&rule[1]);
    rule[0].service = (char *)first;
    rule[0].probability = p;
    rule[0].frequency_hz = 500;
    rule[1].service = (char *)second;
    rule[1].probability = second_p;
    from.rules = rules;
    from.n_rules = 2;
    from.seed = 42;
    CHECK_INT(collect_settings_read(&from, 99, &settings, NULL), ==, SONDE_OK);
    return settings;
}

static void finish(Sonde__V1__CollectSettings *settings) {
    sonde__v1__collect_settings__free_unpacked(settings, NULL);
}

TEST(the_first_rule_that_matches_decides) {
    bool is_matched;
    Sonde__V1__CollectSettings *settings = make("web-*", 1, "*", 0);
    struct record_choice choice = collect_settings_choose(settings, "web-1", "u", 0, &is_matched);
    CHECK_INT(choice.frequency_hz, ==, 99); /* bounded by the machine's owner */
    CHECK_NEAR(choice.weight, 1, 0);
    CHECK(is_matched);
    CHECK_INT(collect_settings_choose(settings, "db", "u", 0, &is_matched).frequency_hz, ==, 0);
    CHECK(!is_matched);
    settings->is_paused = true;
    CHECK_INT(collect_settings_choose(settings, "web-1", "u", 0, &is_matched).frequency_hz, ==, 0);
    finish(settings);
}

TEST(a_process_that_no_rule_matches_is_not_recorded) {
    bool is_matched;
    Sonde__V1__CollectSettings *settings = make("web", 1, "db", 1);
    CHECK_INT(collect_settings_choose(settings, "redis", "u", 0, &is_matched).frequency_hz, ==, 0);
    CHECK(!is_matched);
    CHECK_INT(collect_settings_choose(settings, "db", "u", 0, &is_matched).frequency_hz, ==, 19);
    finish(settings);
}

/* The sum of weights over n processes has the mean n and the variance n (1 - p) / p. */
TEST(weights_make_the_drawn_processes_stand_for_all) {
    enum { PROCESSES = 20000 };
    const double p = 0.1;
    Sonde__V1__CollectSettings *settings = make("web", p, "*", 0);
    double sum = 0;
    for (int i = 0; i < PROCESSES; i++) {
        char uuid[33];
        bool is_matched;
        snprintf(uuid, sizeof uuid, "%032x", i);
        struct record_choice choice =
            collect_settings_choose(settings, "web", uuid, 1000000, &is_matched);
        CHECK(is_matched);
        if (choice.frequency_hz)
            sum += choice.weight;
    }
    CHECK_NEAR(sum, PROCESSES, 5 * sqrt(PROCESSES * (1 - p) / p));
    finish(settings);
}

TEST(a_draw_lasts_a_term_and_terms_begin_at_different_times) {
    Sonde__V1__CollectSettings *settings = make("web", 0.5, "*", 0);
    int changes[2] = {0, 0};
    for (int process = 0; process < 2; process++) {
        uint32_t before = UINT32_MAX;
        for (int64_t now_s = 0; now_s < 300 * 200; now_s++) {
            bool is_matched;
            uint32_t hz =
                collect_settings_choose(settings, "web", process ? "b" : "a", now_s, &is_matched)
                    .frequency_hz;
            if (before != UINT32_MAX && hz != before)
                changes[process]++;
            before = hz;
        }
        CHECK_INT(changes[process], >, 60); /* of 199 chances of 1/2: 100 +- 7 */
        CHECK_INT(changes[process], <, 140);
    }
    finish(settings);
}

TEST(a_session_without_settings_has_the_defaults_and_records_nothing) {
    bool is_matched;
    Sonde__V1__CollectSettings *settings = NULL;
    CHECK_INT(collect_settings_read(NULL, 10, &settings, NULL), ==, SONDE_OK);
    CHECK_INT(settings->frequency_hz, ==, 10);
    CHECK_INT(settings->window_s, ==, 10);
    CHECK_INT(settings->keep_s, ==, 3600);
    CHECK_NEAR(settings->max_overhead, 0.005, 1e-12);
    CHECK_INT(collect_settings_choose(settings, "x", "u", 0, &is_matched).frequency_hz, ==, 0);
    finish(settings);
}
