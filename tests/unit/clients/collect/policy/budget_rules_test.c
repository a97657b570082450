/* SPDX-License-Identifier: Apache-2.0
 *
 * The budget file, and the rules that are made of it. */
#include "api/text/wildcard.h"
#include "clients/collect/policy/budget_lines.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

static struct budget *budget;

static void start(const char *text) {
    struct sonde_diag diag = {0};
    sonde_err err = budget_create(text, "budget.conf", &budget, &diag);
    CHECK_STR(diag.text, "");
    CHECK_INT(err, ==, SONDE_OK);
    budget_tune(budget, 0);
}

/* "SERVICE P HZ, ..." */
static const char *rules_text(void) {
    static char text[4096];
    size_t count, len = 0;
    Sonde__V1__CollectRule **rules = budget_rules(budget, &count);
    text[0] = 0;
    for (size_t i = 0; i < count && len < sizeof text; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s %g %u", i ? ", " : "",
                                rules[i]->service, rules[i]->probability, rules[i]->frequency_hz);
    return text;
}

static void check_refused(const char *text, const char *expected) {
    struct sonde_diag diag = {0};
    CHECK_INT(budget_create(text, "budget.conf", &budget, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, expected);
    CHECK(budget == NULL);
}

TEST(budget_file_lines_become_rules_in_order) {
    start("# a comment\n\ncheckout 400000 hz=49 # another\n  batch-*\t40000 start=0.1\r\n"
          "\"Web \\\"Content\\\"\" none hz=99 start=0.5\nkworker* 0\n* 1000");
    CHECK_STR(rules_text(), "checkout 1 49, batch-* 0.1 0, Web \"Content\" 0.5 99, kworker* 0 0, "
                            "* 1 0, * 1 0");
    budget_destroy(budget);
}

TEST(budget_file_mistakes_are_refused_with_their_line) {
    check_refused("web 1\nweb\n",
                  "budget.conf:2: \"\": write SERVICE SAMPLES_PER_HOUR, a number up "
                  "to 1000000000000 or none");
    check_refused("web 40k", "budget.conf:1: \"40k\": write SERVICE SAMPLES_PER_HOUR, a number up "
                             "to 1000000000000 or none");
    check_refused("web -1", "budget.conf:1: \"-1\": write SERVICE SAMPLES_PER_HOUR, a number up "
                            "to 1000000000000 or none");
    check_refused("web 1000000000001",
                  "budget.conf:1: \"1000000000001\": write SERVICE SAMPLES_PER_HOUR, a number up "
                  "to 1000000000000 or none");
    check_refused("web 1 hz=0", "budget.conf:1: \"hz=0\": write hz=N, N from 1 to 999");
    check_refused("web 1 hz=1000", "budget.conf:1: \"hz=1000\": write hz=N, N from 1 to 999");
    check_refused("web 1 start=2", "budget.conf:1: \"start=2\": write start=P, P from 0.0001 to 1");
    check_refused("web 1 start=nan",
                  "budget.conf:1: \"start=nan\": write start=P, P from 0.0001 to 1");
    check_refused("web 1 start=0.00001",
                  "budget.conf:1: \"start=0.00001\": write start=P, P from 0.0001 to 1");
    check_refused("web 1 hertz=5", "budget.conf:1: \"hertz=5\": after the samples per hour only "
                                   "hz=N and start=P may follow");
    check_refused("\"web 1", "budget.conf:1: \"\"web 1\": end the name with a double quote and a "
                             "space");
    check_refused("\"web\"1 5", "budget.conf:1: \"\"web\"1 5\": end the name with a double quote "
                                "and a space");
    check_refused("\"\" 5", "budget.conf:1: \"\"\" 5\": write a service's name, or * for all");
    check_refused("w\xff 5", "budget.conf:1: \"...\": not UTF-8; save the file as UTF-8");
}

TEST(budget_file_bounds_are_refused) {
    static char text[BUDGET_MAX_TEXT + 2];
    memset(text, 'x', 256);
    strcpy(text + 256, " 5");
    struct sonde_diag diag = {0};
    CHECK_INT(budget_create(text, "f", &budget, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "a service's name has at most 255 bytes"));
    memset(text, '#', 1024);
    strcpy(text + 1024, "\n");
    check_refused(text, "budget.conf:1: \"...\": a line has at most 1,023 bytes");
    memset(text, '\n', BUDGET_MAX_TEXT + 1);
    text[BUDGET_MAX_TEXT + 1] = 0;
    check_refused(text, "budget.conf: a budget file has at most 1 MiB; use * in names");
    text[0] = 0;
    for (int i = 0; i < BUDGET_MAX_LINES; i++)
        sprintf(text + strlen(text), "s%d 5\n", i);
    start(text);
    budget_destroy(budget);
    strcat(text, "one-more 5\n");
    check_refused(text,
                  "budget.conf:100: \"one-more 5\": at most 99 lines may have a service; use *");
}

TEST(budget_pattern_stands_for_any_characters_at_a_star) {
    static const struct {
        const char *pattern, *name;
        bool matches;
    } rows[] = {
        {"web", "web", true},
        {"web", "webs", false},
        {"web", "we", false},
        {"*", "", true},
        {"*", "anything", true},
        {"web*", "web", true},
        {"*b", "web", true},
        {"*b", "webs", false},
        {"w*b", "wb", true},
        {"w*b*c", "wabbac", true},
        {"w*b*c", "wabba", false},
        {"**", "x", true},
        {"a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaa", false},
        {"[w]eb", "web", false},
        {"w?b", "web", false},
        {"", "", true},
        {"", "x", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (sonde_wildcard_matches(rows[i].pattern, rows[i].name) != rows[i].matches)
            check_fail(__FILE__, __LINE__, "%s and %s", rows[i].pattern, rows[i].name);
}

TEST(budget_rule_of_a_tuned_service_comes_before_its_line) {
    start("web-* 1200 hz=49\nbatch 0\n* 12000\n");
    budget_count(budget, "web-2", "a", 200, 10); /* twice its budget */
    budget_count(budget, "web-1", "a", 400, 10);
    budget_count(budget, "other", "a", 4000, 10);
    budget_count(budget, "small", "a", 1, 10);
    budget_count(budget, "batch", "a", 4000, 10);
    CHECK(budget_tune(budget, BUDGET_TUNE_S));
    CHECK_STR(rules_text(), "web-1 0.5 49, web-2 0.5 49, web-* 1 49, batch 0 0, other 0.5 0, "
                            "* 1 0, * 1 0");
    budget_destroy(budget);
}

TEST(budget_service_whose_name_would_match_others_is_not_tuned) {
    char name[300];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    start("* 12\n");
    budget_count(budget, "*", "a", 4000, 10);
    budget_count(budget, "w*", "a", 4000, 10);
    budget_count(budget, "", "a", 4000, 10);
    budget_count(budget, name, "a", 4000, 10);
    CHECK(!budget_tune(budget, BUDGET_TUNE_S));
    CHECK_STR(rules_text(), "* 1 0, * 1 0");
    budget_destroy(budget);
}

static void count_services(int first, int count, uint64_t samples, int64_t now_s) {
    char name[32];
    for (int i = first; i < first + count; i++) {
        snprintf(name, sizeof name, "s%05d", i);
        budget_count(budget, name, "a", samples, now_s);
    }
}

static bool has_rule(const char *service) {
    size_t count;
    Sonde__V1__CollectRule **rules = budget_rules(budget, &count);
    CHECK_INT(count, <=, 1000);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rules[i]->service, service) == 0)
            return true;
    return false;
}

TEST(budget_rules_are_at_most_a_thousand) {
    static char text[8192];
    size_t count;
    text[0] = 0;
    for (int i = 0; i < BUDGET_MAX_LINES - 1; i++)
        sprintf(text + strlen(text), "line%d 5\n", i);
    strcat(text, "* 12\n");
    start(text);
    count_services(0, 500, 1000, 10);
    CHECK(budget_tune(budget, BUDGET_TUNE_S));
    count_services(1000, 899, 1000, BUDGET_TUNE_S + 10);
    count_services(5000, 1, 2000, BUDGET_TUNE_S + 10);
    CHECK(budget_tune(budget, 2 * BUDGET_TUNE_S));
    budget_rules(budget, &count);
    CHECK_INT(count, ==, 1000);
    CHECK(!has_rule("s00000")); /* was seen least recently */
    CHECK(has_rule("s01000"));
    CHECK(has_rule("s05000"));
    count_services(2000, 1, 5000, 2 * BUDGET_TUNE_S + 10);
    count_services(1000, 900, 1000, 2 * BUDGET_TUNE_S + 10);
    CHECK(budget_tune(budget, 3 * BUDGET_TUNE_S));
    budget_rules(budget, &count);
    CHECK_INT(count, ==, 1000);
    CHECK(has_rule("s02000")); /* the largest load */
    budget_destroy(budget);
}

TEST(budget_tracks_a_bounded_number_of_services_and_makes_room) {
    size_t count;
    start("* 12\n");
    count_services(0, BUDGET_MAX_TRACKED, 1, 10);
    count_services(20000, 10, 1000, 10); /* no room */
    budget_tune(budget, BUDGET_TUNE_S);
    CHECK(!has_rule("s20000"));
    count_services(0, 5000, 1, 2 * BUDGET_TUNE_S - 1);
    budget_tune(budget, 2 * BUDGET_TUNE_S); /* half of them were not seen */
    count_services(20000, 10, 1000, 2 * BUDGET_TUNE_S);
    CHECK(budget_tune(budget, 3 * BUDGET_TUNE_S));
    CHECK(has_rule("s20000"));
    budget_report(budget, &count);
    CHECK_INT(count, ==, 1000);
    budget_destroy(budget);
}

TEST(budget_forgets_a_service_that_was_not_seen_for_an_hour) {
    size_t count;
    start("* 12000000 start=0.5\n");
    budget_count(budget, "web", "a", 1, 10);
    int64_t now_s = 0;
    for (; now_s <= BUDGET_FORGET_S; now_s += BUDGET_TUNE_S)
        budget_tune(budget, now_s);
    CHECK(has_rule("web"));
    CHECK(budget_tune(budget, now_s));
    CHECK(!has_rule("web"));
    budget_report(budget, &count);
    CHECK_INT(count, ==, 0);
    budget_destroy(budget);
}

TEST(budget_adopts_what_was_measured_when_the_file_changes) {
    start("web 1200\nold 1200\nnow-free 1200\n");
    struct budget *old = budget;
    budget_count(old, "web", "a", 400, 10);
    budget_count(old, "now-free", "a", 400, 10);
    CHECK(budget_tune(old, BUDGET_TUNE_S));
    budget_count(old, "web", "a", 50, BUDGET_TUNE_S + 10);
    budget_count(old, "web", "b", 50, BUDGET_TUNE_S + 10);
    struct sonde_diag diag = {0};
    CHECK_INT(budget_create("now-free none\n* 2400\n", "f", &budget, &diag), ==, SONDE_OK);
    budget_adopt(budget, old);
    budget_destroy(old);
    CHECK_STR(rules_text(), "now-free 1 0, web 0.5 0, * 1 0, * 1 0");
    budget_count(budget, "web", "b", 25, BUDGET_TUNE_S + 20);
    CHECK(budget_tune(budget, 2 * BUDGET_TUNE_S));
    size_t count;
    Sonde__V1__FleetBudget **rows = budget_report(budget, &count);
    CHECK_INT(count, ==, 1);
    CHECK_INT(rows[0]->recent_samples_per_hour, ==, 1500);
    CHECK_INT(rows[0]->processes, ==, 2);
    CHECK_NEAR(rows[0]->probability, 0.5 * 0.9 * 2400 / 1500, 1e-9);
    budget_destroy(budget);
}
