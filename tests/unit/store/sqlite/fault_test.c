/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong with files and processes: nothing that was acknowledged is lost or doubled, and
 * each error says what to do. */
#include "tests/unit/check.h"
#include "tests/unit/store/sqlite/scene.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct scene scene;

static uint64_t windows_stored(void) {
    struct store_query query = scene_query(HOUR, HOUR + 86400);
    struct store_merge merge = scene_merge(&scene, &query);
    CHECK_INT(scene_total(&merge), ==, (int64_t)merge.windows * 1000000);
    return merge.windows;
}

/* Puts windows and writes a byte into the pipe for each acknowledged one, until it is killed. */
static void put_for_ever(uint64_t seq, int pipe_end) {
    struct store_put_result result;
    if (sqlite_store_open(scene.directory, NULL, &scene.store, NULL))
        _exit(1);
    for (;; seq++)
        if (scene_try(&scene, &(struct spec){.seq = seq, .begin = HOUR + (int64_t)seq}, &result,
                      NULL) ||
            result.stored != 1 || write(pipe_end, "", 1) != 1)
            _exit(1);
}

TEST(kill_9_loses_and_doubles_nothing_that_was_acknowledged) {
    scene_open(&scene);
    uint64_t stored = 0;
    for (int round = 0; round < 5; round++) {
        int ends[2], status;
        CHECK(pipe(ends) == 0);
        store_close(scene.store);
        scene.store = NULL;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            put_for_ever(stored, ends[1]);
        close(ends[1]);
        uint64_t acknowledged = 0;
        char byte;
        for (; acknowledged < 12 && read(ends[0], &byte, 1) == 1; acknowledged++)
            continue;
        kill(child, SIGKILL);
        for (; read(ends[0], &byte, 1) == 1; acknowledged++)
            continue;
        close(ends[0]);
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        scene_reopen(&scene, NULL);
        uint64_t after = windows_stored();
        /* Only the one whose acknowledgement was not written may be there in addition. */
        CHECK_INT(after, >=, stored + acknowledged);
        CHECK_INT(after, <=, stored + acknowledged + 1);
        stored = after;
    }
    for (uint64_t seq = 0; seq < stored; seq++)
        CHECK_INT(scene_put(&scene, &(struct spec){.seq = seq, .begin = HOUR}).duplicates, ==, 1);
    CHECK_INT(windows_stored(), ==, stored);
    scene_close(&scene);
}

TEST(a_full_disk_is_reported_until_there_is_room) {
    scene_open(&scene);
    struct rlimit before, small;
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = before;
    small.rlim_cur = 200000;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    struct store_put_result result;
    struct sonde_diag diag = {0};
    uint64_t seq = 0;
    sonde_err err = SONDE_OK;
    while (!err && seq < 10000) {
        err = scene_try(&scene, &(struct spec){.seq = seq, .begin = HOUR}, &result, &diag);
        seq += !err;
    }
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK_INT(err, ==, SONDE_UNAVAILABLE);
    if (!strstr(diag.text, "the disk is full"))
        CHECK_STR(diag.text, "the disk is full");
    CHECK_INT(result.stored, ==, 0);
    struct store_info info;
    CHECK_INT(scene.store->ops->info(scene.store, NULL, &info, NULL), ==, SONDE_OK);
    CHECK_STR(info.trouble, diag.text);
    CHECK_INT(windows_stored(), ==, seq);
    CHECK_INT(scene_put(&scene, &(struct spec){.seq = seq, .begin = HOUR}).stored, ==, 1);
    CHECK_INT(scene.store->ops->info(scene.store, NULL, &info, NULL), ==, SONDE_OK);
    CHECK_STR(info.trouble, "");
    CHECK_INT(windows_stored(), ==, seq + 1);
    scene_reopen(&scene, NULL);
    CHECK_INT(windows_stored(), ==, seq + 1);
    scene_close(&scene);
}

static void overwrite(off_t from, off_t until) {
    int file = open(scene.path, O_WRONLY);
    CHECK(file >= 0);
    for (off_t at = from; at < until; at += 64)
        CHECK(pwrite(file, "damaged!", 8, at) == 8);
    close(file);
}

TEST(a_damaged_page_is_reported_with_what_to_do) {
    scene_open(&scene);
    scene_fill(&scene, "redis", HOUR, 200);
    store_close(scene.store); /* checkpoints */
    scene.store = NULL;
    overwrite(3 * 8192, 60 * 8192);
    struct sonde_diag diag = {0};
    sonde_err err = sqlite_store_open(scene.directory, NULL, &scene.store, &diag);
    struct store_merge merge;
    struct store_query query = scene_query(HOUR, HOUR + 86400);
    if (!err)
        err = scene.store->ops->merge(scene.store, &query, &scene.arena, &merge, &diag);
    CHECK_INT(err, ==, SONDE_IO);
    CHECK(strstr(diag.text, "history.db is damaged; move it"));
    struct store_put_result result;
    if (scene.store) /* it goes on without history, and does not crash */
        (void)!scene_try(&scene, &(struct spec){.begin = HOUR}, &result, &diag);
    scene_close(&scene);
}

static void check_refused(sonde_err expected, const char *text) {
    struct store *store;
    struct sonde_diag diag = {0};
    CHECK_INT(sqlite_store_open(scene.directory, NULL, &store, &diag), ==, expected);
    CHECK(store == NULL);
    if (!strstr(diag.text, text))
        CHECK_STR(diag.text, text);
}

TEST(a_second_service_is_refused) {
    scene_open(&scene);
    check_refused(SONDE_UNAVAILABLE, "another service uses the history");
    scene_close(&scene);
}

static void write_file(const void *bytes, size_t len, off_t at, int flags) {
    int file = open(scene.path, O_WRONLY | flags, 0600);
    CHECK(file >= 0);
    CHECK(pwrite(file, bytes, len, at) == (ssize_t)len);
    close(file);
}

TEST(a_file_that_was_removed_is_not_written_to) {
    struct store_put_result result;
    struct sonde_diag diag = {0};
    scene_open(&scene);
    CHECK_INT(unlink(scene.path), ==, 0);
    CHECK_INT(scene_try(&scene, &(struct spec){.begin = HOUR}, &result, &diag), ==,
              SONDE_UNAVAILABLE);
    CHECK(strstr(diag.text, "was removed or replaced") != NULL);
    scene_close(&scene);
}

TEST(files_of_others_and_of_other_versions_are_refused) {
    scene_open(&scene);
    store_close(scene.store);
    write_file("\0\0\0\2", 4, 60, 0); /* user_version */
    check_refused(SONDE_NOT_AVAILABLE,
                  "is in format 2, this Sonde reads format 1; update Sonde, or use another");
    write_file("\0\0\0\0", 4, 60, 0);
    check_refused(SONDE_NOT_AVAILABLE, "the file is older than this Sonde: move it away, or use");
    write_file("abcd", 4, 68, 0); /* application_id */
    check_refused(SONDE_NOT_AVAILABLE, "is another program's file");
    char text[8192];
    memset(text, 'x', sizeof text);
    write_file(text, sizeof text, 0, O_TRUNC);
    check_refused(SONDE_IO, "is damaged; move it");
    char read_back[4];
    int file = open(scene.path, O_RDONLY);
    CHECK(pread(file, read_back, 4, 0) == 4 && memcmp(read_back, "xxxx", 4) == 0);
    close(file);
    scene.store = NULL;
    scene_close(&scene);
}

TEST(a_directory_that_cannot_be_made_or_named_is_refused) {
    scene_open(&scene);
    struct store *store;
    struct sonde_diag diag = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/x", scene.path); /* below a file */
    CHECK_INT(sqlite_store_open(path, NULL, &store, &diag), ==, SONDE_IO);
    CHECK(strstr(diag.text, "cannot create the history's directory"));
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = 0;
    CHECK_INT(sqlite_store_open(path, NULL, &store, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(sqlite_store_open("", NULL, &store, &diag), ==, SONDE_INVALID_ARGUMENT);
    scene_close(&scene);
}

/* Without CAP_DAC_OVERRIDE, file modes bind root, too. */
static void set_override(bool has_override) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    CHECK(syscall(SYS_capget, &header, data) == 0);
    data[0].effective &= ~(1u << CAP_DAC_OVERRIDE);
    if (has_override)
        data[0].effective |= data[0].permitted & (1u << CAP_DAC_OVERRIDE);
    CHECK(syscall(SYS_capset, &header, data) == 0);
}

TEST(a_read_only_file_is_reported) {
    scene_open(&scene);
    store_close(scene.store);
    scene.store = NULL;
    CHECK(chmod(scene.path, 0400) == 0);
    set_override(false);
    check_refused(SONDE_UNAVAILABLE, "is read-only");
    set_override(true);
    scene_close(&scene);
}

TEST(a_stopped_query_ends) {
    scene_open(&scene);
    scene_fill(&scene, "redis", HOUR, 10);
    struct store_stop stop = {.is_stopped = true};
    struct store_query query = scene_query(HOUR, HOUR + 3600);
    query.stop = &stop;
    struct store_merge merge;
    CHECK_INT(scene.store->ops->merge(scene.store, &query, &scene.arena, &merge, NULL), ==,
              SONDE_CANCELLED);
    query.stop = NULL;
    CHECK_INT(scene_merge(&scene, &query).windows, ==, 10);
    scene_close(&scene);
}

/* Changes one letter wherever the file has the text. */
static void misspell(const char *text) {
    size_t len = strlen(text), size;
    FILE *file = fopen(scene.path, "r+");
    CHECK(file);
    CHECK_INT(fseek(file, 0, SEEK_END), ==, 0);
    size = (size_t)ftell(file);
    char *bytes = malloc(size);
    CHECK(bytes);
    rewind(file);
    CHECK_INT(fread(bytes, 1, size, file), ==, size);
    size_t found = 0;
    for (size_t at = 0; at + len <= size; at++) {
        if (memcmp(bytes + at, text, len) != 0)
            continue;
        bytes[at] ^= 1;
        found++;
    }
    rewind(file);
    CHECK_INT(fwrite(bytes, 1, size, file), ==, size);
    CHECK_INT(fclose(file), ==, 0);
    CHECK_INT(found, >, 0);
    free(bytes);
}

TEST(a_name_that_was_damaged_is_reported_and_not_shown) {
    static const struct store_line line = {"serve_the_client", "server.c", 7};
    static const struct store_frame frame = {.id = 70,
                                             .build_id = "ab",
                                             .module = "/bin/redis",
                                             .address = 16,
                                             .version = 2,
                                             .lines = &line,
                                             .line_count = 1};
    static const uint64_t id = 70;
    const struct store_batch batch = {.frames = &frame, .frame_count = 1};
    struct store_put_result result;
    struct sonde_diag diag = {0};
    struct store_frame *found;
    size_t count;
    scene_open(&scene);
    CHECK_INT(store_put(scene.store, &batch, &result, NULL), ==, SONDE_OK);
    store_close(scene.store);
    misspell("serve_the_client");
    CHECK_INT(sqlite_store_open(scene.directory, NULL, &scene.store, NULL), ==, SONDE_OK);
    CHECK_INT(
        scene.store->ops->frames(scene.store, &id, 1, NULL, &scene.arena, &found, &count, &diag),
        ==, SONDE_IO);
    CHECK(strstr(diag.text, "history.db is damaged; move it") != NULL);
    scene_close(&scene);
}
