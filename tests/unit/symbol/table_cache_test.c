/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/files/table_cache.h"
#include "tests/unit/check.h"
#include "tests/unit/symbol/fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void publish(struct symbol_cache *cache, const char *identity, size_t len) {
    struct sonde_buf buf = {0};
    struct symbol_image image;
    memset(sonde_buf_extend(&buf, len), identity[0], len);
    CHECK_INT(symbol_cache_publish(cache, identity, "symbols", &buf, &image), ==, SONDE_OK);
    CHECK_INT(image.len, ==, len);
    CHECK_INT(((char *)image.bytes)[len - 1], ==, identity[0]);
    symbol_image_finish(&image);
}

static bool is_there(struct symbol_cache *cache, const char *identity) {
    int fd = symbol_cache_open(cache, identity, "symbols");
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

TEST(a_published_table_is_found_again) {
    struct symbol_cache cache;
    const char *path = fixture_path("again");
    CHECK_INT(symbol_cache_init(&cache, path, 0, NULL), ==, SONDE_OK);
    publish(&cache, "a", 5000);
    symbol_cache_finish(&cache);
    CHECK_INT(symbol_cache_init(&cache, path, 0, NULL), ==, SONDE_OK);
    CHECK(is_there(&cache, "a"));
    CHECK(!is_there(&cache, "b"));
    CHECK_STR(fixture_line("ls again"), "a.symbols"); /* nothing temporary is left */
    symbol_cache_finish(&cache);
}

static void set_age(const char *name, int seconds) {
    CHECK_INT(fixture_run("touch -d '%d seconds ago' %s", seconds, name), ==, 0);
}

TEST(the_least_recently_used_table_is_removed_first) {
    struct symbol_cache cache;
    CHECK_INT(symbol_cache_init(&cache, fixture_path("full"), 300 << 10, NULL), ==, SONDE_OK);
    publish(&cache, "a", 100 << 10);
    publish(&cache, "b", 100 << 10);
    set_age("full/a.symbols", 100);
    set_age("full/b.symbols", 200);
    publish(&cache, "c", 100 << 10); /* 300 KiB: within the limit */
    CHECK(fixture_run("test -e full/b.symbols") == 0);
    publish(&cache, "d", 50 << 10);
    CHECK(!is_there(&cache, "b"));
    CHECK(is_there(&cache, "a"));
    CHECK(is_there(&cache, "c"));
    CHECK(is_there(&cache, "d"));
    symbol_cache_finish(&cache);
}

TEST(opening_a_table_marks_it_as_used) {
    struct symbol_cache cache;
    CHECK_INT(symbol_cache_init(&cache, fixture_path("use"), 250 << 10, NULL), ==, SONDE_OK);
    publish(&cache, "a", 100 << 10);
    publish(&cache, "b", 100 << 10);
    set_age("use/a.symbols", 200);
    set_age("use/b.symbols", 100);
    CHECK(is_there(&cache, "a"));
    publish(&cache, "c", 100 << 10);
    CHECK(is_there(&cache, "a"));
    CHECK(!is_there(&cache, "b"));
    symbol_cache_finish(&cache);
}

TEST(temporary_files_of_a_crashed_writer_are_removed) {
    struct symbol_cache cache;
    CHECK_INT(symbol_cache_init(&cache, fixture_path("swept"), 0, NULL), ==, SONDE_OK);
    CHECK_INT(fixture_run("touch -d '2 hours ago' swept/tmp.1.1 && touch swept/tmp.2.1"), ==, 0);
    publish(&cache, "a", 10);
    CHECK(fixture_run("test -e swept/tmp.1.1") != 0);
    CHECK(fixture_run("test -e swept/tmp.2.1") == 0); /* another process may still be writing it */
    symbol_cache_finish(&cache);
}

TEST(a_directory_that_other_users_can_write_to_is_refused) {
    struct symbol_cache cache;
    struct sonde_diag diag = {0};
    CHECK_INT(fixture_run("mkdir -m 777 open && chmod 777 open"), ==, 0);
    CHECK_INT(symbol_cache_init(&cache, fixture_path("open"), 0, &diag), ==,
              SONDE_PERMISSION_DENIED);
    CHECK(strstr(diag.text, "chmod"));
}

TEST(without_a_directory_tables_are_in_memory) {
    struct symbol_cache cache;
    CHECK_INT(symbol_cache_init(&cache, NULL, 0, NULL), ==, SONDE_OK);
    publish(&cache, "a", 5000);
    CHECK(!is_there(&cache, "a"));
    symbol_cache_finish(&cache);
}

TEST(a_symbolic_link_in_the_cache_is_not_followed) {
    struct symbol_cache cache;
    CHECK_INT(symbol_cache_init(&cache, fixture_path("link"), 0, NULL), ==, SONDE_OK);
    CHECK_INT(fixture_run("ln -s /etc/passwd link/a.symbols"), ==, 0);
    CHECK(!is_there(&cache, "a"));
    publish(&cache, "a", 10);
    CHECK(is_there(&cache, "a"));
    CHECK_INT(fixture_run("test -f link/a.symbols && ! test -L link/a.symbols"), ==, 0);
    symbol_cache_finish(&cache);
}
