/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/fds.h"

#include "tests/unit/check.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_open(int fd) {
    return fcntl(fd, F_GETFD) >= 0;
}

static int open_null(void) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_INT(fd, >=, 0);
    return fd;
}

static bool is_socket(int fd, const void *unused) {
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

TEST(a_descriptor_moves_up_and_is_marked) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int high = fds_raise(fd, is_socket, NULL);
    CHECK_INT(high, >, fd);
    CHECK(fds_marked(high) && !fds_marked(fd));
    CHECK(is_open(high) && !is_open(fd));
    fds_forget(high);
    close(high);
}

/* Another thread calls close(0) while the guest's new descriptor is 0. */
TEST(a_number_that_was_closed_meanwhile_is_not_marked) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    close(fd);
    CHECK_INT(fds_raise(fd, is_socket, NULL), ==, -1);
    CHECK(!fds_marked(fd));
    CHECK_INT(fds_keep(fd).fd, ==, -1);
    CHECK(!fds_marked(fd));
}

/* And opens a file, which gets the number. */
TEST(a_number_that_was_reused_meanwhile_stays_the_programs) {
    int fd = open_null();
    uint64_t next = fds_next(0, 65535);
    CHECK_INT(fds_raise(fd, is_socket, NULL), ==, -1);
    CHECK(is_open(fd));
    CHECK_INT(fds_next(0, 65535), ==, next);
    int lowest = open_null();
    CHECK_INT(lowest, ==, fd + 1); /* no copy is left below */
    close(lowest);
    close(fd);
}

TEST(a_kept_file_is_known_again) {
    struct fds_file file = fds_keep(open_null());
    CHECK(file.fd >= 0 && fds_ours(&file) && fds_marked(file.fd));
    int number = file.fd;
    int other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(dup2(other, number), ==, number);
    CHECK(!fds_ours(&file));
    fds_close(&file);
    CHECK(is_open(number)); /* the program's */
    CHECK(!fds_marked(number));
    close(number);
    close(other);
}
