/* SPDX-License-Identifier: Apache-2.0
 *
 * What an answer says about time in which nothing was recorded, over a store in memory. */
#include "tests/rpc/history/history_setup.h"
#include "tests/unit/check.h"
#include "tests/unit/store/fake_store.h"

#include <time.h>

#define SECOND INT64_C(1000000000)
#define BEGIN  36000 /* of the recording, in Unix seconds */

static struct history_setup scene;

static void record(struct recording *recording, const char *service, const char *host, int64_t from,
                   int64_t until) {
    for (int64_t at = from; at < until; at += 10) {
        recording_total(recording, host, at, "sonded", "", 1);
        if (!service)
            continue;
        recording_window(recording,
                         &(struct recorded){.service = service, .host = host, .begin_unix_s = at});
        recording_row(recording, "main", "", 1000);
    }
}

static void write_all(struct recording *recording) {
    Sonde__V1__WriteResponse *response = history_write(&scene, recording_request(recording));
    protobuf_c_message_free_unpacked(&response->base, NULL);
    recording_destroy(recording);
}

static void begin(struct recording *recording) {
    history_setup_begin(&scene, true);
    write_all(recording);
}

/* Of `service`, from and until these seconds after BEGIN. */
static const Sonde__V1__Completeness *ask(char *service, char *selector, int from, int until) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    selection.service = service;
    selection.selector = selector;
    selection.from_unix_ns = (BEGIN + from) * SECOND;
    selection.until_unix_ns = (BEGIN + until) * SECOND;
    request.selection = &selection;
    request.rendering = &rendering;
    CHECK_INT(history_profile(&scene, &client_query_profile, &request.base, NULL), ==, SONDE_OK);
    return scene.start->completeness;
}

static void check_silence(const Sonde__V1__Completeness *found, size_t i, const char *host,
                          int from, int until) {
    CHECK_INT(i, <, found->n_silences);
    CHECK_STR(found->silences[i]->host, host);
    CHECK_INT(found->silences[i]->from_unix_ns, ==, (BEGIN + from) * SECOND);
    CHECK_INT(found->silences[i]->until_unix_ns, ==, (BEGIN + until) * SECOND);
}

/* web runs on a and b; b is silent from 100 to 150 and from 200 on. c runs something else. */
static void begin_with_silences(void) {
    struct recording *recording = recording_create();
    record(recording, "web", "a", BEGIN, BEGIN + 300);
    record(recording, "web", "b", BEGIN, BEGIN + 100);
    record(recording, "web", "b", BEGIN + 150, BEGIN + 200);
    record(recording, NULL, "c", BEGIN, BEGIN + 250);
    begin(recording);
}

TEST(a_silent_host_makes_an_answer_incomplete) {
    begin_with_silences();
    const Sonde__V1__Completeness *found = ask("web", "", 0, 100);
    CHECK_INT(found->windows_received, ==, 20);
    CHECK_INT(found->windows_expected, ==, 20);
    CHECK_INT(found->n_silences, ==, 0);
    CHECK_INT(found->window_s, ==, 10);
    CHECK_INT(found->first_unix_ns, ==, BEGIN * SECOND);
    CHECK_INT(found->last_unix_ns, ==, (BEGIN + 100) * SECOND);
    found = ask("web", "", 0, 300);
    CHECK_INT(found->windows_received, ==, 45);
    CHECK_INT(found->windows_expected, ==, 60);
    CHECK_INT(found->n_silences, ==, 3);
    check_silence(found, 0, "b", 100, 150);
    check_silence(found, 1, "b", 200, 300);
    check_silence(found, 2, "c", 250, 300);
    CHECK_INT(found->recording_began_unix_ns, ==, 0);
    history_setup_end(&scene);
}

TEST(a_range_within_a_silence_is_incomplete) {
    begin_with_silences();
    const Sonde__V1__Completeness *found = ask("web", "", 110, 140);
    CHECK_INT(found->windows_received, ==, 3);
    CHECK_INT(found->windows_expected, ==, 6);
    check_silence(found, 0, "b", 110, 140);
    found = ask("web", "host = 'b'", 220, 260);
    CHECK_INT(found->windows_received, ==, 0);
    CHECK_INT(found->windows_expected, ==, 4);
    CHECK_INT(found->n_silences, ==, 1);
    check_silence(found, 0, "b", 220, 260);
    CHECK_INT(ask("web", "host = 'a'", 0, 300)->n_silences, ==, 0);
    history_setup_end(&scene);
}

/* It may have lived on the silent host, so the silence is reported and nothing is expected. */
TEST(a_service_that_was_never_seen_has_silences_all_the_same) {
    begin_with_silences();
    const Sonde__V1__Completeness *found = ask("gone", "", 100, 150);
    CHECK_INT(found->windows_expected, ==, 0);
    check_silence(found, 0, "b", 100, 150);
    history_setup_end(&scene);
}

TEST(a_host_that_went_away_hours_ago_is_not_expected) {
    begin_with_silences();
    CHECK_INT(ask("web", "", 200 + 3500, 200 + 3590)->n_silences, ==, 3);
    CHECK_INT(ask("web", "", 300 + 3601, 300 + 3700)->n_silences, ==, 0);
    history_setup_end(&scene);
}

TEST(time_before_the_recording_is_not_missing_and_its_begin_is_reported) {
    begin_with_silences();
    const Sonde__V1__Completeness *found = ask("web", "", -3000, 100);
    CHECK_INT(found->windows_expected, ==, found->windows_received);
    CHECK_INT((int64_t)found->covered_s, ==, (int64_t)(found->windows_received * found->window_s));
    CHECK_INT(found->n_silences, ==, 0);
    CHECK_INT(found->recording_began_unix_ns, ==, BEGIN * SECOND);
    CHECK_INT(ask("web", "", 10, 100)->recording_began_unix_ns, ==, 0);
    history_setup_end(&scene);
}

/* The last interval of totals may still be on its way. */
TEST(a_range_that_ends_now_misses_nothing_of_the_open_window) {
    int64_t now = (int64_t)time(NULL) / 10 * 10;
    struct recording *recording = recording_create();
    record(recording, "web", "a", now - 100, now - 10);
    record(recording, "web", "b", now - 100, now - 50);
    begin(recording);
    const Sonde__V1__Completeness *found =
        ask("web", "", (int)(now - 100 - BEGIN), (int)(now + 100 - BEGIN));
    CHECK_INT(found->n_silences, ==, 1);
    CHECK_STR(found->silences[0]->host, "b");
    CHECK_INT(found->silences[0]->until_unix_ns, <, (now + 20) * SECOND);
    history_setup_end(&scene);
}

/* ---- The open window ---- */

static _Atomic int refreshes;

/* A recorder that stores the first seconds of its open window. */
static void on_refresh(void *context) {
    refreshes++;
}

static void begin_with_open_window(int64_t open, uint32_t length_s) {
    struct recording *recording = recording_create();
    record(recording, "web", "a", open - 100, open);
    const struct recorded one = {.service = "web", .host = "a", .begin_unix_s = open};
    recording_window(recording, &one)->length_s = length_s;
    recording_row(recording, "main", "", 1000);
    scene = (struct history_setup){.store = fake_store_create()};
    setup_begin_recorder(&scene.base, scene.store, on_refresh, true);
    write_all(recording);
    refreshes = 0;
}

TEST(a_range_up_to_now_has_the_open_window_and_says_how_much_of_it) {
    int64_t open;
    do /* until the answer, in the same 10 s */
        open = (int64_t)time(NULL);
    while (open % 10 > 5);
    open -= open % 10;
    begin_with_open_window(open, 3);
    const Sonde__V1__Completeness *found =
        ask("web", "", (int)(open - 100 - BEGIN), (int)(open + 10 - BEGIN));
    CHECK_INT(refreshes, ==, 1);
    CHECK_INT(found->windows_received, ==, 11);
    CHECK_INT(found->windows_expected, ==, 11);
    CHECK_INT(found->last_unix_ns, ==, (open + 3) * SECOND);
    CHECK_INT(found->open_s, ==, 3);
    CHECK_INT(ask("web", "", (int)(open - 100 - BEGIN), (int)(open - BEGIN))->open_s, ==, 0);
    history_setup_end(&scene);
}

TEST(a_range_in_the_past_leaves_the_open_window_alone) {
    int64_t now = (int64_t)time(NULL) / 10 * 10;
    begin_with_open_window(now, 3);
    CHECK_INT(ask("web", "", (int)(now - 100 - BEGIN), (int)(now - 50 - BEGIN))->open_s, ==, 0);
    CHECK_INT(refreshes, ==, 0);
    history_setup_end(&scene);
}

/* ---- Differences ---- */

static sonde_err diff(int base_from, int base_until, int from, int until, struct sonde_diag *diag) {
    Sonde__V1__QueryDiffRequest request = SONDE__V1__QUERY_DIFF_REQUEST__INIT;
    Sonde__V1__Selection base = SONDE__V1__SELECTION__INIT, now = SONDE__V1__SELECTION__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    base.from_unix_ns = (BEGIN + base_from) * SECOND;
    base.until_unix_ns = (BEGIN + base_until) * SECOND;
    now.from_unix_ns = (BEGIN + from) * SECOND;
    now.until_unix_ns = (BEGIN + until) * SECOND;
    request.base_selection = &base;
    request.selection = &now;
    request.rendering = &rendering;
    return history_profile(&scene, &client_query_diff, &request.base, diag);
}

TEST(a_difference_says_how_complete_both_sides_are) {
    begin_with_silences();
    CHECK_INT(diff(0, 50, 200, 300, NULL), ==, SONDE_OK);
    CHECK_INT(scene.start->base_completeness->windows_received, ==, 10);
    CHECK_INT(scene.start->base_completeness->windows_expected, ==, 10);
    CHECK_INT(scene.start->completeness->windows_received, ==, 10);
    CHECK_INT(scene.start->completeness->windows_expected, ==, 20);
    history_setup_end(&scene);
}

TEST(a_difference_from_nothing_is_refused) {
    struct sonde_diag diag = {0};
    begin_with_silences();
    CHECK_INT(diff(-100, 0, 0, 100, &diag), ==, SONDE_NOT_FOUND);
    CHECK_STR(diag.text, "the base: nothing was recorded from 1970-01-01 09:58:20 UTC until "
                         "1970-01-01 10:00:00 UTC, so there is nothing to compare");
    CHECK_INT(diff(0, 100, 400, 500, &diag), ==, SONDE_NOT_FOUND);
    CHECK(strstr(diag.text, "the selection: nothing was recorded") != NULL);
    history_setup_end(&scene);
}
