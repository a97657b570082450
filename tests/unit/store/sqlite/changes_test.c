/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes that a watcher found. */
#include "service/store/sqlite/db/db.h"
#include "tests/unit/check.h"
#include "tests/unit/store/sqlite/scene.h"

#include <string.h>

static struct scene scene;

static void put(const char *service, int64_t time_unix_s, const char *body) {
    const struct store_change change = {time_unix_s, service, sonde_slice_of(body)};
    CHECK_INT(scene.store->ops->put_change(scene.store, &change, NULL), ==, SONDE_OK);
}

/* The bodies of what is found, with blanks between them. */
static const char *list(const char *service, int64_t from, int64_t until, size_t limit) {
    static char text[256];
    const struct store_change_query query = {service, from, until, limit, NULL};
    struct store_change *rows;
    size_t count, len = 0;
    CHECK_INT(scene.store->ops->changes(scene.store, &query, &scene.arena, &rows, &count, NULL), ==,
              SONDE_OK);
    text[0] = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(text + len, rows[i].body.data, rows[i].body.len);
        len += rows[i].body.len;
        text[len++] = ' ';
        text[len] = 0;
        CHECK(rows[i].service[0] != 0 && rows[i].time_unix_s >= from);
    }
    return text;
}

TEST(changes_are_listed_newest_first_and_once) {
    scene_open(&scene);
    CHECK_STR(list("", 0, INT64_MAX, 10), "");
    put("shop", 100, "a");
    put("db", 300, "b");
    put("shop", 200, "c");
    put("shop", 200, "c"); /* again */
    put("shop", 200, "d");
    CHECK_STR(list("", 0, INT64_MAX, 10), "b d c a ");
    CHECK_STR(list("shop", 0, INT64_MAX, 10), "d c a ");
    CHECK_STR(list("", 200, 300, 10), "d c ");
    CHECK_STR(list("", 0, INT64_MAX, 2), "b d ");
    scene_reopen(&scene, NULL);
    CHECK_STR(list("db", 0, INT64_MAX, 10), "b ");
    scene_close(&scene);
}

TEST(changes_are_kept_as_long_as_history) {
    const struct store_limits limits = {.keep_s = 3600};
    scene_open(&scene);
    scene_reopen(&scene, &limits);
    put("shop", HOUR, "old");
    put("shop", HOUR + 3000, "new");
    scene_maintain(&scene, HOUR + 5000);
    CHECK_STR(list("", 0, INT64_MAX, 10), "new ");
    scene_close(&scene);
}

/* A file of an earlier Sonde has no table of changes until it is opened for writing. */
TEST(a_file_without_the_table_has_no_changes) {
    sqlite3 *handle;
    scene_open(&scene);
    CHECK_INT(sqlite3_open(scene.path, &handle), ==, SQLITE_OK);
    CHECK_INT(sqlite3_exec(handle, "DROP TABLE change", NULL, NULL, NULL), ==, SQLITE_OK);
    sqlite3_close(handle);
    CHECK_STR(list("", 0, INT64_MAX, 10), "");
    scene_reopen(&scene, NULL);
    put("shop", 100, "a");
    CHECK_STR(list("", 0, INT64_MAX, 10), "a ");
    scene_close(&scene);
}
