/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recording/queue.h"

#include "api/profile/event.h"
#include "service/recording/identity.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <unistd.h>

static struct engine_target target;

static void add(struct queue *queue, const char *uuid, enum sonde_event_id event,
                uint64_t samples) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    snprintf(target.uuid, sizeof target.uuid, "%s", uuid);
    const struct record record = {.event = event,
                                  .target = &target,
                                  .cgroup = "/x",
                                  .clock = "timer",
                                  .samples = samples,
                                  .profile = sonde_profile_create(types, 2, 0)};
    queue_add_record(queue, &record);
}

TEST(records_come_out_in_order_and_whole) {
    struct queue *queue = queue_create(1 << 20);
    add(queue, "a", SONDE_ON_CPU, 1);
    add(queue, "b", SONDE_MEM_INUSE, 2);
    const struct totals_row row = {"redis", "io", 5};
    queue_add_totals(queue, &row, 1, 10, 20);
    snprintf(target.uuid, sizeof target.uuid, "overwritten");
    struct queue_item *list = queue_take(queue, 1 << 20, 0);
    CHECK(list && list->next && list->next->next && !list->next->next->next);
    CHECK_STR(list->record.target->uuid, "a");
    CHECK_STR(list->record.cgroup, "/x");
    CHECK_STR(list->record.clock, "timer");
    CHECK_INT(list->next->record.event, ==, SONDE_MEM_INUSE);
    const struct queue_item *totals = list->next->next;
    CHECK(!totals->record.profile);
    CHECK_INT(totals->row_count, ==, 1);
    CHECK_STR(totals->rows[0].thread, "io");
    CHECK_INT(totals->record.end_unix_ns, ==, 20);
    queue_free(list);
    CHECK(!queue_take(queue, 1 << 20, 0));
    CHECK_INT(queue_lost(queue), ==, 0);
    queue_destroy(queue);
}

TEST(a_full_queue_drops_counts_and_reports_it_with_the_next_record) {
    struct queue *queue = queue_create(1 << 20);
    add(queue, "a", SONDE_ON_CPU, 1);
    struct queue_item *one = queue_take(queue, 1 << 20, 0);
    queue_destroy(queue);
    queue = queue_create(one->bytes * 3 / 2);
    queue_free(one);
    add(queue, "a", SONDE_ON_CPU, 1);
    add(queue, "a", SONDE_ON_CPU, 10);
    add(queue, "a", SONDE_ON_CPU, 100);
    add(queue, "a", SONDE_OFF_CPU, 7);
    add(queue, "b", SONDE_ON_CPU, 1000);
    CHECK_INT(queue_lost(queue), ==, 4);
    queue_free(queue_take(queue, 1 << 20, 0));
    add(queue, "a", SONDE_ON_CPU, 2);
    struct queue_item *list = queue_take(queue, 1 << 20, 0);
    CHECK_INT(list->lost, ==, 110);
    queue_free(list);
    add(queue, "a", SONDE_ON_CPU, 2);
    list = queue_take(queue, 1 << 20, 0);
    CHECK_INT(list->lost, ==, 0);
    queue_free(list);
    add(queue, "b", SONDE_ON_CPU, 2);
    list = queue_take(queue, 1 << 20, 0);
    CHECK_INT(list->lost, ==, 1000);
    queue_free(list);
    queue_destroy(queue);
}

TEST(totals_that_do_not_fit_are_counted) {
    struct queue *queue = queue_create(100);
    const struct totals_row row = {"redis", "io", 5};
    queue_add_totals(queue, &row, 1, 10, 20);
    CHECK_INT(queue_lost(queue), ==, 1);
    CHECK(!queue_take(queue, 1 << 20, 0));
    queue_destroy(queue);
}

TEST(losses_of_many_processes_are_bounded) {
    struct queue *queue = queue_create(100);
    for (int i = 0; i < 2 * QUEUE_LOSSES; i++) {
        char uuid[33];
        snprintf(uuid, sizeof uuid, "%d", i);
        add(queue, uuid, SONDE_ON_CPU, 1);
    }
    CHECK_INT(queue_lost(queue), ==, 2 * QUEUE_LOSSES);
    queue_destroy(queue);
}

TEST(a_batch_has_about_the_bytes_that_were_asked_for) {
    struct queue *queue = queue_create(1 << 20);
    for (int i = 0; i < 3; i++)
        add(queue, "a", SONDE_ON_CPU, 1);
    struct queue_item *list = queue_take(queue, 1, 0);
    CHECK(list && !list->next);
    queue_free(list);
    list = queue_take(queue, 1 << 20, 0);
    CHECK(list && list->next && !list->next->next);
    queue_free(list);
    queue_destroy(queue);
}

TEST(a_closed_queue_counts_what_it_has_and_what_arrives) {
    struct queue *queue = queue_create(1 << 20);
    add(queue, "a", SONDE_ON_CPU, 1);
    queue_close(queue);
    add(queue, "a", SONDE_ON_CPU, 1);
    CHECK_INT(queue_lost(queue), ==, 2);
    queue_wake(queue);
    CHECK(!queue_take(queue, 1 << 20, 60000)); /* does not wait */
    queue_count_lost(queue, 5);
    CHECK_INT(queue_lost(queue), ==, 7);
    queue_destroy(queue);
}

/* ---- The delivery identity ---- */

static void write_source(const char *dir, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/source", dir);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
}

TEST(the_installation_stays_and_the_epoch_counts_starts) {
    char dir[128];
    struct identity first, second;
    CHECK(mkdtemp(temporary_template(dir, sizeof dir)) != NULL);
    CHECK_INT(identity_begin(dir, &first, NULL), ==, SONDE_OK);
    CHECK(first.source != 0 && first.installation != 0);
    CHECK_INT(first.epoch, ==, 1);
    CHECK_INT(identity_begin(dir, &second, NULL), ==, SONDE_OK);
    CHECK(second.installation == first.installation);
    CHECK_INT(second.epoch, ==, 2);
}

TEST(a_restored_identity_has_another_source) {
    char dir[128];
    struct identity lives[3];
    CHECK(mkdtemp(temporary_template(dir, sizeof dir)) != NULL);
    for (size_t i = 0; i < 3; i++) {
        write_source(dir, "0123456789abcdef 7\n");
        CHECK_INT(identity_begin(dir, &lives[i], NULL), ==, SONDE_OK);
        CHECK(lives[i].installation == lives[0].installation);
        CHECK_INT(lives[i].epoch, ==, 8);
        CHECK(i == 0 || lives[i].source != lives[i - 1].source);
    }
}

TEST(a_damaged_identity_is_replaced_by_a_new_one) {
    static const char *const texts[] = {"",
                                        "nonsense",
                                        "0123456789abcdef 7",
                                        "0000000000000000 7\n",
                                        "0123456789abcdef 0\n",
                                        "0123456789abcdef 4294967295\n"};
    char dir[128];
    struct identity identity, good;
    CHECK(mkdtemp(temporary_template(dir, sizeof dir)) != NULL);
    write_source(dir, "0123456789abcdef 7\n");
    CHECK_INT(identity_begin(dir, &good, NULL), ==, SONDE_OK);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_source(dir, texts[i]);
        CHECK_INT(identity_begin(dir, &identity, NULL), ==, SONDE_OK);
        CHECK(identity.installation != good.installation);
        CHECK_INT(identity.epoch, ==, 1);
    }
}

TEST(an_identity_that_cannot_be_kept_is_an_error) {
    struct identity identity;
    struct sonde_diag diag = {0};
    CHECK_INT(identity_begin("/nonexistent", &identity, &diag), ==, SONDE_IO);
    CHECK(strstr(diag.text, "/nonexistent/source cannot be written") != NULL);
}
