/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/paths.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs in a child, because giving up root cannot be undone. Returns 0 if all three paths are as
 * expected. */
static int in_child(uid_t uid, const char *runtime, const char *home, const char *const wanted[3]) {
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() != uid && setresuid(uid, uid, uid) != 0)
            _exit(2);
        runtime ? setenv("XDG_RUNTIME_DIR", runtime, 1) : unsetenv("XDG_RUNTIME_DIR");
        home ? setenv("HOME", home, 1) : unsetenv("HOME");
        _exit(strcmp(sonde_default_guest_socket(), wanted[0]) != 0 ||
              strcmp(sonde_default_grpc_address(), wanted[1]) != 0 ||
              strcmp(sonde_default_data_dir(), wanted[2]) != 0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

TEST(root_has_the_systems_places) {
    const char *const wanted[] = {"/run/sonde/guest.sock", "unix:/run/sonde/grpc.sock",
                                  "/var/lib/sonde"};
    if (geteuid() != 0)
        check_skip("not root");
    CHECK_INT(in_child(0, "/run/user/0", "/root", wanted), ==, 0);
}

static uid_t somebody(void) {
    return geteuid() ? geteuid() : 12345;
}

TEST(others_have_their_runtime_directory_and_cache) {
    const char *const wanted[] = {"/run/user/5/sonde/guest.sock",
                                  "unix:/run/user/5/sonde/grpc.sock", "/home/ann/.cache/sonde"};
    int result = in_child(somebody(), "/run/user/5", "/home/ann", wanted);
    if (result == 2)
        check_skip("cannot become another user");
    CHECK_INT(result, ==, 0);
}

TEST(without_a_usable_runtime_directory_or_home_tmp_serves) {
    char guest[64], grpc[64], data[64];
    const char *const wanted[] = {guest, grpc, data};
    snprintf(guest, sizeof guest, "/tmp/sonde-%u/guest.sock", (unsigned)somebody());
    snprintf(grpc, sizeof grpc, "unix:/tmp/sonde-%u/grpc.sock", (unsigned)somebody());
    snprintf(data, sizeof data, "/tmp/sonde-%u/cache", (unsigned)somebody());
    int result = in_child(somebody(), NULL, NULL, wanted);
    if (result == 2)
        check_skip("cannot become another user");
    CHECK_INT(result, ==, 0);
    CHECK_INT(in_child(somebody(), "relative", "relative", wanted), ==, 0);
}

TEST(a_path_that_fits_no_socket_is_empty) {
    char runtime[200];
    const char *const wanted[] = {"", "", "/home/ann/.cache/sonde"};
    memset(runtime, 'x', sizeof runtime - 1);
    runtime[0] = '/';
    runtime[sizeof runtime - 1] = 0;
    int result = in_child(somebody(), runtime, "/home/ann", wanted);
    if (result == 2)
        check_skip("cannot become another user");
    CHECK_INT(result, ==, 0);
}
