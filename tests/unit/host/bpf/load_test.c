/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading the BPF program: what is refused, and that its descriptors need no rights. */
#include "service/host/bpf/off_cpu.h"

#include "service/host/bpf/off_cpu_shared.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int give_loaded(void *context, const struct off_cpu_spec *spec, int fds[OFF_CPU_FDS]) {
    memcpy(fds, context, OFF_CPU_FDS * sizeof *fds);
    return 0;
}

/* Runs `test` in a process of its own, whose exit status is the result. */
static int run_apart(int (*test)(void *context), void *context) {
    int status;
    pid_t pid = fork();
    CHECK_INT(pid, >=, 0);
    if (pid == 0)
        _exit(test(context));
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void on_record(void *context, const struct host_record *record) {
    uint32_t *records = context;
    *records += record->kind == HOST_OFF_CPU && record->sample.stack_bytes > 0;
}

/* Watches itself. */
static int read_as_nobody(void *context) {
    struct off_cpu_options options = {
        .load = give_loaded, .load_context = context, .max_threads = 64, .stack_bytes = 4096};
    struct off_cpu *off_cpu = NULL;
    uint32_t records = 0;
    if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
        return 1;
    if (off_cpu_open(&options, &off_cpu, NULL))
        return 2;
    if (!off_cpu_watch(off_cpu, getpid(), true))
        return 3;
    for (int i = 0; i < 5; i++)
        usleep(1000);
    (void)off_cpu_drain(off_cpu, on_record, &records, NULL);
    return records >= 5 ? 0 : 4;
}

TEST(the_descriptors_work_without_rights) {
    struct off_cpu_spec spec = {.slot_count = 64, .stack_bytes = 4096, .ring_bytes = 1u << 23};
    int fds[OFF_CPU_FDS], result = off_cpu_load(&spec, fds);
    if (result == -EPERM)
        check_skip("the kernel does not let us load a BPF program");
    CHECK_INT(result, ==, 0);
    CHECK_INT(run_apart(read_as_nobody, fds), ==, 0);
    for (int i = 0; i < OFF_CPU_FDS; i++)
        close(fds[i]);
}

TEST(an_invalid_description_is_refused) {
    static const struct off_cpu_spec wrong[] = {
        {.slot_count = 100, .stack_bytes = 4096, .ring_bytes = 1u << 20},
        {.slot_count = OFF_CPU_SLOTS * 2, .stack_bytes = 4096, .ring_bytes = 1u << 20},
        {.slot_count = 64, .stack_bytes = 512, .ring_bytes = 1u << 20},
        {.slot_count = 64, .stack_bytes = 4095, .ring_bytes = 1u << 20},
        {.slot_count = 64, .stack_bytes = OFF_CPU_MAX_STACK + 8, .ring_bytes = 1u << 20},
        {.slot_count = 64, .stack_bytes = 4096, .ring_bytes = 4096},
        {.slot_count = 64, .stack_bytes = 4096, .ring_bytes = 1u << 30},
    };
    int fds[OFF_CPU_FDS];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_INT(off_cpu_load(&wrong[i], fds), ==, -EINVAL);
}

static int open_as_nobody(void *context) {
    struct off_cpu_options options = {.max_threads = 64, .stack_bytes = 4096};
    struct off_cpu *off_cpu = NULL;
    struct sonde_diag diag = {0};
    if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
        return 1;
    if (off_cpu_open(&options, &off_cpu, &diag) != SONDE_NOT_AVAILABLE)
        return 2;
    return strstr(diag.text, "CAP_BPF") ? 0 : 3;
}

TEST(a_kernel_that_refuses_bpf_is_reported_with_what_would_allow_it) {
    CHECK_INT(run_apart(open_as_nobody, NULL), ==, 0);
}

static int fail_with(void *context, const struct off_cpu_spec *spec, int fds[OFF_CPU_FDS]) {
    return -*(int *)context;
}

TEST(an_unexpected_failure_has_the_words_of_the_kernel) {
    int error = ESRCH;
    struct off_cpu_options options = {
        .load = fail_with, .load_context = &error, .stack_bytes = 4096};
    struct off_cpu *off_cpu = NULL;
    struct sonde_diag diag = {0};
    CHECK_INT(off_cpu_open(&options, &off_cpu, &diag), ==, SONDE_NOT_AVAILABLE);
    CHECK(strstr(diag.text, "No such process"));
    error = EMFILE;
    CHECK_INT(off_cpu_open(&options, &off_cpu, &diag), ==, SONDE_OUT_OF_MEMORY);
}
