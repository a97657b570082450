/* SPDX-License-Identifier: Apache-2.0 */
#include "api/settings/options.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <stdlib.h>
#include <unistd.h>

struct settings {
    const char *socket;
    uint64_t rate, mib;
    double seconds, interval;
    uint64_t window_ms;
    bool insecure, heap;
    struct sonde_option_list listen;
};

static const struct sonde_option table[] = {
    {"socket", 's', "PATH", "SONDE_TEST_SOCKET", SONDE_OPTION_TEXT,
     offsetof(struct settings, socket), 0, 0, "where guests connect"},
    {"rate", 'F', "HZ", "SONDE_TEST_RATE", SONDE_OPTION_NUMBER, offsetof(struct settings, rate), 1,
     10000, "samples a second"},
    {"seconds", 'd', "SECONDS", NULL, SONDE_OPTION_DECIMAL, offsetof(struct settings, seconds), 0,
     3600, "how long"},
    {"interval", 'i', "SECONDS", NULL, SONDE_OPTION_SECONDS, offsetof(struct settings, interval),
     0.001, 3600, "how often"},
    {"window", 0, "MS", NULL, SONDE_OPTION_MILLISECONDS, offsetof(struct settings, window_ms), 50,
     60000, "how long a window is"},
    {"pid", 'p', "PID", NULL, SONDE_OPTION_ARGUMENT, 0, 0, 0, NULL},
    {"insecure", 0, NULL, "SONDE_TEST_INSECURE", SONDE_OPTION_FLAG,
     offsetof(struct settings, insecure), 0, 0, "no token"},
    {"listen", 0, "ADDR", "SONDE_TEST_LISTEN", SONDE_OPTION_LIST, offsetof(struct settings, listen),
     0, 0, "addresses"},
    {"mib", 0, "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, mib), 16, 1048576,
     "space"},
    {"enable-heap-profiling", 0, NULL, "SONDE_TEST_HEAP", SONDE_OPTION_FLAG,
     offsetof(struct settings, heap), 0, 0, "heap"},
};
static const struct sonde_options options = {.usage = "test [options]",
                                             .about = "About.",
                                             .table = table,
                                             .count = sizeof table / sizeof table[0]};

static struct settings read_settings;
static struct sonde_diag diag;

static sonde_err read_words(bool stop_at_plain, int *argc, char **argv) {
    read_settings =
        (struct settings){.socket = "default", .rate = 99, .listen = {{"default:1"}, 1}};
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

TEST(a_large_bound_is_written_with_all_its_digits) {
    READ(false, "--mib", "2000000");
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "--mib: \"2000000\" is not a whole number from 16 to 1048576");
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
    CHECK_STR(diag.text, "unknown option --sokcet; did you mean --socket?");
    char *again[] = {"test", "--socket", NULL};
    argc = 2;
    CHECK_INT(read_words(false, &argc, again), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "--socket needs a value: PATH");
}

TEST(an_unknown_flag_that_resembles_none_refers_to_help) {
    READ(false, "--zzzzzzz=socket");
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "unknown option --zzzzzzz=socket; see --help");
    char *again[] = {"test", "--lisetn=a:1", NULL}, *letter[] = {"test", "-socket", NULL};
    argc = 2;
    CHECK_INT(read_words(false, &argc, again), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "unknown option --lisetn=a:1; did you mean --listen?");
    argc = 2;
    CHECK_INT(read_words(false, &argc, letter), ==, SONDE_OK); /* -s ocket */
}

TEST(flags_override_the_environment_which_overrides_the_file) {
    char path[64];
    int fd = mkstemp(temporary_template(path, sizeof path));
    const char *text = "# settings\nsocket = /from/file\nrate=7\n\nworkers = 1\n";
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

/* Reads a settings file with that text; *path gets its name. */
static sonde_err read_settings_file(const char *text, char path[64]) {
    int fd = mkstemp(temporary_template(path, 64));
    CHECK_INT(write(fd, text, strlen(text)), ==, strlen(text));
    close(fd);
    setenv("SONDE_CONFIG", path, 1);
    READ(false, "plain");
    unsetenv("SONDE_CONFIG");
    unlink(path);
    return err;
}

static void check_accepted(const char *text) {
    char path[64];
    if (read_settings_file(text, path) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s: %s", text, diag.text);
}

/* The refusal is "FILE:" and what is expected. */
static void check_refused(const char *text, const char *expected) {
    char path[64], whole[400];
    CHECK_INT(read_settings_file(text, path), ==, SONDE_INVALID_ARGUMENT);
    snprintf(whole, sizeof whole, "%s:%s", path, expected);
    CHECK_STR(diag.text, whole);
}

TEST(a_section_of_a_program_is_for_that_program) {
    check_accepted("[sonded]\nrate = 5\nanything = goes\n[sonde-gateway]\nlisten = x\n");
    CHECK_INT(read_settings.rate, ==, 99);
    CHECK_INT(read_settings.listen.count, ==, 1);
    CHECK_STR(read_settings.listen.items[0], "default:1");
}

TEST(a_list_in_the_file_replaces_the_default) {
    check_accepted("listen = a:1\nlisten = b:2\n");
    CHECK_INT(read_settings.listen.count, ==, 2);
    CHECK_STR(read_settings.listen.items[0], "a:1");
    CHECK_STR(read_settings.listen.items[1], "b:2");
}

TEST(greptimedbs_section_sets_heap_profiling) {
    check_accepted("[memory]\n# Default is true.\nenable_heap_profiling = true\n");
    CHECK(read_settings.heap);
    check_accepted("[ memory ] # comment\n  enable-heap-profiling=\"no\" # comment\r\n");
    CHECK(!read_settings.heap);
    check_accepted("enable_heap_profiling = yes"); /* the last line needs no newline */
    CHECK(read_settings.heap);
}

TEST(values_can_be_quoted) {
    check_accepted("socket = \"/a # b\" # c\n");
    CHECK_STR(read_settings.socket, "/a # b");
    check_accepted("socket = /a # b\n");
    CHECK_STR(read_settings.socket, "/a");
    check_accepted("socket = \"\"\n");
    CHECK_STR(read_settings.socket, "");
}

TEST(a_wrong_line_of_the_file_is_named_by_file_line_and_setting) {
    check_refused("\nrate = 0\n", "2: rate: \"0\" is not a whole number from 1 to 10000");
    check_refused("[memory]\nenable_heap_profiling = treu\n",
                  "2: enable-heap-profiling: \"treu\" is not yes or no");
    check_refused("listen\n", "1: \"listen\": write NAME = VALUE, [SECTION] or # COMMENT");
    check_refused("= 5\n", "1: \"= 5\": write NAME = VALUE, [SECTION] or # COMMENT");
    check_refused("socket = \"/a\n",
                  "1: \"socket = \"/a\": write NAME = VALUE, [SECTION] or # COMMENT");
    check_refused("socket = \"/a\" b\n",
                  "1: \"socket = \"/a\" b\": write NAME = VALUE, [SECTION] or # COMMENT");
    check_refused("[memory\n", "1: [memory: write [SECTION]");
}

TEST(an_unknown_setting_is_refused_with_the_nearest_one) {
    check_refused("[memory]\nenable_heap_profilng = true\n",
                  "2: enable_heap_profilng: unknown setting of [memory]; did you mean "
                  "enable_heap_profiling?");
    check_refused("[memory]\nenable-heap-profilng = true\n",
                  "2: enable-heap-profilng: unknown setting of [memory]; did you mean "
                  "enable-heap-profiling?");
    check_refused("[memory]\nworkers = 1\n",
                  "2: workers: unknown setting of [memory]; sonded(8) lists them");
    check_refused("wrokers = 1\n", "1: wrokers: unknown setting; did you mean workers?");
    check_refused("seconds = 1\n", "1: seconds: unknown setting; sonded(8) lists them");
}

TEST(an_unknown_section_is_refused) {
    check_refused("[memroy]\n", "1: memroy: unknown section; did you mean memory?");
    check_refused("rate = 1\n[storage]\ndata_home = \"/tmp\"\n",
                  "2: storage: unknown section; sonded(8) lists them");
    check_refused("[[memory]]\n", "1: [[memory]]: write [SECTION]");
}

TEST(a_line_that_is_too_long_is_refused) {
    char text[1100];
    memset(text, 'x', sizeof text);
    memcpy(text, "socket = ", 9);
    text[1023] = '\n';
    text[1024] = 0;
    check_accepted(text);
    CHECK_INT(strlen(read_settings.socket), ==, 1014);
    text[1023] = 'x';
    text[1024] = '\n';
    text[1025] = 0;
    check_refused(text, "1: line too long; the limit is 1023 bytes");
}

TEST(the_first_flag_of_a_list_replaces_the_environment) {
    setenv("SONDE_TEST_LISTEN", "env:1", 1);
    READ(false, "--listen", "a:1", "--listen=b:2");
    unsetenv("SONDE_TEST_LISTEN");
    CHECK_INT(err, ==, SONDE_OK);
    CHECK_INT(read_settings.listen.count, ==, 2);
    CHECK_STR(read_settings.listen.items[1], "b:2");
}

static double duration(char *text) {
    READ(false, "-i", text);
    CHECK_INT(err, ==, SONDE_OK);
    return read_settings.interval;
}

TEST(durations_have_units) {
    CHECK_NEAR(duration("10"), 10, 1e-9);
    CHECK_NEAR(duration("0.5"), 0.5, 1e-9);
    CHECK_NEAR(duration("500ms"), 0.5, 1e-9);
    CHECK_NEAR(duration("5s"), 5, 1e-9);
    CHECK_NEAR(duration("2m"), 120, 1e-9);
    CHECK_NEAR(duration("1m30s"), 90, 1e-9);
    CHECK_NEAR(duration("1h"), 3600, 1e-9);
    READ(false, "--window", "1.5s");
    CHECK_INT(err, ==, SONDE_OK);
    CHECK_INT(read_settings.window_ms, ==, 1500);
    char *again[] = {"test", "--window", "250", NULL};
    argc = 3;
    CHECK_INT(read_words(false, &argc, again), ==, SONDE_OK);
    CHECK_INT(read_settings.window_ms, ==, 250);
}

TEST(what_is_no_duration_is_refused_with_an_example) {
    static char *const wrong[] = {"", "s", "-1s", "5x", "5 s", "0", "2h", "nan", "inf", "1e9"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char *argv[] = {"test", "-i", wrong[i], NULL};
        int argc = 3;
        sonde_err err = read_words(false, &argc, argv);
        CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    }
    READ(false, "--window", "2m");
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "--window: \"2m\" is not a duration from 0.05 to 60 s, such as 500ms, 5s "
                         "or 2m");
}

TEST(an_option_may_be_another_way_to_give_an_argument) {
    READ(false, "-p", "4711", "--insecure", "--pid=12");
    CHECK_INT(err, ==, SONDE_OK);
    CHECK_INT(argc, ==, 3);
    CHECK_STR(argv[1], "4711");
    CHECK_STR(argv[2], "12");
    CHECK(read_settings.insecure);
}
