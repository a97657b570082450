/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may use the sampler's capabilities, and what for. */
#include "service/host/sampler/capabilities.h"
#include "service/host/sampler/protocol.h"

#include "tests/unit/check.h"
#include "tests/unit/host/sampler/scene.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* As nobody: 0 = the sampler opens what nobody may not. */
static int look_at_root(const char *program) {
    struct sampler *sampler;
    char problem[192];
    if (process_file_open_own(PROCESS_MAPS, getppid(), 0, 0) != -EACCES)
        return 1;
    if (sampler_create(program, &sampler, NULL) != SONDE_OK)
        return 2;
    if (!sampler_is_separate(sampler))
        return sampler_problem(sampler, problem), problem[0] ? 3 : 4;
    process_file_set_opener(sampler_open_file, sampler);
    int maps = process_file_open(PROCESS_MAPS, getppid(), 0, 0);
    int result = maps < 0 ? 5 : getuid() != NOBODY || capabilities_held() != 0 ? 6 : 0;
    process_file_set_opener(NULL, NULL);
    sampler_destroy(sampler);
    return result;
}

TEST(with_file_capabilities_a_user_sees_the_processes_of_others) {
    CHECK_INT(scene_in_child(true, look_at_root, scene_program(0750, NOBODY, true)), ==, 0);
}

TEST(without_capabilities_the_sampler_does_not_run) {
    CHECK_INT(scene_in_child(true, look_at_root, scene_program(0755, 0, false)), ==, 3);
}

TEST(a_program_that_every_user_may_run_does_not_serve_with_file_capabilities) {
    CHECK_INT(scene_in_child(true, look_at_root, scene_program(0755, NOBODY, true)), ==, 3);
}

TEST(a_program_that_only_others_may_run_leaves_the_work_to_this_process) {
    CHECK_INT(scene_in_child(true, look_at_root, scene_program(0750, 0, true)), ==, 3);
}

/* As systemd starts a unit with AmbientCapabilities=: nobody, with capabilities that programs
 * inherit. The program's file has none. */
static int with_ambient(const char *program) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    struct sampler *sampler;
    prctl(PR_SET_KEEPCAPS, 1);
    if (setresuid(NOBODY, NOBODY, NOBODY) != 0 || syscall(SYS_capget, &header, sets) != 0)
        return 1;
    for (int i = 0; i < 2; i++)
        sets[i].inheritable = sets[i].effective = sets[i].permitted;
    if (syscall(SYS_capset, &header, sets) != 0 ||
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_PTRACE, 0, 0) != 0)
        return 2;
    if (sampler_create(program, &sampler, NULL) != SONDE_OK || !sampler_is_separate(sampler))
        return 3;
    if (sampler_capabilities(sampler) != 1ull << CAP_SYS_PTRACE)
        return 4;
    if (!capabilities_keep(capabilities_of_sonded()) ||
        process_file_open_own(PROCESS_MAPS, getppid(), 0, 0) != -EACCES)
        return 5;
    int maps = sampler_open(sampler, PROCESS_MAPS, getppid(), 0, 0);
    sampler_destroy(sampler);
    return maps < 0 ? 6 : 0;
}

TEST(capabilities_of_a_unit_are_the_sampler_s_alone) {
    CHECK_INT(scene_in_child(false, with_ambient, scene_program(0755, 0, false)), ==, 0);
}

/* Runs the program under a socket that is not of its parent, as somebody would who got hold of one.
 */
static int with_another_socket(const char *program) {
    int pair[2], status;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0)
        return 98;
    pid_t between = fork();
    if (between == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            dup2(pair[1], SAMPLER_SOCKET);
            execl(program, program, (char *)NULL);
            _exit(97);
        }
        waitpid(pid, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 96);
    }
    waitpid(between, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 95;
}

static int without_socket(const char *program) {
    close(SAMPLER_SOCKET);
    execl(program, program, (char *)NULL);
    return 97;
}

TEST(it_serves_only_over_a_socket_of_its_parent) {
    CHECK_INT(scene_in_child(true, with_another_socket, scene_program(0750, NOBODY, true)), ==, 1);
    CHECK_INT(scene_in_child(false, with_another_socket, scene_program(0755, 0, false)), ==, 1);
    CHECK_INT(scene_in_child(false, without_socket, scene_program(0755, 0, false)), ==, 1);
}

static int keep_some(const char *program) {
    const uint64_t wanted = 1ull << CAP_CHOWN | 1ull << CAP_SYS_PTRACE;
    if (!capabilities_keep(wanted) || (capabilities_held() & ~wanted) ||
        (scene_status(getpid(), "CapBnd:") & ~wanted))
        return 1;
    /* Nor does a program that this process starts get them back. */
    execl("/bin/sh", "sh", "-c",
          "exec test \"$(sed -n 's/^CapEff:\t0*//p' /proc/self/status)\" = 80001", (char *)NULL);
    return 2;
}

TEST(capabilities_that_were_given_up_do_not_come_back_by_exec) {
    if (getuid() != 0)
        check_skip("only root has capabilities to give up");
    CHECK_INT(scene_in_child(false, keep_some, NULL), ==, 0);
}

/* sonded refuses to gain rights by exec once it serves; a killed sampler leaves it without. */
static int killed_under_no_new_privs(const char *program) {
    struct sampler *sampler;
    if (sampler_create(program, &sampler, NULL) != SONDE_OK || !sampler_is_separate(sampler))
        return 1;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    kill(scene_worker(sampler_pid(sampler)), SIGKILL);
    (void)sampler_open(sampler, PROCESS_MAPS, getppid(), 0, 0);
    if (sampler_open(sampler, PROCESS_MAPS, getppid(), 0, 0) < 0)
        return 2; /* the program itself lives, and serves on */
    kill(sampler_pid(sampler), SIGKILL);
    int fd; /* the worker may answer one more time before it ends, too */
    while ((fd = sampler_open(sampler, PROCESS_MAPS, getppid(), 0, 0)) >= 0)
        close(fd);
    if (fd != -EPIPE || sampler_open(sampler, PROCESS_MAPS, getppid(), 0, 0) != -EACCES)
        return 3;
    int own = sampler_open(sampler, PROCESS_MAPS, getpid(), 0, 0);
    sampler_destroy(sampler);
    return own < 0 ? 4 : 0;
}

TEST(a_killed_worker_costs_no_rights_and_a_killed_program_leaves_own_processes) {
    CHECK_INT(scene_in_child(true, killed_under_no_new_privs, scene_program(0750, NOBODY, true)),
              ==, 0);
}
