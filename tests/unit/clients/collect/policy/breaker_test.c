/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/policy/breaker.h"
#include "tests/unit/check.h"

#include <stdio.h>

#define S 1000ll

static struct breaker *breaker;

static void report(uint64_t first, uint64_t count, bool is_failure, int64_t now_ms) {
    for (uint64_t host = first; host < first + count; host++)
        breaker_report(breaker, host, is_failure, now_ms);
}

/* A hundred connected hosts, limit 20 %. */
static void start(void) {
    breaker = breaker_create(20);
    CHECK(breaker);
    report(0, 100, false, 0);
}

TEST(breaker_stays_closed_up_to_its_limit_and_opens_above) {
    char text[80];
    start();
    report(0, 20, true, 1 * S);
    CHECK(!breaker_is_open(breaker, 1 * S));
    CHECK_STR(breaker_text(breaker, 1 * S, text, sizeof text), "20 of 100 hosts fail (limit 20 %)");
    report(20, 1, true, 1 * S);
    CHECK(breaker_is_open(breaker, 1 * S));
    breaker_destroy(breaker);
}

TEST(breaker_needs_ten_hosts_to_open) {
    breaker = breaker_create(20);
    report(0, 9, true, 0);
    CHECK(!breaker_is_open(breaker, 0));
    CHECK(breaker_allows(breaker, 0));
    report(9, 1, true, 0);
    CHECK(breaker_is_open(breaker, 0));
    breaker_destroy(breaker);
}

TEST(breaker_counts_a_host_that_fails_again_and_again_once) {
    char text[80];
    start();
    for (int i = 0; i < 500; i++)
        breaker_report(breaker, 7, true, i);
    CHECK(!breaker_is_open(breaker, 500));
    CHECK_STR(breaker_text(breaker, 500, text, sizeof text), "1 of 100 hosts fails (limit 20 %)");
    breaker_destroy(breaker);
}

TEST(breaker_allows_one_probe_in_five_seconds_while_it_is_open) {
    start();
    report(0, 50, true, 0);
    CHECK(!breaker_allows(breaker, 4 * S));
    CHECK(breaker_allows(breaker, 5 * S));
    CHECK(!breaker_allows(breaker, 5 * S));
    CHECK(!breaker_allows(breaker, 10 * S - 1));
    CHECK(breaker_allows(breaker, 10 * S));
    breaker_destroy(breaker);
}

TEST(breaker_allows_the_next_probe_as_soon_as_one_succeeds) {
    start();
    report(0, 50, true, 0);
    CHECK(breaker_allows(breaker, 5 * S));
    breaker_report(breaker, 0, false, 5 * S + 100);
    CHECK(breaker_allows(breaker, 5 * S + 100));
    CHECK(!breaker_allows(breaker, 5 * S + 200));
    breaker_destroy(breaker);
}

TEST(breaker_closes_at_half_of_its_limit) {
    start();
    report(0, 30, true, 0);
    report(0, 19, false, 1 * S);
    CHECK(breaker_is_open(breaker, 1 * S)); /* 11 % */
    report(19, 1, false, 1 * S);
    CHECK(!breaker_is_open(breaker, 1 * S)); /* 10 % */
    breaker_destroy(breaker);
}

TEST(breaker_stays_open_while_probes_fail_though_old_failures_no_longer_count) {
    start();
    report(0, 50, true, 0);
    int64_t now_ms = 0;
    for (uint64_t host = 0; now_ms < 600 * S; now_ms += 5 * S, host = (host + 1) % 50)
        if (breaker_allows(breaker, now_ms))
            breaker_report(breaker, host, true, now_ms);
    CHECK(breaker_is_open(breaker, now_ms));
    breaker_report(breaker, 3, false, now_ms);
    CHECK(breaker_is_open(breaker, now_ms)); /* still 23 of 74 */
    CHECK(!breaker_is_open(breaker, now_ms + BREAKER_WINDOW_S * S));
    breaker_destroy(breaker);
}

/* Half a fleet is cut off, and comes back: it need not be probed one by one. */
TEST(breaker_closes_within_its_window_after_the_fault_is_gone) {
    breaker = breaker_create(20);
    report(0, 10000, true, 0);
    CHECK(breaker_is_open(breaker, 0));
    int64_t now_ms = 60 * S;
    uint64_t host = 0;
    for (; breaker_is_open(breaker, now_ms) && now_ms < 600 * S; now_ms += S)
        if (breaker_allows(breaker, now_ms))
            breaker_report(breaker, host++, false, now_ms);
    CHECK_INT(now_ms, <=, (BREAKER_WINDOW_S + 2) * S);
    CHECK_INT(host, <=, 61); /* one a second */
    breaker_destroy(breaker);
}

TEST(breaker_counts_a_connected_host_for_as_long_as_it_is_connected) {
    start();
    report(200, 10, true, 86400 * S); /* 10 of 110 */
    CHECK(!breaker_is_open(breaker, 86400 * S));
    breaker_destroy(breaker);
}

TEST(breaker_forgets_hosts_that_are_not_tried_any_more) {
    char text[80];
    start();
    report(0, 50, true, 0);
    for (uint64_t host = 0; host < 50; host++)
        breaker_forget(breaker, host);
    breaker_forget(breaker, 4711);
    CHECK(!breaker_is_open(breaker, 0));
    CHECK_STR(breaker_text(breaker, 0, text, sizeof text), "0 of 50 hosts fail (limit 20 %)");
    report(0, 2, true, 0); /* they come back */
    CHECK_STR(breaker_text(breaker, 0, text, sizeof text), "2 of 52 hosts fail (limit 20 %)");
    breaker_destroy(breaker);
}

/* Compares with a plain count while hosts come, fail, are forgotten, and grow old at random. */
TEST(breaker_counts_like_an_array_of_outcomes) {
    enum { HOSTS = 300, STEPS = 60000 };
    static struct {
        char outcome;
        int64_t ms;
    } hosts[HOSTS];
    uint64_t random = 1;
    memset(hosts, 0, sizeof hosts);
    breaker = breaker_create(100);
    for (int64_t step = 0, now_ms = 0; step < STEPS; step++, now_ms += S) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t host = (random >> 33) % HOSTS, what = (random >> 20) % 4;
        if (step / 1000 % 2 && what > 1)
            what = 0; /* many hosts go, and the index is built again */
        if (what == 0)
            breaker_forget(breaker, host);
        else
            breaker_report(breaker, host, what == 1, now_ms);
        hosts[host].outcome = what == 0 ? 0 : what == 1 ? 'f' : 'c';
        hosts[host].ms = now_ms;
        if (step % 100)
            continue;
        unsigned failed = 0, all = 0;
        for (int i = 0; i < HOSTS; i++) {
            bool is_failed = hosts[i].outcome == 'f' && hosts[i].ms > now_ms - 120 * S;
            failed += is_failed;
            all += is_failed || hosts[i].outcome == 'c';
        }
        char text[80], expected[80];
        snprintf(expected, sizeof expected, "%u of %u host%s fail%s (limit 100 %%)", failed, all,
                 all == 1 ? "" : "s", failed == 1 ? "s" : "");
        CHECK_STR(breaker_text(breaker, now_ms, text, sizeof text), expected);
    }
    breaker_destroy(breaker);
}

TEST(breaker_ignores_hosts_beyond_its_bound) {
    char text[80];
    breaker = breaker_create(1);
    report(0, BREAKER_MAX_HOSTS, false, 0);
    report(BREAKER_MAX_HOSTS, 50000, true, 0);
    CHECK_STR(breaker_text(breaker, 0, text, sizeof text), "0 of 200000 hosts fail (limit 1 %)");
    breaker_destroy(breaker);
}

TEST(breaker_counts_a_failure_for_its_window) {
    char text[80];
    breaker = breaker_create(20);
    breaker_report(breaker, 1, true, 7);
    breaker_text(breaker, 7 + BREAKER_WINDOW_S * S - 1, text, sizeof text);
    CHECK_STR(text, "1 of 1 host fails (limit 20 %)");
    breaker_text(breaker, 7 + BREAKER_WINDOW_S * S, text, sizeof text);
    CHECK_STR(text, "0 of 0 hosts fail (limit 20 %)");
    breaker_destroy(breaker);
}

TEST(breaker_forgotten_hosts_make_room_for_others) {
    char text[80];
    breaker = breaker_create(20);
    report(0, BREAKER_MAX_HOSTS, false, 0);
    for (uint64_t host = 0; host < 1000; host++)
        breaker_forget(breaker, host);
    report(BREAKER_MAX_HOSTS, 2000, false, 0);
    CHECK_STR(breaker_text(breaker, 0, text, sizeof text), "0 of 200000 hosts fail (limit 20 %)");
    breaker_destroy(breaker);
}

TEST(breaker_destroy_takes_null) {
    breaker_destroy(NULL);
}
