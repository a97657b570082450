/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/gate/rules.h"
#include "tests/unit/check.h"

static void check_refused(const char *max_increase, const char *confidence, const char *function,
                          const char *expected) {
    struct sonde_option_list functions = {{function}, function ? 1 : 0};
    const struct gate_rule_texts texts = {
        .max_increase = max_increase, .confidence = confidence, .functions = &functions};
    struct gate_rules rules;
    struct sonde_diag diag = {0};
    CHECK_INT(gate_rules_read(&rules, &texts, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, expected) != NULL);
    gate_rules_finish(&rules);
}

TEST(limits_are_percentages_or_fractions) {
    struct sonde_option_list functions = {{"^a=b$=5%", "c=0.02"}, 2};
    const struct gate_rule_texts texts = {
        .max_increase = "7 %", .min_effect = "0.1%", .functions = &functions};
    struct gate_rules rules;
    CHECK_INT(gate_rules_read(&rules, &texts, NULL), ==, SONDE_INVALID_ARGUMENT);
    gate_rules_finish(&rules);
    const struct gate_rule_texts right = {
        .max_increase = "7%", .min_effect = "0.1%", .functions = &functions};
    CHECK_INT(gate_rules_read(&rules, &right, NULL), ==, SONDE_OK);
    CHECK_NEAR(rules.max_increase, 0.07, 1e-12);
    CHECK_NEAR(rules.min_effect, 0.001, 1e-12);
    CHECK_NEAR(rules.confidence, 0.95, 1e-12);
    CHECK_INT(rules.limit_count, ==, 2);
    CHECK_NEAR(rules.limits[0].increase, 0.05, 1e-12);
    CHECK_INT(regexec(&rules.limits[0].pattern, "a=b", 0, NULL, 0), ==, 0);
    CHECK_NEAR(rules.limits[1].increase, 0.02, 1e-12);
    gate_rules_finish(&rules);
}

TEST(nonsense_limits_are_refused_with_their_option) {
    check_refused("-1%", NULL, NULL, "--max-increase: \"-1%\"");
    check_refused("nan", NULL, NULL, "--max-increase: \"nan\"");
    check_refused("", NULL, NULL, "--max-increase: \"\"");
    check_refused(NULL, "1", NULL, "--confidence: \"1\"");
    check_refused(NULL, "40%", NULL, "--confidence: \"40%\"");
    check_refused(NULL, NULL, "parse", "has no limit");
    check_refused(NULL, NULL, "=5%", "needs a pattern");
    check_refused(NULL, NULL, "a=b", "--function: \"b\"");
    check_refused(NULL, NULL, "a[=5%", "--function: \"a[\"");
}

TEST(amounts_are_per_run_second_or_count) {
    static const char *const wrong[] = {"",           "minute",      "=3",          "requests=",
                                        "requests=0", "requests=-5", "requests=1,", "requests=inf",
                                        "requests=1x"};
    struct gate_per per;
    CHECK_INT(gate_per_read(&per, NULL, NULL), ==, SONDE_OK);
    CHECK(per.kind == GATE_PER_DEFAULT && per.counts[0] == 1 && per.counts[1] == 1);
    CHECK_INT(gate_per_read(&per, "second", NULL), ==, SONDE_OK);
    CHECK(per.kind == GATE_PER_SECOND);
    CHECK_INT(gate_per_read(&per, "requests=5e3,6000", NULL), ==, SONDE_OK);
    CHECK(per.kind == GATE_PER_COUNT && per.counts[0] == 5000 && per.counts[1] == 6000);
    CHECK_STR(per.name, "requests");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_INT(gate_per_read(&per, wrong[i], NULL), ==, SONDE_INVALID_ARGUMENT);
}
