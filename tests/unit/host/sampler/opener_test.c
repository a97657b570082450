/* SPDX-License-Identifier: Apache-2.0
 *
 * The opener of perf events. Kernels of Debian and Ubuntu ask for CAP_SYS_ADMIN above
 * perf_event_paranoid 2. Any kernel does if CAP_PERFMON is missing, so these tests take it away. */
#include "service/host/sampler/opener.h"

#include "service/host/record.h"
#include "service/host/sampler/capabilities.h"
#include "service/host/sampler/protocol.h"

#include "tests/unit/check.h"
#include "tests/unit/host/sampler/scene.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct perf_event_spec all_processes = {
    .pid = -1, .period_ns = 10000000, .stack_bytes = HOST_MIN_STACK, .has_kernel = true};

/* Starts the sampler in a process that may not have these capabilities. */
static struct sampler *sampler_without(const char *program, uint64_t missing) {
    struct sampler *sampler;
    if (!capabilities_keep(capabilities_permitted() & ~missing) ||
        sampler_create(program, &sampler, NULL) != SONDE_OK || !sampler_is_separate(sampler))
        return NULL;
    return sampler;
}

/* Whether the kernel lets everybody sample everything, or nobody; such a kernel never refuses what
 * an opener could have. */
static bool is_not_a_matter_of_rights(void) {
    int level = 2;
    FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
    if (file && fscanf(file, "%d", &level) != 1)
        level = 2;
    if (file)
        fclose(file);
    int fd = perf_event_create(&all_processes);
    if (fd >= 0)
        close(fd);
    return fd < 0 || level < 1;
}

static int opens_without_perfmon(const char *program) {
    struct sampler *sampler = sampler_without(program, 1ull << CAP_PERFMON);
    if (!sampler)
        return 1;
    if (scene_opener(sampler_pid(sampler)) != 0)
        return 2;
    for (int i = 0; i < 3; i++) {
        int fd = sampler_perf_event(sampler, &all_processes);
        if (fd < 0 || !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
            return 3;
        close(fd);
    }
    /* The answer is the kernel's error to the opener: this machine has no such CPU. */
    struct perf_event_spec nowhere = all_processes;
    nowhere.cpu = 65535;
    int error = sampler_perf_event(sampler, &nowhere);
    if (error != -EINVAL && error != -ENODEV)
        return 7;
    pid_t worker = scene_worker(sampler_pid(sampler)), opener = scene_opener(sampler_pid(sampler));
    if (worker <= 0 || opener <= 0)
        return 4;
    /* Nothing but the opener has the capability, and the opener has nothing else. */
    if (scene_status(worker, "CapPrm:") & capabilities_of_opener() ||
        scene_status(opener, "CapPrm:") != capabilities_of_opener())
        return 5;
    sampler_destroy(sampler);
    return kill(opener, 0) == 0 ? 6 : 0;
}

TEST(an_event_that_the_kernel_refuses_to_the_worker_is_opened_by_an_opener) {
    const char *program = scene_program(0755, 0, false);
    if (is_not_a_matter_of_rights())
        check_skip("kernel.perf_event_paranoid lets everybody sample kernel code");
    CHECK_INT(scene_in_child(false, opens_without_perfmon, program), ==, 0);
}

static int refused_without_both(const char *program) {
    struct sampler *sampler = sampler_without(program, 1ull << CAP_PERFMON | 1ull << CAP_SYS_ADMIN);
    if (!sampler)
        return 1;
    int fd = sampler_perf_event(sampler, &all_processes);
    if (fd != -EACCES && fd != -EPERM)
        return 2;
    return scene_opener(sampler_pid(sampler)) != 0 ? 3 : 0;
}

TEST(without_the_capability_the_refusal_stays_and_no_opener_runs) {
    const char *program = scene_program(0755, 0, false);
    if (is_not_a_matter_of_rights())
        check_skip("kernel.perf_event_paranoid lets everybody sample kernel code");
    CHECK_INT(scene_in_child(false, refused_without_both, program), ==, 0);
}

static int survives_its_opener(const char *program) {
    struct sampler *sampler = sampler_without(program, 1ull << CAP_PERFMON);
    int fd = sampler ? sampler_perf_event(sampler, &all_processes) : -1;
    if (fd < 0)
        return 1;
    close(fd);
    pid_t opener = scene_opener(sampler_pid(sampler));
    if (opener <= 0 || kill(opener, SIGKILL) != 0)
        return 2;
    fd = sampler_perf_event(sampler, &all_processes);
    if (fd >= 0 || (fd != -EACCES && fd != -EPERM))
        return 3;
    fd = sampler_perf_event(sampler, &all_processes);
    if (fd < 0)
        return 4;
    close(fd);
    sampler_destroy(sampler);
    return 0;
}

TEST(after_the_death_of_an_opener_one_event_is_refused_and_the_next_is_opened) {
    const char *program = scene_program(0755, 0, false);
    if (is_not_a_matter_of_rights())
        check_skip("kernel.perf_event_paranoid lets everybody sample kernel code");
    CHECK_INT(scene_in_child(false, survives_its_opener, program), ==, 0);
}

static int count_descriptors(pid_t pid) {
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count - 2; /* . and .. */
}

static int is_confined(const char *program) {
    struct sampler *sampler = sampler_without(program, 1ull << CAP_PERFMON);
    int fd = sampler ? sampler_perf_event(sampler, &all_processes) : -1;
    if (fd < 0)
        return 1;
    close(fd);
    pid_t opener = scene_opener(sampler_pid(sampler));
    if (scene_status(opener, "NoNewPrivs:") != 1)
        return 2;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (scene_status(opener, "Seccomp:") != 2)
        return 3;
#endif
    /* stdin, stdout and stderr, and its socket: not that of sonded. It closes the event after it
     * has sent it. */
    for (int i = 0; count_descriptors(opener) != 4; i++) {
        if (i == 1000)
            return 4;
        usleep(5000);
    }
    sampler_destroy(sampler);
    return 0;
}

TEST(an_opener_is_confined_and_has_no_descriptor_but_its_socket) {
    const char *program = scene_program(0755, 0, false);
    if (is_not_a_matter_of_rights())
        check_skip("kernel.perf_event_paranoid lets everybody sample kernel code");
    CHECK_INT(scene_in_child(false, is_confined, program), ==, 0);
}

/* What the opener answers is checked like what anybody sends. */
static int invalid_specs(const char *program) {
    int socket;
    if (opener_start(&socket) <= 0)
        return 1;
    struct perf_event_spec bad = all_processes;
    bad.period_ns = 1;
    if (opener_perf_event(socket, &bad) != -EINVAL || send(socket, "x", 1, 0) != 1)
        return 2;
    struct sampler_reply reply;
    if (recv(socket, &reply, sizeof reply, 0) != sizeof reply || reply.error != -EINVAL)
        return 3;
    int fd = opener_perf_event(socket, &all_processes);
    return fd == -EINVAL || fd == -EPIPE ? 4 : 0;
}

TEST(an_opener_refuses_invalid_events_and_serves_the_next) {
    scene_program(0755, 0, false); /* skips unless root */
    CHECK_INT(scene_in_child(false, invalid_specs, NULL), ==, 0);
}
