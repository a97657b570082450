/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/policy/pause.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOON (INT64_C(1763899200) * 1000000000) /* 2025-11-23T12:00:00Z */

static char dir[200], file[256];
static struct pause_state state;

static void make_dir(void) {
    CHECK(mkdtemp(temporary_template(dir, sizeof dir)));
    snprintf(file, sizeof file, "%s/paused", dir);
    memset(&state, 'x', sizeof state);
}

static void read_state(void) {
    struct sonde_diag diag = {0};
    sonde_err err = pause_read(dir, &state, &diag);
    CHECK_STR(diag.text, "");
    CHECK_INT(err, ==, SONDE_OK);
}

static void write_state(bool is_paused, const char *reason) {
    struct sonde_diag diag = {0};
    sonde_err err = pause_write(dir, is_paused, reason, NOON + 5, &diag);
    CHECK_STR(diag.text, "");
    CHECK_INT(err, ==, SONDE_OK);
}

static void write_text(const char *text) {
    FILE *out = fopen(file, "w");
    CHECK(out);
    fputs(text, out);
    fclose(out);
}

static int64_t modified_ns(void) {
    struct stat info;
    CHECK_INT(lstat(file, &info), ==, 0);
    return info.st_mtim.tv_sec * INT64_C(1000000000) + info.st_mtim.tv_nsec;
}

TEST(pause_is_off_without_a_file) {
    make_dir();
    read_state();
    CHECK(!state.is_paused);
    CHECK_STR(state.reason, "");
    CHECK_INT(state.unix_ns, ==, 0);
}

TEST(pause_that_was_written_is_read_back) {
    make_dir();
    write_state(true, "database migration");
    read_state();
    CHECK(state.is_paused);
    CHECK_STR(state.reason, "database migration");
    CHECK_INT(state.unix_ns, ==, NOON);
    write_state(true, NULL);
    read_state();
    CHECK(state.is_paused);
    CHECK_STR(state.reason, "");
    write_state(false, NULL);
    write_state(false, NULL);
    read_state();
    CHECK(!state.is_paused);
    CHECK_INT(rmdir(dir), ==, 0); /* nothing is left */
}

TEST(pause_by_hand_has_the_time_of_its_file) {
    make_dir();
    write_text("");
    read_state();
    CHECK(state.is_paused);
    CHECK_STR(state.reason, "");
    CHECK_INT(state.unix_ns, ==, modified_ns());
    write_text("load\x07 test\r\nsecond line\n");
    read_state();
    CHECK_STR(state.reason, "load  test");
    CHECK_INT(state.unix_ns, ==, modified_ns());
    CHECK_INT(unlink(file), ==, 0);
    read_state();
    CHECK(!state.is_paused);
}

TEST(pause_reason_of_a_long_file_is_cut_between_characters) {
    char text[6000] = "x";
    make_dir();
    for (int i = 1; i < 5999; i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    text[5999] = 0;
    write_text(text);
    read_state();
    CHECK(state.is_paused);
    CHECK_INT(strlen(state.reason), ==, 255);
    CHECK(memcmp(state.reason, text, 255) == 0);
    FILE *out = fopen(file, "w");
    for (int i = 0; i < 200; i++)
        fputs("\xc3\xa4", out);
    fclose(out);
    read_state();
    CHECK_INT(strlen(state.reason), ==, 254);
}

TEST(pause_works_with_a_file_that_cannot_be_read) {
    make_dir();
    CHECK_INT(mkdir(file, 0700), ==, 0);
    read_state();
    CHECK(state.is_paused);
    CHECK_STR(state.reason, "the file paused cannot be read: Is a directory");
    CHECK_INT(state.unix_ns, ==, modified_ns());
    CHECK_INT(rmdir(file), ==, 0);
    CHECK_INT(symlink("nowhere", file), ==, 0);
    read_state();
    CHECK(state.is_paused);
    CHECK_STR(state.reason, "the file paused cannot be read: No such file or directory");
    CHECK_INT(unlink(file), ==, 0);
    CHECK_INT(mkfifo(file, 0600), ==, 0);
    read_state(); /* does not wait */
    CHECK(state.is_paused);
}

TEST(pause_state_stays_when_the_directory_is_gone) {
    struct sonde_diag diag = {0};
    make_dir();
    write_state(true, "r");
    read_state();
    CHECK_INT(pause_read("/does/not/exist", &state, &diag), ==, SONDE_IO);
    CHECK(strstr(diag.text, "/does/not/exist"));
    CHECK(state.is_paused);
    CHECK_INT(pause_write("/does/not/exist", true, "", NOON, &diag), ==, SONDE_IO);
    CHECK_INT(pause_write("/does/not/exist", false, "", NOON, &diag), ==, SONDE_IO);
}

TEST(pause_refuses_reasons_that_are_too_long_or_not_text) {
    char reason[PAUSE_MAX_REASON + 2];
    struct sonde_diag diag = {0};
    make_dir();
    memset(reason, 'r', sizeof reason);
    reason[PAUSE_MAX_REASON + 1] = 0;
    CHECK_INT(pause_write(dir, true, reason, NOON, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "the reason must have at most 255 bytes of UTF-8 on one line");
    CHECK_INT(pause_write(dir, true, "a\nb", NOON, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(pause_write(dir, true, "\xff", NOON, &diag), ==, SONDE_INVALID_ARGUMENT);
    read_state();
    CHECK(!state.is_paused);
    reason[PAUSE_MAX_REASON] = 0;
    write_state(true, reason);
    read_state();
    CHECK_STR(state.reason, reason);
}

TEST(pause_does_not_follow_a_link_that_somebody_left) {
    char other[256], victim[256];
    struct sonde_diag diag = {0};
    make_dir();
    snprintf(other, sizeof other, "%s/.paused.tmp", dir);
    snprintf(victim, sizeof victim, "%s/victim", dir);
    CHECK_INT(symlink(victim, other), ==, 0);
    CHECK_INT(pause_write(dir, true, "r", NOON, &diag), ==, SONDE_IO);
    CHECK(access(victim, F_OK) != 0);
}

TEST(pause_switch_is_the_file_and_remembers_it_when_the_directory_is_gone) {
    struct pause_switch *pause;
    struct sonde_diag diag = {0};
    char reason[64];
    make_dir();
    CHECK_INT(pause_open(dir, &pause, &diag), ==, SONDE_OK);
    CHECK(!pause_is_set(pause, reason, sizeof reason));
    write_text("by hand\n");
    CHECK(pause_is_set(pause, reason, sizeof reason));
    CHECK_STR(reason, "by hand");
    CHECK_INT(unlink(file), ==, 0);
    CHECK(!pause_is_set(pause, reason, sizeof reason));
    CHECK_INT(pause_set(pause, true, "by a call", &diag), ==, SONDE_OK);
    CHECK(pause_is_set(pause, reason, sizeof reason));
    read_state();
    CHECK_STR(state.reason, "by a call");
    CHECK_INT(unlink(file), ==, 0);
    CHECK_INT(rmdir(dir), ==, 0);
    CHECK(pause_is_set(pause, reason, sizeof reason));
    CHECK_STR(reason, "by a call");
    pause_close(pause);
    CHECK_INT(pause_open(dir, &pause, &diag), ==, SONDE_IO);
    CHECK(pause == NULL);
    pause_close(NULL);
}

TEST(pause_switch_without_a_directory_is_in_memory) {
    struct pause_switch *pause;
    struct sonde_diag diag = {0};
    char reason[64];
    CHECK_INT(pause_open(NULL, &pause, &diag), ==, SONDE_OK);
    CHECK(!pause_is_set(pause, reason, sizeof reason));
    CHECK_INT(pause_set(pause, true, "a\nb", &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(pause_set(pause, true, "r", &diag), ==, SONDE_OK);
    CHECK(pause_is_set(pause, reason, sizeof reason));
    CHECK_STR(reason, "r");
    CHECK_INT(pause_set(pause, false, "r", &diag), ==, SONDE_OK);
    CHECK(!pause_is_set(pause, reason, sizeof reason));
    CHECK_STR(reason, "");
    pause_close(pause);
}
