/* SPDX-License-Identifier: Apache-2.0 */
#include "service/process/foreign_memory.h"
#include "tests/unit/check.h"
#include "tests/unit/process/ended_main.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static char text[100000];

TEST(memory_is_copied_up_to_its_end) {
    static char copy[sizeof text];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)i;
    CHECK_INT(foreign_memory_read(getpid(), (uintptr_t)text, copy, sizeof copy), ==, sizeof copy);
    CHECK(memcmp(text, copy, sizeof text) == 0);
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    CHECK_INT(foreign_memory_read(getpid(), (uintptr_t)pages, copy, 8192), ==, 4096);
    CHECK_INT(foreign_memory_read(getpid(), 16, copy, 8), ==, 0);
    munmap(pages, 4096);
}

TEST(files_of_a_process_are_read) {
    char command[4096], expected[4096];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t len = read(fd, expected, sizeof expected);
    CHECK_INT(foreign_memory_command(getpid(), command, sizeof command), ==, len);
    CHECK(memcmp(command, expected, (size_t)len) == 0);
    CHECK_INT(foreign_memory_read_file(fd, getpid(), 1, command, 3), ==, 3);
    CHECK(memcmp(command, expected + 1, 3) == 0);
    close(fd);
    CHECK_INT(foreign_memory_read_file(-1, getpid(), 0, command, 3), ==, 0);
}

TEST(a_process_whose_main_thread_has_ended_is_read) {
    char byte = 0, command[4096], own[4096];
    pid_t pid = ended_main_start();
    text[7] = 'x';
    CHECK_INT(foreign_memory_read(pid, (uintptr_t)text, &byte, 1), ==, 1);
    size_t len = foreign_memory_command(getpid(), own, sizeof own);
    CHECK_INT(foreign_memory_command(pid, command, sizeof command), ==, len);
    CHECK(len > 0 && memcmp(command, own, len) == 0);
    CHECK_INT(foreign_memory_read(pid, 16, &byte, 1), ==, 0);
    ended_main_finish(pid);
    CHECK_INT(foreign_memory_read(pid, (uintptr_t)text, &byte, 1), ==, 0);
    CHECK_INT(foreign_memory_command(pid, command, sizeof command), ==, 0);
}

TEST(a_read_that_fails_keeps_its_reader) {
    int fifo[2];
    char byte;
    CHECK_INT(pipe(fifo), ==, 0);
    CHECK_INT(foreign_memory_read_file(fifo[0], getpid(), 0, &byte, 1), ==, 0);
    CHECK_INT(foreign_memory_stuck(), ==, 0);
    close(fifo[0]);
    close(fifo[1]);
}

/* A stopped reader does not answer, either. */
TEST(a_user_whose_read_hangs_is_not_read_again_until_it_has_ended) {
    char byte;
    CHECK_INT(foreign_memory_read(getpid(), (uintptr_t)text, &byte, 1), ==, 1);
    CHECK_INT(kill(-foreign_memory_group(), SIGSTOP), ==, 0);
    CHECK_INT(foreign_memory_read(getpid(), (uintptr_t)text, &byte, 1), ==, 0);
    CHECK_INT(foreign_memory_stuck(), ==, 1);
    CHECK_INT(foreign_memory_read(getpid(), (uintptr_t)text, &byte, 1), ==, 0);
    CHECK_INT(foreign_memory_stuck(), ==, 1);
    CHECK_INT(kill(-foreign_memory_group(), SIGCONT), ==, 0);
    for (int i = 0; i < 500 && foreign_memory_stuck() > 0; i++)
        usleep(10000);
    CHECK_INT(foreign_memory_stuck(), ==, 0);
    CHECK_INT(foreign_memory_read(getpid(), (uintptr_t)text, &byte, 1), ==, 1);
}

TEST(a_killed_keeper_is_replaced) {
    char byte;
    CHECK_INT(foreign_memory_read(getpid(), (uintptr_t)text, &byte, 1), ==, 1);
    CHECK_INT(kill(-foreign_memory_group(), SIGKILL), ==, 0);
    usleep(100000);
    size_t first = foreign_memory_read(getpid(), (uintptr_t)text, &byte, 1);
    CHECK(first <= 1); /* the reader that was free is gone */
    CHECK_INT(foreign_memory_read(getpid(), (uintptr_t)text, &byte, 1), ==, 1);
}
