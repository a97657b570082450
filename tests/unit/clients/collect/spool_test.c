/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/spool/segment.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char dir[4096], last_log[512];
static _Atomic int durable, refused;

static void log_line(const char *line) {
    snprintf(last_log, sizeof last_log, "%s", line);
}

static void on_durable(void *context, bool is_durable) {
    (void)context;
    if (is_durable)
        durable++;
    else
        refused++;
}

static struct spool *open_spool(uint64_t limit_bytes) {
    const struct spool_options options = {dir, limit_bytes, log_line};
    struct spool *spool = NULL;
    struct sonde_diag diag = {0};
    if (spool_open(&options, &spool, &diag))
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    return spool;
}

static void fresh(const char *name) {
    char base[256];
    if (!mkdtemp(temporary_template(base, sizeof base)))
        abort();
    snprintf(dir, sizeof dir, "%s/%s", base, name);
    durable = refused = 0;
    last_log[0] = 0;
}

static sonde_err add(struct spool *spool, uint64_t source, const char *text) {
    const struct spool_entry entry = {source, 1, sonde_slice_of(text)};
    return spool_add(spool, &entry, on_durable, NULL, NULL);
}

static void until_durable(int count) {
    for (int i = 0; i < 3000 && durable < count; i++)
        usleep(10000);
    CHECK_INT(durable, ==, count);
}

/* Takes and deletes everything; returns the entries' texts, each with a blank after it. */
static void drain(struct spool *spool, size_t count, char *text, size_t size) {
    text[0] = 0;
    for (size_t seen = 0; seen < count;) {
        struct spool_segment *segment = spool_take(spool, 20000);
        CHECK(segment);
        for (size_t i = 0; i < segment->count; i++) {
            size_t used = strlen(text);
            snprintf(text + used, size - used, "%s ", segment->entries[i].bytes.data);
        }
        seen += segment->count;
        spool_done(spool, segment);
    }
}

TEST(entries_come_back_in_order_and_are_deleted_when_they_are_done) {
    char text[256];
    struct spool_state state;
    fresh("order");
    struct spool *spool = open_spool(0);
    CHECK_INT(add(spool, 1, "one"), ==, SONDE_OK);
    CHECK_INT(add(spool, 2, "two"), ==, SONDE_OK);
    until_durable(2);
    spool_state(spool, &state);
    CHECK_INT(state.bytes, >, 0);
    CHECK_INT(state.oldest_unix_ns, >, 0);
    CHECK_INT(state.segments, ==, 1);
    drain(spool, 2, text, sizeof text);
    CHECK_STR(text, "one two ");
    spool_state(spool, &state);
    CHECK_INT(state.bytes, ==, 0);
    CHECK_INT(state.segments, ==, 0);
    CHECK_INT(state.oldest_unix_ns, ==, 0);
    CHECK(!spool_take(spool, 1));
    spool_close(spool);
}

TEST(entries_share_a_segment_while_another_one_waits) {
    char text[256];
    struct spool_state state;
    fresh("share");
    struct spool *spool = open_spool(0);
    CHECK_INT(add(spool, 1, "one"), ==, SONDE_OK);
    spool_close(spool);
    spool = open_spool(0);
    CHECK_INT(add(spool, 1, "two"), ==, SONDE_OK);
    until_durable(2);
    usleep((SPOOL_SEAL_MS + 500) * 1000);
    CHECK_INT(add(spool, 1, "three"), ==, SONDE_OK);
    until_durable(3);
    spool_state(spool, &state);
    CHECK_INT(state.segments, ==, 2);
    drain(spool, 3, text, sizeof text);
    CHECK_STR(text, "one two three ");
    spool_close(spool);
}

TEST(what_was_put_back_or_not_taken_is_there_after_a_restart) {
    char text[256];
    fresh("restart");
    struct spool *spool = open_spool(0);
    CHECK_INT(add(spool, 1, "one"), ==, SONDE_OK);
    until_durable(1);
    struct spool_segment *segment = spool_take(spool, 20000);
    CHECK(segment && segment->count == 1 && segment->entries[0].source == 1);
    spool_put_back(spool, segment);
    CHECK_INT(add(spool, 1, "two"), ==, SONDE_OK);
    spool_close(spool); /* writes what waits */
    CHECK_INT(durable, ==, 2);
    spool = open_spool(0);
    CHECK_INT(add(spool, 1, "three"), ==, SONDE_OK);
    drain(spool, 3, text, sizeof text);
    CHECK_STR(text, "one two three ");
    spool_close(spool);
}

TEST(a_directory_belongs_to_one_process) {
    struct spool *other = NULL;
    struct sonde_diag diag = {0};
    fresh("lock");
    struct spool *spool = open_spool(0);
    const struct spool_options options = {dir, 0, log_line};
    CHECK_INT(spool_open(&options, &other, &diag), ==, SONDE_NOT_AVAILABLE);
    CHECK(strstr(diag.text, "another process"));
    spool_close(spool);
}

TEST(a_full_spool_refuses_until_something_is_done) {
    static char large[100000];
    struct spool_state state;
    fresh("full");
    struct spool *spool = open_spool(150000);
    for (size_t i = 0; i < sizeof large - 1; i++)
        large[i] = (char)('a' + rand() % 26);
    CHECK_INT(add(spool, 1, large), ==, SONDE_OK);
    until_durable(1);
    CHECK_INT(add(spool, 1, large), ==, SONDE_UNAVAILABLE);
    spool_state(spool, &state);
    CHECK(strstr(state.trouble, "full"));
    struct spool_segment *segment = spool_take(spool, 20000);
    CHECK(segment);
    spool_done(spool, segment);
    CHECK_INT(add(spool, 1, large), ==, SONDE_OK);
    until_durable(2);
    spool_state(spool, &state);
    CHECK_STR(state.trouble, "");
    spool_close(spool);
}

TEST(an_entry_that_no_request_could_hold_is_refused) {
    fresh("large");
    struct spool *spool = open_spool(0);
    char *bytes = calloc(1, SPOOL_MAX_ENTRY + 1);
    const struct spool_entry entry = {1, 1, {bytes, SPOOL_MAX_ENTRY + 1}};
    CHECK_INT(spool_add(spool, &entry, on_durable, NULL, NULL), ==, SONDE_TOO_LARGE);
    free(bytes);
    spool_close(spool);
}

/* RLIMIT_FSIZE stands for a full disk: write fails with EFBIG. */
TEST(a_disk_without_room_loses_nothing_that_was_durable) {
    static char large[300000];
    char text[64];
    struct spool_state state;
    struct rlimit before, small = {100000, RLIM_INFINITY};
    fresh("disk");
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < sizeof large - 1; i++)
        large[i] = (char)('a' + rand() % 26);
    struct spool *spool = open_spool(0);
    CHECK_INT(add(spool, 1, "kept"), ==, SONDE_OK);
    until_durable(1);
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    CHECK_INT(add(spool, 1, large), ==, SONDE_OK);
    for (int i = 0; i < 3000 && refused == 0; i++)
        usleep(10000);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK_INT(refused, ==, 1);
    spool_state(spool, &state);
    CHECK(strstr(state.trouble, "cannot be written"));
    CHECK(strstr(last_log, "make room"));
    CHECK_INT(add(spool, 1, "later"), ==, SONDE_OK);
    until_durable(2);
    spool_state(spool, &state);
    CHECK_STR(state.trouble, "");
    drain(spool, 2, text, sizeof text);
    CHECK_STR(text, "kept later ");
    CHECK_INT(state.damaged_segments, ==, 0);
    spool_close(spool);
}

/* ---- kill -9 ---- */

static void report_durable(void *context, bool is_durable) {
    int fd = *(int *)context;
    if (is_durable && write(fd, "x", 1) != 1)
        _exit(1);
}

/* Adds numbered entries for ever and writes a byte for each that is durable. */
static void run_child(int fd) {
    struct spool *spool = open_spool(0);
    for (int i = 0;; i++) {
        char text[16];
        snprintf(text, sizeof text, "%08d", i);
        const struct spool_entry entry = {7, 1, sonde_slice_of(text)};
        while (spool_add(spool, &entry, report_durable, &fd, NULL))
            usleep(1000);
    }
}

static int count_bytes(int fd) {
    char bytes[65536];
    int count = 0;
    for (ssize_t got; (got = read(fd, bytes, sizeof bytes)) > 0;)
        count += (int)got;
    return count;
}

TEST(what_was_durable_survives_a_kill_at_any_moment) {
    for (int round = 0; round < 6; round++) {
        char name[32];
        int pipes[2], seen = 0;
        snprintf(name, sizeof name, "kill%d", round);
        fresh(name);
        CHECK(pipe(pipes) == 0);
        pid_t child = fork();
        if (child == 0) {
            close(pipes[0]);
            run_child(pipes[1]);
        }
        close(pipes[1]);
        usleep(100000 + (useconds_t)(rand() % 200000));
        kill(child, SIGKILL);
        int reported = count_bytes(pipes[0]);
        close(pipes[0]);
        waitpid(child, NULL, 0);
        struct spool *spool = open_spool(0);
        for (struct spool_segment *segment; (segment = spool_take(spool, 1));) {
            for (size_t i = 0; i < segment->count; i++)
                CHECK_INT(atoi(segment->entries[i].bytes.data), ==, seen++);
            spool_done(spool, segment);
        }
        CHECK_INT(seen, >=, reported);
        spool_close(spool);
    }
}

/* ---- Damage ---- */

static size_t make_file(struct sonde_buf *file) {
    const char *const texts[] = {"first", "second", "third"};
    struct ZSTD_CCtx_s *packer = NULL;
    CHECK(segment_begin(&packer));
    sonde_buf_append(file, SEGMENT_MAGIC, SEGMENT_MAGIC_LEN);
    for (uint64_t i = 0; i < 3; i++) {
        const struct spool_entry entry = {i + 1, 2, sonde_slice_of(texts[i])};
        CHECK(segment_add_block(packer, file, &entry, 1000 + (int64_t)i));
    }
    segment_packer_destroy(packer);
    return file->len;
}

static size_t parse(const char *bytes, size_t len, bool *is_whole) {
    struct sonde_arena arena = {0};
    struct spool_segment segment = {.number = 1};
    CHECK(segment_parse((struct sonde_slice){bytes, len}, &arena, &segment, is_whole));
    for (size_t i = 0; i < segment.count; i++)
        CHECK_INT(segment.entries[i].source, ==, i + 1);
    size_t count = segment.count;
    sonde_arena_finish(&arena);
    return count;
}

TEST(a_cut_file_gives_its_whole_entries) {
    struct sonde_buf file = {0};
    bool is_whole;
    size_t len = make_file(&file), before = 0;
    for (size_t cut = 0; cut <= len; cut++) {
        size_t count = parse(file.data, cut, &is_whole);
        CHECK(count >= before && count <= 3);
        CHECK(!is_whole || count > before || cut == SEGMENT_MAGIC_LEN);
        before = count;
    }
    CHECK_INT(before, ==, 3);
    CHECK(is_whole);
    sonde_buf_finish(&file);
}

TEST(what_earlier_entries_had_takes_hardly_any_space) {
    struct sonde_buf file = {0};
    struct ZSTD_CCtx_s *packer = NULL;
    char text[1001] = "";
    for (size_t i = 0; i < sizeof text - 1; i++)
        text[i] = (char)('a' + rand() % 26);
    const struct spool_entry entry = {1, 1, sonde_slice_of(text)};
    CHECK(segment_begin(&packer));
    CHECK(segment_add_block(packer, &file, &entry, 0));
    size_t first = file.len;
    CHECK(segment_add_block(packer, &file, &entry, 0));
    CHECK_INT(first, >, 500);
    CHECK_INT(file.len - first, <, SEGMENT_BLOCK_HEAD + 50);
    sonde_buf_finish(&file);
    segment_packer_destroy(packer);
}

TEST(no_changed_byte_goes_unnoticed) {
    struct sonde_buf file = {0};
    bool is_whole;
    size_t len = make_file(&file);
    for (size_t at = 0; at < len; at++) {
        file.data[at] ^= 0x21;
        CHECK_INT(parse(file.data, len, &is_whole), <, 3);
        CHECK(!is_whole);
        file.data[at] ^= 0x21;
    }
    sonde_buf_finish(&file);
}

TEST(a_damaged_file_is_set_aside_and_its_whole_entries_are_given) {
    char text[64], path[8192];
    struct spool_state state;
    struct stat info;
    fresh("damaged");
    struct spool *spool = open_spool(0);
    CHECK_INT(add(spool, 1, "whole"), ==, SONDE_OK);
    until_durable(1);
    CHECK_INT(add(spool, 1, "broken"), ==, SONDE_OK);
    spool_close(spool);
    snprintf(path, sizeof path, "%s/0000000000000001.spool", dir);
    CHECK(stat(path, &info) == 0 && truncate(path, info.st_size - 3) == 0);
    spool = open_spool(0);
    drain(spool, 1, text, sizeof text);
    CHECK_STR(text, "whole ");
    spool_state(spool, &state);
    CHECK_INT(state.damaged_segments, ==, 1);
    CHECK_INT(state.damaged_bytes, ==, info.st_size - 3);
    CHECK_INT(state.bytes, ==, 0);
    CHECK(strstr(last_log, "damaged/0000000000000001.spool"));
    snprintf(path, sizeof path, "%s/damaged/0000000000000001.spool", dir);
    CHECK(access(path, F_OK) == 0);
    spool_close(spool);
}
