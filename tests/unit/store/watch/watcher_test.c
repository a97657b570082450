/* SPDX-License-Identifier: Apache-2.0
 *
 * The watcher over a store in memory. */
#include "proto/sonde/v1/history.pb-c.h"
#include "service/watch/level.h"
#include "service/watch/watcher.h"
#include "tests/unit/check.h"
#include "tests/unit/store/fake_store.h"
#include "tests/unit/store/watch/shop.h"

#include <stdio.h>
#include <string.h>

#define SEED  20261128u
#define QUIET 40 /* slots before a change */
#define AFTER 12

static struct store *store;
static struct shop shop;
static struct watcher *watcher;
static struct sonde_arena arena;
static char log_text[4096];

static void on_log(const char *line) {
    size_t len = strlen(log_text);
    snprintf(log_text + len, sizeof log_text - len, "%s\n", line);
}

static struct watcher *create(void) {
    return watcher_create(&(struct watcher_options){.store = store, .log = on_log});
}

static void begin(void) {
    store = fake_store_create();
    shop_init(&shop, store, SEED);
    watcher = create();
    CHECK(watcher != NULL);
    log_text[0] = 0;
    printf("seed %u\n", SEED);
}

static void end(void) {
    watcher_destroy(watcher);
    store_close(store);
    sonde_arena_finish(&arena);
}

static sonde_err look(void) {
    return watcher_look(watcher, shop_now(&shop), NULL);
}

static struct watcher_state state(void) {
    struct watcher_state now;
    watcher_state(watcher, &now);
    return now;
}

/* The stored changes; they live until the end. */
static size_t list(Sonde__V1__Change **changes, size_t limit) {
    const struct store_change_query query = {
        .service = "", .until_unix_s = shop_now(&shop), .limit = limit};
    struct store_change *rows;
    size_t count;
    CHECK_INT(store->ops->changes(store, &query, &arena, &rows, &count, NULL), ==, SONDE_OK);
    for (size_t i = 0; i < count; i++) {
        changes[i] =
            sonde__v1__change__unpack(NULL, rows[i].body.len, (const uint8_t *)rows[i].body.data);
        CHECK(changes[i] != NULL);
    }
    return count;
}

static Sonde__V1__Change *only_change(void) {
    Sonde__V1__Change *changes[8];
    CHECK_INT(list(changes, 8), ==, 1);
    return changes[0];
}

static void forget(Sonde__V1__Change *change) {
    sonde__v1__change__free_unpacked(change, NULL);
}

TEST(a_release_that_makes_a_function_slower_is_found_with_its_version) {
    begin();
    shop_pass(&shop, QUIET);
    CHECK_INT(look(), ==, SONDE_OK);
    CHECK_INT(state().changes, ==, 0);
    shop.version = "1.5";
    shop_multiply(&shop, 5, 1.3);
    shop_pass(&shop, AFTER);
    CHECK_INT(look(), ==, SONDE_OK);
    Sonde__V1__Change *change = only_change();
    const Sonde__V1__ChangedFunction *function = change->functions[0];
    int64_t at = (SHOP_BEGIN + QUIET * LEVEL_SLOT_S) * INT64_C(1000000000);
    CHECK_STR(change->service, "shop");
    CHECK_INT(change->until_unix_ns, ==, at);
    CHECK_INT(change->from_unix_ns, ==, at - LEVEL_SLOT_S * INT64_C(1000000000));
    CHECK_INT(change->n_functions, ==, 1);
    CHECK_STR(function->function, "sort");
    CHECK_INT(function->kind, ==, SONDE__V1__CHANGE_KIND__CHANGE_KIND_MORE);
    CHECK_NEAR(function->factor, 1.3, 0.05);
    CHECK(function->after / function->before < function->factor);
    CHECK(function->low < function->after - function->before);
    CHECK_INT(function->n_callers, ==, 2);
    CHECK_STR(function->callers[0], "handle");
    CHECK_STR(function->callers[1], "main");
    CHECK_STR(change->host, "");
    CHECK_INT(change->n_labels, ==, 1);
    CHECK_STR(change->labels[0]->name, "version");
    CHECK_STR(change->labels[0]->before, "1.4");
    CHECK_STR(change->labels[0]->after, "1.5");
    CHECK(strstr(change->page, "/#compare?base=history%2Fshop%2F16999") == change->page);
    CHECK(strstr(log_text, "change of shop: sort +3") && strstr(log_text, "version 1.4 -> 1.5"));
    forget(change);
    end();
}

TEST(a_change_is_reported_once_also_after_a_restart) {
    begin();
    shop_pass(&shop, QUIET);
    shop_multiply(&shop, 5, 1.3);
    shop_pass(&shop, AFTER);
    CHECK_INT(look(), ==, SONDE_OK);
    forget(only_change());
    shop_pass(&shop, 3);
    CHECK_INT(look(), ==, SONDE_OK);
    CHECK_INT(state().repeated, >, 0);
    watcher_destroy(watcher);
    watcher = create();
    shop_pass(&shop, 1);
    CHECK_INT(look(), ==, SONDE_OK);
    CHECK_INT(state().changes, ==, 0);
    CHECK_INT(state().repeated, >, 0);
    forget(only_change());
    end();
}

TEST(a_change_that_is_taken_back_is_another_one) {
    Sonde__V1__Change *changes[8];
    begin();
    shop_pass(&shop, QUIET);
    shop_multiply(&shop, 5, 1.5);
    shop_pass(&shop, 60);
    shop_multiply(&shop, 5, 1 / 1.5);
    shop_pass(&shop, AFTER);
    CHECK_INT(look(), ==, SONDE_OK);
    CHECK_INT(list(changes, 8), ==, 1); /* the first one is too old for a watcher that starts now */
    CHECK_INT(changes[0]->functions[0]->kind, ==, SONDE__V1__CHANGE_KIND__CHANGE_KIND_LESS);
    forget(changes[0]);
    end();
}

TEST(a_change_that_comes_again_is_reported_again) {
    static const Sonde__V1__ChangeKind kinds[] = {SONDE__V1__CHANGE_KIND__CHANGE_KIND_MORE,
                                                  SONDE__V1__CHANGE_KIND__CHANGE_KIND_LESS,
                                                  SONDE__V1__CHANGE_KIND__CHANGE_KIND_MORE};
    const double factors[] = {1.5, 1 / 1.5, 1.5};
    Sonde__V1__Change *changes[8];
    begin();
    shop_pass(&shop, QUIET);
    for (size_t i = 0; i < 3; i++) {
        shop_multiply(&shop, 5, factors[i]);
        for (size_t j = 0; j < LEVEL_BEFORE; j++) {
            shop_pass(&shop, 1);
            CHECK_INT(look(), ==, SONDE_OK);
        }
    }
    CHECK_INT(list(changes, 8), ==, 3);
    for (size_t i = 0; i < 3; i++) {
        CHECK_INT(changes[2 - i]->functions[0]->kind, ==, kinds[i]);
        forget(changes[2 - i]);
    }
    end();
}

/* A name is not what a change is recognized by: a note has brackets like code without a name, and
 * code may have got its name since. */
static void check_reported_once(const char *name) {
    begin();
    shop.names[5] = name;
    shop_pass(&shop, QUIET);
    shop_multiply(&shop, 5, 1.5);
    for (size_t i = 0; i < AFTER; i++) {
        shop_pass(&shop, 1);
        CHECK_INT(look(), ==, SONDE_OK);
    }
    CHECK_INT(state().changes, ==, 1);
    CHECK_INT(state().repeated, >, 0);
    forget(only_change());
    end();
}

TEST(a_change_of_a_note_is_reported_once) {
    check_reported_once("[no unwind table]");
}

TEST(a_change_of_code_that_gets_a_name_is_reported_once) {
    begin();
    shop.unnamed = 5;
    shop_pass(&shop, QUIET);
    CHECK_INT(look(), ==, SONDE_OK);
    shop_multiply(&shop, 5, 1.5);
    shop.unnamed = SIZE_MAX;
    for (size_t i = 0; i < AFTER; i++) {
        shop_pass(&shop, 1);
        CHECK_INT(look(), ==, SONDE_OK);
    }
    CHECK_INT(state().changes, ==, 1);
    CHECK_INT(state().repeated, >, 0);
    forget(only_change());
    end();
}

TEST(a_function_that_vanished_is_not_called_new) {
    begin();
    shop_pass(&shop, QUIET);
    shop_multiply(&shop, 5, 0);
    shop_pass(&shop, AFTER);
    CHECK_INT(look(), ==, SONDE_OK);
    forget(only_change());
    CHECK(strstr(log_text, "change of shop: sort -100 %") != NULL);
    end();
}

/* Of 64 KiB at most. */
TEST(a_change_with_long_names_loses_its_callers) {
    static char names[SHOP_FUNCTIONS][12000];
    Sonde__V1__Change *changes[8];
    begin();
    for (size_t i = 0; i < SHOP_FUNCTIONS; i++) {
        memset(names[i], 'a' + (int)i, sizeof names[i] - 1);
        shop.names[i] = names[i];
    }
    shop_pass(&shop, QUIET);
    for (size_t i = 0; i < SHOP_FUNCTIONS; i += 2)
        shop_multiply(&shop, i, 3);
    shop_pass(&shop, AFTER);
    CHECK_INT(look(), ==, SONDE_OK);
    CHECK_INT(state().failed, ==, 0);
    size_t count = list(changes, 8); /* what was left out is found again */
    CHECK_INT(count, >, 0);
    CHECK_INT(changes[0]->n_functions, >, 1);
    CHECK_INT(changes[0]->functions[0]->n_callers, ==, 0);
    for (size_t i = 0; i < count; i++) {
        CHECK_INT(sonde__v1__change__get_packed_size(changes[i]), <=, STORE_MAX_CHANGE_BYTES);
        forget(changes[i]);
    }
    end();
}

TEST(one_slow_host_is_named) {
    begin();
    shop_pass(&shop, QUIET);
    shop.costs[3][5] *= 4;
    shop_pass(&shop, AFTER);
    CHECK_INT(look(), ==, SONDE_OK);
    Sonde__V1__Change *change = only_change();
    CHECK_STR(change->host, "web-3");
    CHECK_STR(change->functions[0]->function, "sort");
    CHECK(strstr(log_text, "only on web-3") != NULL);
    forget(change);
    end();
}

TEST(a_renamed_function_has_its_former_name) {
    begin();
    shop_pass(&shop, QUIET);
    shop.names[5] = "sort_fast";
    shop_pass(&shop, AFTER + 2);
    CHECK_INT(look(), ==, SONDE_OK);
    Sonde__V1__Change *change = only_change();
    CHECK_INT(change->functions[0]->kind, ==, SONDE__V1__CHANGE_KIND__CHANGE_KIND_MOVED);
    CHECK_STR(change->functions[0]->function, "sort_fast");
    CHECK_STR(change->functions[0]->moved_from, "sort");
    forget(change);
    end();
}

TEST(an_empty_store_has_no_changes) {
    begin();
    CHECK_INT(look(), ==, SONDE_OK);
    CHECK_INT(state().services, ==, 0);
    CHECK_INT(state().until_unix_s, ==, SHOP_BEGIN);
    CHECK_STR(state().trouble, "");
    end();
}

TEST(a_store_that_was_away_is_caught_up_with) {
    begin();
    shop_pass(&shop, QUIET);
    CHECK_INT(look(), ==, SONDE_OK);
    shop_multiply(&shop, 5, 1.3);
    shop_pass(&shop, AFTER);
    fake_store_fail_next(store, SONDE_UNAVAILABLE);
    struct sonde_diag diag = {0};
    CHECK_INT(watcher_look(watcher, shop_now(&shop), &diag), ==, SONDE_UNAVAILABLE);
    CHECK_STR(state().trouble, "the fake store fails");
    CHECK_INT(state().changes, ==, 0);
    CHECK_INT(look(), ==, SONDE_OK);
    CHECK_STR(state().trouble, "");
    CHECK_INT(state().skipped_slots, ==, 0);
    CHECK_INT(state().changes, ==, 1);
    end();
}

TEST(what_is_too_old_is_skipped_and_counted) {
    begin();
    shop_pass(&shop, QUIET);
    CHECK_INT(look(), ==, SONDE_OK);
    shop.slot += LEVEL_SLOTS + 7; /* nothing was looked at meanwhile */
    CHECK_INT(look(), ==, SONDE_OK);
    CHECK_INT(state().skipped_slots, ==, 7);
    CHECK(strstr(log_text, "were not looked for") != NULL);
    CHECK_INT(state().services, ==, 0); /* nothing was recorded in the slots that are looked at */
    end();
}

static sonde_err refuse_change(struct store *full, const struct store_change *change,
                               struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_UNAVAILABLE, "the disk is full");
}

TEST(a_change_that_cannot_be_stored_is_counted_and_found_again) {
    begin();
    const struct store_ops *ops = store->ops;
    struct store_ops full = *ops;
    full.put_change = refuse_change;
    shop_pass(&shop, QUIET);
    shop_multiply(&shop, 5, 1.5);
    shop_pass(&shop, AFTER);
    store->ops = &full;
    struct sonde_diag diag = {0};
    CHECK_INT(watcher_look(watcher, shop_now(&shop), &diag), ==, SONDE_UNAVAILABLE);
    CHECK_STR(state().trouble, "the disk is full");
    CHECK_INT(state().failed, ==, 1);
    store->ops = ops;
    CHECK_INT(look(), ==, SONDE_OK);
    CHECK_INT(state().changes, ==, 1);
    forget(only_change());
    end();
}

TEST(the_thread_looks_at_once_and_ends_at_once) {
    begin();
    CHECK_INT(watcher_start(watcher, NULL), ==, SONDE_OK);
    end();
}
