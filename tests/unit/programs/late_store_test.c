/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/late_store.h"

#include "service/store/open.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char lines[1000];

static void log_line(const char *line) {
    snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s\n", line);
}

static sonde_err put(struct store *store, struct sonde_diag *diag) {
    struct store_batch batch = {.window_count = 0};
    struct store_put_result result;
    return store_put(store, &batch, &result, diag);
}

static void put_until_it_works(struct store *store) {
    sonde_err err;
    for (int i = 0; (err = put(store, NULL)) != SONDE_OK && i < 3000; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    CHECK_INT(err, ==, SONDE_OK);
}

TEST(a_store_that_cannot_be_opened_gives_the_reason_until_it_can) {
    char dir[128], name[200], obstacle[200];
    struct store *store = NULL;
    struct store_info info;
    struct sonde_diag diag = {0};
    CHECK(mkdtemp(temporary_template(dir, sizeof dir)) != NULL);
    snprintf(obstacle, sizeof obstacle, "%s/history", dir);
    snprintf(name, sizeof name, "sqlite:%s/history", dir);
    fclose(fopen(obstacle, "we"));
    sonde_err err = store_open(name, NULL, &store, &diag);
    CHECK(err != SONDE_OK);
    store = late_store_create(name, NULL, sonde_diag_text(&diag, err), log_line);
    CHECK(strstr(lines, "cannot be opened, trying again: ") && strstr(lines, obstacle));
    for (int i = 0; i < 2; i++) {
        diag = (struct sonde_diag){0};
        CHECK_INT(put(store, &diag), ==, SONDE_UNAVAILABLE);
        CHECK(strstr(diag.text, obstacle) != NULL);
    }
    CHECK_INT(store->ops->info(store, NULL, &info, NULL), ==, SONDE_OK);
    CHECK_STR(info.engine, "sqlite");
    CHECK(strstr(info.trouble, obstacle) != NULL);
    CHECK_INT(unlink(obstacle), ==, 0);
    put_until_it_works(store);
    CHECK(strstr(lines, "the history is open\n") != NULL);
    CHECK_INT(store->ops->info(store, NULL, &info, NULL), ==, SONDE_OK);
    CHECK_STR(info.trouble, "");
    CHECK_STR(info.place, obstacle);
    store_close(store);
}
