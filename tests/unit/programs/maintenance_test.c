/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that maintains a store, and the option that says how long history is kept. */
#include "service/programs/keep_text.h"
#include "service/programs/store_threads/maintenance.h"
#include "service/store/selector/selector.h"
#include "tests/unit/check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static atomic_uint runs, fails_until, lines;
static char last_line[400];

static sonde_err on_maintain(struct store *store, int64_t now_unix_s, struct sonde_diag *diag) {
    CHECK_INT(now_unix_s, >, 1700000000);
    if (atomic_fetch_add(&runs, 1) < atomic_load(&fails_until))
        return sonde_fail(diag, SONDE_IO, "the disk is full");
    return SONDE_OK;
}

static void on_line(const char *line) {
    snprintf(last_line, sizeof last_line, "%s", line);
    atomic_fetch_add(&lines, 1);
}

static struct maintenance *start(uint32_t interval_s, unsigned failures) {
    static const struct store_ops ops = {.maintain = on_maintain};
    static struct store store = {&ops};
    struct maintenance *maintenance = NULL;
    runs = lines = 0;
    fails_until = failures;
    CHECK_INT(maintenance_start(&store, interval_s, on_line, &maintenance, NULL), ==, SONDE_OK);
    return maintenance;
}

static void wait_for_runs(unsigned count) {
    for (int i = 0; i < 30000 && atomic_load(&runs) < count; i++)
        usleep(1000);
    CHECK_INT(atomic_load(&runs), >=, count);
}

TEST(a_store_is_maintained_at_once_and_then_after_the_interval) {
    struct maintenance *maintenance = start(0, 0);
    wait_for_runs(3);
    maintenance_stop(maintenance);
    maintenance = start(3600, 0);
    wait_for_runs(1);
    maintenance_stop(maintenance); /* does not wait for the interval */
    CHECK_INT(runs, ==, 1);
    CHECK_INT(lines, ==, 0);
}

TEST(a_store_that_fails_again_and_again_is_reported_once) {
    struct maintenance *maintenance = start(0, 3);
    wait_for_runs(5);
    maintenance_stop(maintenance);
    CHECK_INT(lines, ==, 2);
    CHECK_STR(last_line, "the store is maintained again");
    maintenance = start(3600, 1);
    wait_for_runs(1);
    maintenance_stop(maintenance);
    CHECK_INT(lines, ==, 1);
    CHECK_STR(last_line, "the store cannot be maintained: the disk is full");
}

static int64_t keep(const char *text) {
    uint32_t seconds;
    return keep_text_read("keep", text, &seconds, NULL) == SONDE_OK ? (int64_t)seconds : -1;
}

TEST(how_long_history_is_kept_has_a_unit) {
    CHECK_INT(keep("90m"), ==, 5400);
    CHECK_INT(keep("12h"), ==, 43200);
    CHECK_INT(keep("7d"), ==, 604800);
    CHECK_INT(keep("4w"), ==, 2419200);
    CHECK_INT(keep("0"), ==, 0);
    CHECK_INT(keep("0d"), ==, 0);
    CHECK_INT(keep("3660d"), ==, 316224000);
}

TEST(what_is_no_time_to_keep_history_is_refused) {
    const char *const bad[] = {"",
                               "7",
                               "d",
                               "59m",
                               "3661d",
                               "-7d",
                               "7 d",
                               "7D",
                               "7dd",
                               "0.5d",
                               "99999999999999999999d",
                               "0x10d"};
    struct sonde_diag diag = {0};
    uint32_t seconds;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_INT(keep(bad[i]), ==, -1);
    CHECK_INT(keep_text_read("history-keep", "7x", &seconds, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "history-keep: \"7x\"") != NULL);
}

static struct keep_rules rules;

/* Up to three values. */
static sonde_err read_rules(const char *first, const char *second, const char *third,
                            struct sonde_diag *diag) {
    struct sonde_option_list values = {.items = {first, second, third},
                                       .count = third    ? 3
                                                : second ? 2
                                                : first  ? 1
                                                         : 0};
    keep_rules_finish(&rules);
    return keep_rules_read("history-keep", &values, 7 * 86400, &rules, diag);
}

static const char *service_of(void *context, const char *name) {
    return strcmp(name, "service") == 0 ? context : "";
}

TEST(history_is_kept_by_rules_in_three_grammars) {
    struct sonde_diag diag = {0};
    struct store_limits limits = {0};
    CHECK_INT(read_rules("service=~\"batch.*\"=2d", "service = 'db' AND env = ''=0", "30d", &diag),
              ==, SONDE_OK);
    keep_rules_limit(&rules, &limits);
    CHECK_INT(limits.keep_s, ==, 30 * 86400);
    CHECK_INT(limits.keep_count, ==, 2);
    CHECK_INT(limits.keeps[0].keep_s, ==, 2 * 86400);
    CHECK_INT(limits.keeps[1].keep_s, ==, 0);
    CHECK(selector_matches(limits.keeps[0].selector, service_of, "batch-7"));
    CHECK(!selector_matches(limits.keeps[0].selector, service_of, "db"));
    CHECK(selector_matches(limits.keeps[1].selector, service_of, "db"));
    CHECK_INT(store_longest_keep_s(&limits), ==, 0);
    CHECK_INT(read_rules("{service=\"a\"}=12h", NULL, NULL, &diag), ==, SONDE_OK);
    keep_rules_limit(&rules, &limits);
    CHECK_INT(limits.keep_s, ==, 7 * 86400);
    CHECK_INT(store_longest_keep_s(&limits), ==, 7 * 86400);
    CHECK_INT(read_rules(NULL, NULL, NULL, &diag), ==, SONDE_OK);
    CHECK_INT(rules.count, ==, 0);
    CHECK_INT(rules.keep_s, ==, 7 * 86400);
}

TEST(rules_that_make_no_sense_are_refused_with_a_sentence) {
    static const struct {
        const char *value, *text;
    } bad[] = {
        {"=2d", "history-keep: \"=2d\" has no selector"},
        {"service='a'=", "history-keep: \"\" is not a time"},
        {"service='a'=2y", "history-keep: \"2y\" is not a time"},
        {"service~'a'=2d", "history-keep: the selector service~'a': "},
        {"thread='io'=2d", "names thread"},
        {"service=~\"(\"=2d", "history-keep: the selector service=~\"(\": "},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct sonde_diag diag = {0};
        CHECK_INT(read_rules(bad[i].value, NULL, NULL, &diag), ==, SONDE_INVALID_ARGUMENT);
        if (!strstr(diag.text, bad[i].text))
            check_fail(__FILE__, __LINE__, "%s: %s", bad[i].value, diag.text);
    }
    struct sonde_diag diag = {0};
    CHECK_INT(read_rules("7d", "2d", NULL, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "history-keep: \"2d\" is a second time without a selector");
    keep_rules_finish(&rules);
}
