/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ui/asset_folder.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder_path[200];

static const char *path_of(const char *name) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", folder_path, name);
    return path;
}

static void begin(void) {
    const char *tmp = getenv("TEST_TMPDIR");
    snprintf(folder_path, sizeof folder_path, "%.150s/assets.XXXXXX", tmp ? tmp : "/tmp");
    CHECK(mkdtemp(folder_path) != NULL);
}

static void put(const char *name, const char *text) {
    FILE *file = fopen(path_of(name), "w");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
}

static void end(void) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder_path);
    CHECK_INT(system(command), ==, 0);
}

static const struct ui_asset *find(const struct asset_folder *folder, const char *name) {
    return asset_folder_find(folder, sonde_slice_of(name));
}

TEST(a_folder_is_read_with_media_types_and_tags) {
    struct asset_folder folder;
    begin();
    put("index.html", "<p>");
    put("a-1.js", "a()");
    put("b.wasm", "");
    put("c.unknown", "c");
    CHECK_INT(asset_folder_read(folder_path, &folder, NULL), ==, SONDE_OK);
    CHECK_INT(folder.count, ==, 4);
    CHECK_STR(find(&folder, "a-1.js")->media_type, "text/javascript; charset=utf-8");
    CHECK(sonde_slice_equals(find(&folder, "a-1.js")->bytes, "a()"));
    CHECK_STR(find(&folder, "b.wasm")->media_type, "application/wasm");
    CHECK_STR(find(&folder, "c.unknown")->media_type, "application/octet-stream");
    CHECK(find(&folder, "") == find(&folder, "index.html"));
    CHECK(!find(&folder, "d"));
    CHECK_INT(strlen(find(&folder, "a-1.js")->etag), ==, 20);
    CHECK(strcmp(find(&folder, "a-1.js")->etag, find(&folder, "c.unknown")->etag) != 0);
    asset_folder_finish(&folder);
    end();
}

TEST(links_folders_and_hidden_files_are_left_out) {
    struct asset_folder folder;
    begin();
    put("index.html", "<p>");
    put(".hidden", "x");
    put("with space", "x");
    CHECK_INT(symlink("/etc/passwd", path_of("link")), ==, 0);
    CHECK_INT(mkdir(path_of("sub"), 0700), ==, 0);
    CHECK_INT(mkfifo(path_of("pipe"), 0600), ==, 0);
    CHECK_INT(asset_folder_read(folder_path, &folder, NULL), ==, SONDE_OK);
    CHECK_INT(folder.count, ==, 1);
    asset_folder_finish(&folder);
    end();
}

TEST(a_folder_that_is_missing_or_has_no_index_is_not_found) {
    struct asset_folder folder;
    struct sonde_diag diag = {0};
    begin();
    CHECK_INT(asset_folder_read(path_of("nothing"), &folder, &diag), ==, SONDE_NOT_FOUND);
    put("main.js", "");
    CHECK_INT(asset_folder_read(folder_path, &folder, &diag), ==, SONDE_NOT_FOUND);
    CHECK(strstr(diag.text, "has no index.html") != NULL);
    CHECK(!folder.items && !folder.count);
    end();
}

TEST(a_folder_with_too_many_files_is_refused) {
    struct asset_folder folder;
    struct sonde_diag diag = {0};
    char name[20];
    begin();
    put("index.html", "");
    for (int i = 0; i < ASSET_FOLDER_FILES; i++) {
        snprintf(name, sizeof name, "%d.js", i);
        put(name, "");
    }
    CHECK_INT(asset_folder_read(folder_path, &folder, &diag), ==, SONDE_TOO_LARGE);
    CHECK_STR(diag.text, "the folder has more than 64 files or 32 MiB");
    unlink(path_of("0.js"));
    CHECK_INT(asset_folder_read(folder_path, &folder, NULL), ==, SONDE_OK);
    asset_folder_finish(&folder);
    end();
}

TEST(a_folder_with_too_many_bytes_is_refused) {
    struct asset_folder folder;
    begin();
    put("index.html", "");
    put("large", "");
    CHECK_INT(truncate(path_of("large"), ASSET_FOLDER_BYTES + 1), ==, 0);
    CHECK_INT(asset_folder_read(folder_path, &folder, NULL), ==, SONDE_TOO_LARGE);
    CHECK_INT(truncate(path_of("large"), ASSET_FOLDER_BYTES), ==, 0);
    CHECK_INT(asset_folder_read(folder_path, &folder, NULL), ==, SONDE_OK);
    asset_folder_finish(&folder);
    end();
}
