/* SPDX-License-Identifier: Apache-2.0 */
#include "api/settings/settings_reload.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <unistd.h>

struct settings {
    const char *socket;
    bool verbose;
    uint64_t workers;
    double share;
    struct sonde_option_list grpc;
};

#define OPTION(name, argument, environment, kind, field)                                          \
    {                                                                                             \
        name, 0, argument, environment, SONDE_OPTION_##kind, offsetof(struct settings, field), 0, \
            64, "what the option does"                                                            \
    }

static const struct sonde_option table[] = {
    OPTION("socket", "PATH", "SONDE_SOCKET", TEXT, socket),
    OPTION("verbose", NULL, "SONDE_VERBOSE", FLAG, verbose),
    OPTION("workers", "N", "SONDE_WORKERS", NUMBER, workers),
    OPTION("share", "N", "SONDE_SHARE", DECIMAL, share),
    OPTION("grpc", "ADDR", "SONDE_GRPC", LIST, grpc),
};
static const struct sonde_options options = {
    .usage = "sonded", .about = "a program", .table = table, .count = 5};

static const struct settings defaults = {.socket = "/run/x", .workers = 2};
static struct settings loaded, fresh;
static struct settings_reload again;
static char path[64], changed[128];

static void write_file(const char *text) {
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
}

static void start(int argc, char **argv, const char *text) {
    close(mkstemp(temporary_template(path, sizeof path)));
    setenv("SONDE_CONFIG", path, 1);
    write_file(text);
    loaded = defaults;
    settings_reload_keep(&again, &options, argc, argv);
    CHECK_INT(sonde_options_read(&options, &loaded, false, &argc, argv, NULL), ==, SONDE_OK);
}

static void on_change(void *context, const struct sonde_option *option) {
    (void)context;
    snprintf(changed + strlen(changed), sizeof changed - strlen(changed), "%s ", option->name);
}

static sonde_err reload(struct sonde_diag *diag) {
    changed[0] = 0;
    fresh = defaults;
    sonde_err err = settings_reload(&again, &loaded, &fresh, on_change, NULL, diag);
    return err;
}

static void end(void) {
    unlink(path);
}

TEST(a_file_that_is_the_same_changes_nothing) {
    char *argv[] = {"sonded", "--workers", "3", "--grpc", "a", NULL};
    start(5, argv, "verbose = yes\n");
    CHECK_INT(reload(NULL), ==, SONDE_OK);
    CHECK_STR(changed, "");
    CHECK_INT(fresh.workers, ==, 3);
    end();
}

TEST(each_kind_of_setting_is_compared) {
    char *argv[] = {"sonded", NULL};
    start(1, argv, "socket = /run/a\nworkers = 4\n");
    write_file("socket = /run/b\nverbose = on\nworkers = 5\ngrpc = unix:/x\n");
    CHECK_INT(reload(NULL), ==, SONDE_OK);
    CHECK_STR(changed, "socket verbose workers grpc ");
    CHECK(fresh.verbose);
    end();
}

TEST(a_flag_of_the_start_still_wins_over_the_file) {
    char *argv[] = {"sonded", "plain", "--workers=7", NULL};
    start(3, argv, "");
    write_file("workers = 9\n");
    CHECK_INT(reload(NULL), ==, SONDE_OK);
    CHECK_STR(changed, "");
    end();
}

TEST(a_file_with_a_mistake_is_refused_by_line) {
    char *argv[] = {"sonded", NULL};
    struct sonde_diag diag = {0};
    start(1, argv, "");
    write_file("workers = 4\nworkers = many\n");
    CHECK_INT(reload(&diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, ":2: ") != NULL);
    CHECK_STR(changed, "");
    end();
}

TEST(a_command_line_beyond_the_limit_cannot_be_read_again) {
    static char *argv[SETTINGS_RELOAD_MAX_WORDS + 3];
    for (int i = 0; i < SETTINGS_RELOAD_MAX_WORDS + 2; i++)
        argv[i] = "x";
    settings_reload_keep(&again, &options, SETTINGS_RELOAD_MAX_WORDS + 2, argv);
    CHECK_INT(reload(NULL), ==, SONDE_TOO_LARGE);
}
