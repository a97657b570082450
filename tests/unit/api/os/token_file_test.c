/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/secrets/token_file.h"

#include "api/os/file_watch.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST      "first-first-first-first"
#define SECOND     "second-second-second"
#define MIN        16
#define WAIT_S     20
#define ALL_SCOPES (SONDE_SCOPE_READ | SONDE_SCOPE_CONTROL | SONDE_SCOPE_REGISTER)

static char folder[64], path[96], other[96], logged[8][320];
static size_t log_count;

static void log_line(const char *line) {
    if (log_count < sizeof logged / sizeof logged[0])
        snprintf(logged[log_count], sizeof logged[0], "%s", line);
    log_count++;
}

/* In place, or by a new file of the same name. */
static void write_file(const char *text, bool is_new_file) {
    const char *to = is_new_file ? other : path;
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK_INT(write(fd, text, strlen(text)), ==, strlen(text));
    close(fd);
    if (is_new_file)
        CHECK_INT(rename(other, path), ==, 0);
}

static struct token_file *open_file(const char *text) {
    struct token_file *file = NULL;
    CHECK(mkdtemp(temporary_template(folder, sizeof folder)) != NULL);
    snprintf(path, sizeof path, "%s/tokens", folder);
    snprintf(other, sizeof other, "%s/tokens.new", folder);
    log_count = 0;
    write_file(text, false);
    CHECK_INT(token_file_create(path, MIN, log_line, &file, NULL), ==, SONDE_OK);
    return file;
}

static void close_file(struct token_file *file) {
    token_file_destroy(file);
    unlink(path);
    rmdir(folder);
}

static struct sonde_token_match find(struct token_file *file, const char *token) {
    char header[64];
    snprintf(header, sizeof header, "Bearer %s", token);
    return token_file_find(file, sonde_slice_of(header));
}

static bool comes_to(struct token_file *file, const char *token, unsigned scopes) {
    for (int i = 0; i < WAIT_S * 50 && find(file, token).scopes != scopes; i++)
        usleep(20000);
    return find(file, token).scopes == scopes;
}

static bool comes_to_log(struct token_file *file, size_t count) {
    for (int i = 0; i < WAIT_S * 50 && log_count < count; i++) {
        (void)find(file, FIRST);
        usleep(20000);
    }
    return log_count >= count;
}

TEST(a_removed_token_stops_working_and_a_new_one_works) {
    char first[64];
    struct token_file *file = open_file(FIRST " read\n");
    CHECK_INT(find(file, FIRST).scopes, ==, SONDE_SCOPE_READ);
    CHECK_INT(find(file, FIRST).line, ==, 1);
    write_file("# changed\n" SECOND "\n", true);
    CHECK(comes_to(file, FIRST, 0));
    CHECK_INT(find(file, SECOND).scopes, ==, ALL_SCOPES);
    CHECK_INT(find(file, SECOND).line, ==, 2);
    token_file_first(file, first, sizeof first);
    CHECK_STR(first, SECOND);
    CHECK_INT(log_count, ==, 1);
    CHECK(strstr(logged[0], "/tokens was read again") != NULL);
    close_file(file);
}

TEST(changed_scopes_of_the_same_length_are_noticed_in_place) {
    struct token_file *file = open_file(FIRST " read   \n");
    CHECK_INT(find(file, FIRST).scopes, ==, SONDE_SCOPE_READ);
    write_file(FIRST " control\n", false);
    CHECK(comes_to(file, FIRST, SONDE_SCOPE_CONTROL));
    close_file(file);
}

TEST(a_bad_token_file_leaves_the_old_one_in_use_and_is_logged_once) {
    struct token_file *file = open_file(FIRST "\n");
    write_file("short\n", true);
    CHECK(comes_to_log(file, 1));
    CHECK(strncmp(logged[0], "the token file /", 16) == 0);
    CHECK(strstr(logged[0], "/tokens stays as it was: token file, line 1: a token must have 16 to "
                            "256 characters") != NULL);
    CHECK_INT(find(file, FIRST).scopes, !=, 0);
    usleep(1200000);
    CHECK_INT(find(file, FIRST).scopes, !=, 0); /* looked again */
    CHECK_INT(log_count, ==, 1);
    write_file(SECOND "\n", true);
    CHECK(comes_to(file, SECOND, ALL_SCOPES));
    CHECK_INT(log_count, ==, 2);
    close_file(file);
}

TEST(a_missing_token_file_is_logged_and_so_is_its_return) {
    struct token_file *file = open_file(FIRST "\n");
    unlink(path);
    CHECK(comes_to_log(file, 1));
    CHECK(strstr(logged[0], "/tokens stays as it was: cannot open the token file") != NULL);
    CHECK_INT(find(file, FIRST).scopes, !=, 0);
    write_file(FIRST "\n", true);
    CHECK(comes_to_log(file, 2));
    CHECK(strstr(logged[1], "/tokens can be read again, and is the same") != NULL);
    close_file(file);
}

TEST(a_pipe_in_the_place_of_a_token_file_is_not_waited_for) {
    struct token_file *file = open_file(FIRST "\n");
    unlink(path);
    CHECK_INT(mkfifo(path, 0600), ==, 0);
    CHECK(comes_to_log(file, 1));
    CHECK(strstr(logged[0], "/tokens is not an ordinary file") != NULL);
    write_file(SECOND "\n", true);
    CHECK(comes_to(file, FIRST, 0));
    CHECK_INT(log_count, ==, 2);
    close_file(file);
}

/* --token-file <(command) */
TEST(tokens_from_a_pipe_are_read_once) {
    char from[32];
    int ends[2];
    struct token_file *file = NULL;
    CHECK_INT(pipe(ends), ==, 0);
    CHECK_INT(write(ends[1], FIRST "\n", sizeof FIRST), ==, sizeof FIRST);
    close(ends[1]);
    fchmod(ends[0], 0600);
    snprintf(from, sizeof from, "/dev/fd/%d", ends[0]);
    log_count = 0;
    CHECK_INT(token_file_create(from, MIN, log_line, &file, NULL), ==, SONDE_OK);
    usleep(2200000); /* two looks later */
    CHECK(find(file, FIRST).scopes != 0);
    usleep(1200000);
    CHECK(find(file, FIRST).scopes != 0);
    CHECK_INT(log_count, ==, 0);
    token_file_destroy(file);
    close(ends[0]);
}

TEST(a_token_file_that_others_can_read_is_not_used_again) {
    struct token_file *file = open_file(FIRST "\n");
    write_file(SECOND "\n", true);
    chmod(path, 0644);
    CHECK(comes_to_log(file, 1));
    CHECK(strstr(logged[0], "other users can read the token file") != NULL);
    CHECK_INT(find(file, SECOND).scopes, ==, 0);
    close_file(file);
}

TEST(a_request_to_look_now_does_not_wait_for_the_next_second) {
    struct token_file *file = open_file(FIRST "\n");
    CHECK_INT(find(file, FIRST).scopes, ==, ALL_SCOPES);
    write_file(SECOND "\n", true);
    file_watch_look_now();
    CHECK_INT(find(file, SECOND).scopes, ==, ALL_SCOPES);
    CHECK_INT(find(file, FIRST).scopes, ==, 0);
    close_file(file);
}
