/* SPDX-License-Identifier: Apache-2.0
 *
 * When the opener is asked, and when this process's own rights decide. */
#include "service/process/process_file.h"

#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

static int asked;

static int opener(void *context, enum process_file file, pid_t pid, uint64_t start, uint64_t end) {
    asked++;
    return *(int *)context ? -EPIPE : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* As nobody, with root's test as the process. */
static int as_nobody(pid_t root) {
    int fails = 0, fd;
    if (setgroups(0, NULL) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0)
        return 9;
    if (process_file_open(PROCESS_MAPS, root, 0, 0) != -EACCES)
        return 1;
    process_file_set_opener(opener, &fails);
    if ((fd = process_file_open(PROCESS_MAPS, root, 0, 0)) < 0 || asked != 1)
        return 2;
    close(fd);
    fails = 1; /* its own failure says less than the kernel's */
    if (process_file_open(PROCESS_MAPS, root, 0, 0) != -EACCES || asked != 2)
        return 3;
    if (process_file_open(PROCESS_MAPS, 0, 0, 0) != -EINVAL || asked != 2)
        return 4;
    fails = 0;
    if ((fd = process_file_open(PROCESS_KALLSYMS, 0, 0, 0)) < 0 || asked != 3)
        return 5;
    return 0;
}

TEST(an_opener_is_asked_for_what_the_kernel_refuses) {
    int status;
    if (getuid() != 0)
        check_skip("only root can become another user");
    pid_t pid = fork(), root = getppid();
    if (pid == 0)
        _exit(as_nobody(root));
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    CHECK_INT(status, ==, 0);
}

TEST(root_opens_the_files_of_processes_with_its_own_rights) {
    int fails = 0;
    if (getuid() != 0)
        check_skip("not root");
    asked = 0;
    process_file_set_opener(opener, &fails);
    CHECK_INT(process_file_open(PROCESS_MAPS, 0x7ffffff0, 0, 0), ==, -ENOENT);
    int fd = process_file_open(PROCESS_EXE, getpid(), 0, 0);
    CHECK(fd >= 0);
    close(fd);
    CHECK_INT(asked, ==, 0);
    process_file_set_opener(NULL, NULL);
}

TEST(only_regular_files_are_opened) {
    CHECK_INT(process_file_open(PROCESS_FILES, getpid(), 0, 0), ==, -EINVAL);
    CHECK_INT(process_file_open(PROCESS_MAPPED, getpid(), 8192, 4096), ==, -EINVAL);
    CHECK_INT(process_file_open(PROCESS_MAPPED, getpid(), 4096, 8192), ==, -ENOENT);
}
