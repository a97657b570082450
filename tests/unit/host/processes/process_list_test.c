/* SPDX-License-Identifier: Apache-2.0
 *
 * Real processes of this machine. */
#include "service/host/processes/process_list.h"

#include "tests/unit/check.h"
#include "tests/unit/process/ended_main.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that has called itself NAME and waits for its end. */
static pid_t start(const char *name) {
    int ready[2];
    char byte;
    CHECK_INT(pipe(ready), ==, 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, name);
        if (write(ready[1], "x", 1) == 1)
            pause();
        _exit(0);
    }
    CHECK_INT(read(ready[0], &byte, 1), ==, 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

TEST(a_process_is_described) {
    struct process_entry entry;
    pid_t pid = start("a) S (\n");
    CHECK(process_read(pid, &entry));
    CHECK_INT(entry.pid, ==, pid);
    CHECK_INT(entry.parent, ==, getpid());
    CHECK_INT(entry.uid, ==, geteuid());
    CHECK_STR(entry.comm, "a) S (?");
    CHECK_STR(entry.executable, "process_list_test");
    CHECK_STR(entry.name, "process_list_test");
    CHECK_INT(entry.threads, ==, 1);
    CHECK(entry.start_ticks > 0 && entry.cpu_ns > 0 && !entry.is_kernel && !entry.is_32bit);
    kill(pid, SIGKILL);
    siginfo_t info;
    CHECK_INT(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), ==, 0);
    CHECK(!process_read(pid, &entry)); /* a zombie */
    end(pid);
    CHECK(!process_read(pid, &entry));
    CHECK(!process_read(0, &entry));
    CHECK(!process_read(-1, &entry));
}

TEST(a_process_whose_main_thread_has_ended_is_described) {
    struct process_entry entry;
    pid_t pid = ended_main_start();
    CHECK(process_read(pid, &entry));
    CHECK_INT(entry.pid, ==, pid);
    CHECK_STR(entry.executable, "process_list_test");
    CHECK_STR(entry.name, "process_list_test");
    CHECK_INT(entry.threads, ==, 2);
    ended_main_finish(pid);
    CHECK(!process_read(pid, &entry));
}

TEST(the_user_is_the_effective_one_also_of_a_process_that_may_not_be_dumped) {
    int ready[2];
    char byte;
    struct process_entry entry;
    if (getuid() != 0)
        check_skip("only root can become another user");
    CHECK_INT(pipe(ready), ==, 0);
    pid_t pid = fork();
    if (pid == 0) {
        /* A change of ids makes it so; the files in /proc/PID are root's then. */
        if (setresuid(65534, 65533, 65534) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
            write(ready[1], "x", 1) == 1)
            pause();
        _exit(0);
    }
    CHECK_INT(read(ready[0], &byte, 1), ==, 1);
    close(ready[0]);
    close(ready[1]);
    bool is_read = process_read(pid, &entry);
    end(pid);
    CHECK(is_read);
    CHECK_INT(entry.uid, ==, 65533);
}

TEST(a_zombie_is_gone) {
    struct process_entry entry;
    siginfo_t info;
    pid_t pid = start("zombie");
    kill(pid, SIGKILL);
    CHECK_INT(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), ==, 0);
    bool is_read = process_read(pid, &entry);
    waitpid(pid, NULL, 0);
    CHECK(!is_read);
}

TEST(the_list_has_each_process_once) {
    size_t count, own = 0, child = 0;
    pid_t pid = start("listed");
    struct process_entry *list = process_list(&count);
    for (size_t i = 0; list && i < count; i++) {
        own += list[i].pid == getpid();
        child += list[i].pid == pid && strcmp(list[i].comm, "listed") == 0;
    }
    free(list);
    end(pid);
    CHECK_INT(own, ==, 1);
    CHECK_INT(child, ==, 1);
}

/* Of each process of the machine: by its name, the search finds it and only its namesakes. */
TEST(a_search_by_name_finds_what_the_list_has_by_that_name) {
    size_t count, found;
    pid_t pid = start("listed");
    struct process_entry *all = process_list(&count);
    for (size_t i = 0; all && i < count; i++) {
        if (all[i].pid != pid && all[i].pid != 1 && !all[i].is_kernel)
            continue;
        struct process_entry *named = process_list_named(all[i].name, &found);
        bool is_there = false;
        for (size_t j = 0; j < found; j++) {
            CHECK_STR(named[j].name, all[i].name);
            CHECK(!named[j].is_kernel);
            is_there |= named[j].pid == all[i].pid;
        }
        CHECK(is_there == !all[i].is_kernel);
        free(named);
    }
    free(all);
    free(process_list_named("no process is called so", &found));
    CHECK_INT(found, ==, 0);
    end(pid);
}

TEST(a_program_without_a_command_line_is_found_by_its_executable) {
    size_t found;
    int input[2], started[2];
    char byte;
    CHECK_INT(pipe(input), ==, 0);
    CHECK_INT(pipe2(started, O_CLOEXEC), ==, 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(input[0], 0);
        execl("/bin/cat", "", NULL); /* waits for input; closes `started` */
        _exit(1);
    }
    close(started[1]);
    CHECK_INT(read(started[0], &byte, 1), ==, 0);
    struct process_entry *named = process_list_named("cat", &found);
    bool is_there = false;
    for (size_t i = 0; i < found; i++)
        is_there |= named[i].pid == pid;
    CHECK(is_there);
    free(named);
    end(pid);
    close(started[0]);
    close(input[0]);
    close(input[1]);
}
