/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/secrets/secret_file.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static sonde_err read_with_mode(const char *path, int fd, unsigned mode, struct sonde_buf *out) {
    fchmod(fd, mode);
    return sonde_file_read(path, "token file", SONDE_FILE_SECRET, out, NULL);
}

TEST(a_secret_that_everybody_can_read_is_refused) {
    char path[64];
    struct sonde_buf out = {0};
    int fd = mkstemp(temporary_template(path, sizeof path));
    CHECK_INT(write(fd, "secret", 6), ==, 6);
    sonde_err open_err = read_with_mode(path, fd, 0644, &out);
    sonde_err closed_err = read_with_mode(path, fd, 0640, &out);
    close(fd);
    unlink(path);
    CHECK_INT(open_err, ==, SONDE_PERMISSION_DENIED);
    CHECK_INT(closed_err, ==, SONDE_OK);
    CHECK_STR(out.data, "secret");
    sonde_buf_finish(&out);
}
