/* SPDX-License-Identifier: Apache-2.0
 *
 * When the opener is asked, and when this process's own rights decide. */
#include "service/process/process_file.h"

#include "service/process/live_thread.h"
#include "tests/unit/check.h"
#include "tests/unit/process/ended_main.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
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

/* The mapping of this test's code. */
static void find_code(unsigned long *start, unsigned long *end) {
    char line[512];
    unsigned long code = (unsigned long)find_code;
    FILE *maps = fopen("/proc/self/maps", "re");
    *start = *end = 0;
    while (maps && (code < *start || code >= *end) && fgets(line, sizeof line, maps))
        CHECK_INT(sscanf(line, "%lx-%lx", start, end), ==, 2);
    fclose(maps);
}

static ino_t inode(int fd) {
    struct stat info = {0};
    CHECK(fd >= 0 && fstat(fd, &info) == 0);
    close(fd);
    return info.st_ino;
}

TEST(a_process_whose_main_thread_has_ended_has_its_files) {
    static char word[] = "word";
    char text[4096];
    unsigned long start, end;
    pid_t pid = ended_main_start();
    CHECK(process_live_thread(pid) != pid);
    CHECK_INT(process_live_thread(getpid()), ==, getpid());
    find_code(&start, &end);
    int fd = process_file_open(PROCESS_MAPS, pid, 0, 0);
    CHECK(read(fd, text, sizeof text) > 0);
    close(fd);
    fd = process_file_open(PROCESS_MEMORY, pid, 0, 0);
    CHECK_INT(pread(fd, text, 4, (off_t)(uintptr_t)word), ==, 4);
    CHECK(memcmp(text, word, 4) == 0);
    close(fd);
    ino_t program = inode(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    CHECK_INT(inode(process_file_open(PROCESS_EXE, pid, 0, 0)), ==, program);
    CHECK_INT(inode(process_file_open(PROCESS_ROOT, pid, 0, 0)), ==,
              inode(open("/", O_PATH | O_CLOEXEC)));
    if (getuid() == 0)
        CHECK_INT(inode(process_file_open(PROCESS_MAPPED, pid, start, end)), ==, program);
    ended_main_finish(pid);
    CHECK_INT(process_live_thread(pid), ==, pid);
    CHECK_INT(process_file_open(PROCESS_MAPS, pid, 0, 0), ==, -ENOENT);
}
