/* SPDX-License-Identifier: Apache-2.0
 *
 * How the guest starts, preloaded or linked, and which name the target gets. */
#include "tests/unit/guest/scene.h"

#include "tests/unit/check.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check_line(struct fake_child *child, const char *expected) {
    char line[256];
    fake_read_line(child, line, sizeof line);
    CHECK_STR(line, expected);
}

/* Starts a command that is tests/unit/guest/linked, or executes it, and checks its target's
 * name. */
static void check_name_of(struct fake *fake, char *const argv[], const char *expected) {
    struct fake_guest guest;
    struct fake_child child;
    fake_spawn(fake, argv, &child);
    fake_accept_pid(fake, &guest, child.pid);
    if (strcmp(argv[0], "/usr/bin/env") == 0 && strcmp(guest.hello.name, "env") == 0) {
        fake_release(
            &guest); /* on a busy machine it connects before it executes the other program */
        fake_accept_pid(fake, &guest, child.pid);
    }
    CHECK_STR(guest.hello.name, expected);
    check_line(&child, fake->is_linked ? "started 1 0" : "started 0 1");
    fake_poke(&child);
    CHECK_INT(fake_wait(&child), ==, 0);
    fake_release(&guest);
}

static void check_name(struct fake *fake, const char *expected) {
    char *const argv[] = {"tests/unit/guest/linked", fake->path, NULL};
    check_name_of(fake, argv, expected);
}

TEST(a_linked_library_starts_when_called_with_the_callers_options) {
    struct fake fake = {.is_linked = true};
    setenv("SONDE_NAME", "from the environment", 1);
    setenv("SONDE_SOCKET", "/nowhere/guest.sock", 1);
    fake_open(&fake);
    check_name(&fake, "checkout");
    fake_close(&fake);
    unsetenv("SONDE_NAME");
    unsetenv("SONDE_SOCKET");
}

TEST(a_preloaded_library_starts_by_itself_with_the_environments_settings) {
    struct fake fake = {0};
    setenv("SONDE_NAME", "from the environment", 1);
    fake_open(&fake);
    check_name(&fake, "from the environment");
    unsetenv("SONDE_NAME");
    fake_close(&fake);
}

/* The program overwrites argv before the guest connects. */
TEST(the_name_is_the_one_that_the_program_was_started_with) {
    struct fake fake = {0};
    fake_open(&fake);
    check_name(&fake, "linked");
    setenv("SONDE_NAME", "of another process", 1);
    setenv("SONDE_PID", "1", 1);
    check_name(&fake, "linked");
    unsetenv("SONDE_NAME");
    unsetenv("SONDE_PID");
    fake_close(&fake);
}

/* The first guest to connect is `linked`, and nobody else connects. */
static void check_wrapped(struct fake *fake, char *const argv[], const char *expected) {
    struct fake_guest guest;
    struct fake_child child;
    fake_spawn(fake, argv, &child);
    CHECK(fake_accept(fake, &guest, 10000));
    CHECK_STR(guest.hello.name, expected);
    check_line(&child, "started 0 1");
    struct pollfd more = {fake->listener, POLLIN, 0};
    CHECK_INT(poll(&more, 1, 50), ==, 0);
    fake_poke(&child);
    CHECK_INT(fake_wait(&child), ==, 0);
    fake_release(&guest);
}

TEST(a_wrapper_is_not_a_target_and_hands_on_its_name) {
    struct fake fake = {0};
    char script[200], nested[220], pid[16];
    fake_open(&fake);
    snprintf(script, sizeof script, "tests/unit/guest/linked %s; exit $?", fake.path);
    snprintf(nested, sizeof nested, "timeout 60 nice %s", script);
    char *const timeout[] = {"/usr/bin/timeout", "60", "tests/unit/guest/linked", fake.path, NULL};
    char *const shell[] = {"/bin/sh", "-c", script, NULL};
    char *const deep[] = {"/bin/sh", "-c", nested, NULL};
    check_wrapped(&fake, timeout, "linked");
    check_wrapped(&fake, shell, "linked");
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("SONDE_NAME", "web", 1);
    setenv("SONDE_PID", pid, 1);
    setenv("SONDE_WRAPPER_PID", pid, 1); /* as if this program were one */
    check_wrapped(&fake, deep, "web");
    unsetenv("SONDE_WRAPPER_PID");
    check_wrapped(&fake, deep, "linked");
    unsetenv("SONDE_NAME");
    unsetenv("SONDE_PID");
    fake_close(&fake);
}

TEST(a_shell_that_works_itself_is_a_target) {
    struct fake fake = {0};
    struct fake_guest guest;
    struct fake_child child;
    char *const argv[] = {"/bin/sh", "-c", "read line", NULL};
    fake_open(&fake);
    fake_spawn(&fake, argv, &child);
    fake_accept_pid(&fake, &guest, child.pid);
    CHECK_STR(guest.hello.name, "sh");
    fake_poke(&child);
    (void)fake_wait(&child);
    fake_release(&guest);
    fake_close(&fake);
}

TEST(a_first_name_is_not_inherited_across_exec) {
    struct fake fake = {0};
    char *const wrapped[] = {"/usr/bin/env", "X=1", "tests/unit/guest/linked", fake.path, NULL};
    setenv("SONDE_FIRST_NAME", "server.sh", 1);
    fake_open(&fake);
    check_name(&fake, "server.sh");
    setenv("SONDE_FIRST_NAME", "env", 1);
    check_name_of(&fake, wrapped, "linked");
    setenv("SONDE_NAME", "for good", 1);
    check_name_of(&fake, wrapped, "for good");
    unsetenv("SONDE_NAME");
    unsetenv("SONDE_FIRST_NAME");
    fake_close(&fake);
}
