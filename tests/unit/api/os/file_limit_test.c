/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/file_limit.h"

#include "tests/unit/check.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a child, because a hard limit stays. Returns 0, or 1 with the sentence that is expected. */
static int raise_with(rlim_t soft, rlim_t hard) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct sonde_diag diag = {0};
        const struct rlimit limit = {soft, hard};
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            _exit(2);
        sonde_err err = file_limit_raise("sonded", &diag);
        _exit(err == SONDE_OK ? 0 : strstr(diag.text, "ulimit -n") ? 1 : 2);
    }
    CHECK_INT(waitpid(child, &status, 0), ==, child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(too_few_descriptors_are_refused_with_a_sentence) {
    CHECK_INT(raise_with(16, 16), ==, 1);
    CHECK_INT(raise_with(24, FILE_LIMIT_LEAST - 1), ==, 1);
    CHECK_INT(raise_with(16, FILE_LIMIT_LEAST), ==, 0);
    CHECK_INT(raise_with(FILE_LIMIT_LEAST, FILE_LIMIT_LEAST), ==, 0);
}
