/* SPDX-License-Identifier: Apache-2.0
 *
 * ListChanges, over a store in memory. */
#include "service/store/store.h"
#include "tests/rpc/history/history_setup.h"
#include "tests/unit/check.h"

#include <string.h>

static struct history_setup scene;

static void put(const char *service, int64_t time_unix_s) {
    Sonde__V1__Change change = SONDE__V1__CHANGE__INIT;
    uint8_t body[256];
    change.service = (char *)service;
    change.until_unix_ns = time_unix_s * INT64_C(1000000000);
    CHECK_INT(sonde__v1__change__get_packed_size(&change), <=, sizeof body);
    size_t len = sonde__v1__change__pack(&change, body);
    const struct store_change row = {time_unix_s, service, {(const char *)body, len}};
    CHECK_INT(scene.store->ops->put_change(scene.store, &row, NULL), ==, SONDE_OK);
}

static Sonde__V1__ListChangesResponse *ask(const char *service, uint32_t limit, sonde_err *err) {
    Sonde__V1__ListChangesRequest request = SONDE__V1__LIST_CHANGES_REQUEST__INIT;
    request.service = (char *)service;
    request.from_unix_ns = 100 * INT64_C(1000000000);
    request.limit = limit;
    return history_ask(&scene, &client_list_changes, &request.base, err, NULL);
}

TEST(changes_are_listed_newest_first_up_to_a_limit) {
    history_setup_begin(&scene, true);
    put("shop", 50);
    put("shop", 100);
    put("db", 300);
    const struct store_change damaged = {200, "shop", {"\xff\xff", 2}};
    CHECK_INT(scene.store->ops->put_change(scene.store, &damaged, NULL), ==, SONDE_OK);
    Sonde__V1__ListChangesResponse *response = ask("", 0, NULL);
    CHECK_INT(response->n_changes, ==, 2); /* one cannot be read, and one is too old */
    CHECK_STR(response->changes[0]->service, "db");
    CHECK(!response->is_cut);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    response = ask("", 1, NULL);
    CHECK_INT(response->n_changes, ==, 1);
    CHECK(response->is_cut);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    response = ask("nobody", 1, NULL);
    CHECK_INT(response->n_changes, ==, 0);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    history_setup_end(&scene);
}

TEST(a_limit_or_a_service_that_is_too_large_is_refused) {
    char service[2000];
    sonde_err err;
    history_setup_begin(&scene, true);
    memset(service, 'a', sizeof service);
    service[sizeof service - 1] = 0;
    CHECK(ask("", 10001, &err) == NULL);
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    CHECK(ask(service, 1, &err) == NULL);
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    history_setup_end(&scene);
}
