/* SPDX-License-Identifier: Apache-2.0 */
#include "api/options.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <stdlib.h>
#include <unistd.h>

struct settings {
    const char *socket;
    uint64_t rate;
    double seconds;
    bool insecure;
    struct sonde_option_list listen;
};

static const struct sonde_option table[] = {
    {"socket", 's', "PATH", "SONDE_TEST_SOCKET", SONDE_OPTION_TEXT,
     offsetof(struct settings, socket), 0, 0, "where guests connect"},
    {"rate", 'F', "HZ", "SONDE_TEST_RATE", SONDE_OPTION_NUMBER, offsetof(struct settings, rate), 1,
     10000, "samples a second"},
    {"seconds", 'd', "SECONDS", NULL, SONDE_OPTION_DECIMAL, offsetof(struct settings, seconds), 0,
     3600, "how long"},
    {"insecure", 0, NULL, "SONDE_TEST_INSECURE", SONDE_OPTION_FLAG,
     offsetof(struct settings, insecure), 0, 0, "no token"},
    {"listen", 0, "ADDR", "SONDE_TEST_LISTEN", SONDE_OPTION_LIST, offsetof(struct settings, listen),
     0, 0, "addresses"},
};
static const struct sonde_options options = {"test [options]", "About.", NULL, table, 5};

static struct settings read_settings;
static struct sonde_diag diag;

static sonde_err read_words(bool stop_at_plain, int *argc, char **argv) {
    read_settings = (struct settings){.socket = "default", .rate = 99};
    diag = (struct sonde_diag){0};
    return sonde_options_read(&options, &read_settings, stop_at_plain, argc, argv, &diag);
}

#define READ(stop, ...)                                 \
    char *argv[] = {"test", __VA_ARGS__, NULL};         \
    int argc = (int)(sizeof argv / sizeof argv[0]) - 1; \
    sonde_err err = read_words(stop, &argc, argv)

TEST(flags_are_accepted_in_every_usual_form) {
    READ(false, "--socket=/a", "-F", "250", "plain", "-d0.5", "--insecure", "more");
    CHECK_INT(err, ==, SONDE_OK);
    CHECK_STR(read_settings.socket, "/a");
    CHECK_INT(read_settings.rate, ==, 250);
    CHECK_NEAR(read_settings.seconds, 0.5, 1e-9);
    CHECK(read_settings.insecure);
    CHECK_INT(argc, ==, 3);
    CHECK_STR(argv[1], "plain");
    CHECK_STR(argv[2], "more");
}

TEST(flags_after_a_double_dash_belong_to_the_command) {
    READ(true, "-F", "9", "--", "redis-server", "--port", "0");
    CHECK_INT(err, ==, SONDE_OK);
    CHECK_INT(argc, ==, 4);
    CHECK_STR(argv[2], "--port");
}

TEST(a_number_out_of_bounds_names_the_flag_the_value_and_the_bounds) {
    READ(false, "--rate", "10001");
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "--rate: \"10001\" is not a whole number from 1 to 10000");
}

TEST(numbers_with_a_sign_or_trailing_text_are_refused) {
    READ(false, "--rate", "+5");
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    char *again[] = {"test", "--rate", "5x", NULL};
    argc = 3;
    CHECK_INT(read_words(false, &argc, again), ==, SONDE_INVALID_ARGUMENT);
}

TEST(an_unknown_flag_and_a_missing_value_are_refused) {
    READ(false, "--sokcet", "x");
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "--sokcet") != NULL);
    char *again[] = {"test", "--socket", NULL};
    argc = 2;
    CHECK_INT(read_words(false, &argc, again), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "--socket needs a value: PATH");
}

TEST(flags_override_the_environment_which_overrides_the_file) {
    char path[64];
    int fd = mkstemp(temporary_template(path, sizeof path));
    const char *text = "# settings\nsocket = /from/file\nrate=7\n\nother-program = 1\n";
    CHECK_INT(write(fd, text, strlen(text)), ==, strlen(text));
    close(fd);
    setenv("SONDE_CONFIG", path, 1);
    setenv("SONDE_TEST_RATE", "8", 1);
    READ(false, "--insecure");
    unsetenv("SONDE_TEST_RATE");
    unsetenv("SONDE_CONFIG");
    unlink(path);
    CHECK_INT(err, ==, SONDE_OK);
    CHECK_STR(read_settings.socket, "/from/file");
    CHECK_INT(read_settings.rate, ==, 8);
}

TEST(the_first_flag_of_a_list_replaces_the_environment) {
    setenv("SONDE_TEST_LISTEN", "env:1", 1);
    READ(false, "--listen", "a:1", "--listen=b:2");
    unsetenv("SONDE_TEST_LISTEN");
    CHECK_INT(err, ==, SONDE_OK);
    CHECK_INT(read_settings.listen.count, ==, 2);
    CHECK_STR(read_settings.listen.items[1], "b:2");
}
