/* SPDX-License-Identifier: Apache-2.0
 *
 * Refusals on kernels with other settings than this one. A child sees the setting in a mount
 * namespace of its own: a file bound over the kernel's. */
#include "service/host/refusal.h"

#include "service/host/bpf/off_cpu.h"
#include "service/host/record.h"
#include "service/host/rights.h"
#include "service/host/rings/rings.h"
#include "service/host/sampler/capabilities.h"
#include "tests/unit/check.h"
#include "tests/unit/host/sampler/scene.h"
#include "tests/unit/temporary.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PARANOID "/proc/sys/kernel/perf_event_paranoid"
#define NO_MOUNT 90

/* Bind-mounts a file with this text over `path`, for this process and its children. */
static bool cover(const char *path, const char *text) {
    char name[256];
    temporary_template(name, sizeof name);
    int fd = mkstemp(name);
    bool is_written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
                      fchmod(fd, 0644) == 0 && close(fd) == 0;
    bool is_done = is_written && unshare(CLONE_NEWNS) == 0 &&
                   mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                   mount(name, path, NULL, MS_BIND, NULL) == 0;
    unlink(name);
    return is_done;
}

static bool become_nobody(void) {
    return setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
           setresuid(NOBODY, NOBODY, NOBODY) == 0;
}

static void in_child(int (*run)(const char *program), const char *program) {
    if (getuid() != 0)
        check_skip("only root can give a child other settings");
    int result = scene_in_child(false, run, program);
    if (result == NO_MOUNT)
        check_skip("this machine lets no process change its mounts");
    CHECK_INT(result, ==, 0);
}

TEST(a_refusal_has_the_error_the_capabilities_and_the_kernel) {
    char text[REFUSAL_BYTES];
    struct utsname kernel;
    CHECK_INT(uname(&kernel), ==, 0);
    refusal_text(EACCES, 1ull << CAP_PERFMON | 1ull << CAP_SYS_PTRACE, text);
    CHECK(strstr(text, "Permission denied (capabilities: perfmon,sys_ptrace; Linux ") == text);
    CHECK(strstr(text, kernel.release));
    refusal_text(99999, 0, text);
    CHECK(strstr(text, "unknown error (capabilities: none; ") == text);
}

TEST(kernels_are_compared_by_numbers) {
    CHECK(refusal_kernel_at_least(4, 99));
    CHECK(!refusal_kernel_at_least(999, 0));
}

/* --- perf_event_paranoid 3 -------------------------------------------------------------------- */

static sonde_err open_rings(pid_t pid, bool has_kernel, struct sonde_diag *diag) {
    struct rings *rings = NULL;
    const struct rings_options options = {.pids = &pid,
                                          .pid_count = pid != 0,
                                          .period_ns = 10000000,
                                          .stack_bytes = HOST_MIN_STACK,
                                          .has_kernel = has_kernel};
    sonde_err err = rings_open(&options, &rings, diag);
    if (!err)
        rings_close(rings);
    return err;
}

/* As nobody, so that this kernel refuses, too. */
static int rings_name_the_setting(const char *program) {
    struct sonde_diag one = {0}, all = {0};
    if (!cover(PARANOID, "3\n") || !become_nobody())
        return NO_MOUNT;
    if (open_rings(1, false, &one) != SONDE_PERMISSION_DENIED ||
        open_rings(0, true, &all) != SONDE_PERMISSION_DENIED)
        return 1;
    if (!strstr(one.text, "kernel.perf_event_paranoid is 3") || !strstr(one.text, "`sonde run`"))
        return 2;
    return strstr(all.text, "kernel.perf_event_paranoid is 3") && strstr(all.text, "CAP_SYS_ADMIN")
               ? 0
               : 3;
}

TEST(a_user_is_told_the_setting_and_what_still_works) {
    in_child(rings_name_the_setting, NULL);
}

static int setcap_has_admin(const char *program) {
    struct host_right rights[RIGHT_KINDS];
    struct sampler *sampler;
    if (!cover(PARANOID, "3\n") || !become_nobody())
        return NO_MOUNT;
    unsetenv("INVOCATION_ID");
    if (sampler_create(program, &sampler, NULL) != SONDE_OK)
        return 1;
    host_rights_read(sampler, rights);
    sampler_destroy(sampler);
    const struct host_right *all = &rights[RIGHT_PERF_ALL];
    if (all->is_granted || !strstr(all->command, CAPABILITIES_OF_SAMPLER ",cap_sys_admin+ep"))
        return 2;
    return strstr(all->reason, "Permission denied (capabilities: none; Linux ") ? 0 : 3;
}

TEST(the_setcap_has_what_this_setting_asks_for) {
    in_child(setcap_has_admin, scene_program(0755, 0, false));
}

/* Advice that is followed grants what it says: root runs the command, nobody has the right. */
static int setcap_grants(const char *program) {
    struct host_right rights[RIGHT_KINDS];
    struct sampler *sampler;
    char command[640];
    if (!cover(PARANOID, "3\n"))
        return NO_MOUNT;
    snprintf(command, sizeof command,
             "chown root:nogroup %s && chmod 0750 %s && /usr/sbin/setcap " CAPABILITIES_OF_SAMPLER
             ",cap_sys_admin+ep %s",
             program, program, program);
    if (system(command) != 0)
        return 1;
    if (!become_nobody() || sampler_create(program, &sampler, NULL) != SONDE_OK)
        return 2;
    host_rights_read(sampler, rights);
    sampler_destroy(sampler);
    return rights[RIGHT_PERF_ALL].is_granted ? 0 : 3;
}

TEST(who_follows_the_advice_may_sample_all_processes) {
    in_child(setcap_grants, scene_program(0755, 0, false));
}

static int load_nothing(void *error, const struct off_cpu_spec *spec, int fds[OFF_CPU_FDS]) {
    return -*(int *)error;
}

static bool off_cpu_says(int error, sonde_err expected, const char *part) {
    struct off_cpu *off_cpu = NULL;
    struct sonde_diag diag = {0};
    const struct off_cpu_options options = {.load = load_nothing,
                                            .load_context = &error,
                                            .capabilities = 1ull << CAP_BPF,
                                            .stack_bytes = 4096,
                                            .max_threads = 64};
    return off_cpu_open(&options, &off_cpu, &diag) == expected && strstr(diag.text, part);
}

/* --- old kernels ------------------------------------------------------------------------------ */

/* The kernel calls itself 2.6 to such a process. */
static int on_an_old_kernel(const char *program) {
    struct sonde_diag diag = {0};
    if (personality(UNAME26) < 0)
        return NO_MOUNT;
    if (open_rings(getpid(), false, &diag) != SONDE_NOT_AVAILABLE)
        return 1;
    if (!strstr(diag.text, "needs Linux 5.4, this is Linux 2.6.") ||
        !strstr(diag.text, "`sonde run`"))
        return 2;
    return off_cpu_says(EPERM, SONDE_NOT_AVAILABLE, "needs Linux 5.15; this is Linux 2.6.") ? 0 : 3;
}

TEST(a_kernel_before_5_4_is_refused_with_its_release) {
    CHECK_INT(scene_in_child(false, on_an_old_kernel, NULL), ==, 0);
}

static int refuse_event(void *error, const struct perf_event_spec *spec) {
    return -*(int *)error;
}

TEST(a_kernel_without_perf_events_is_named_as_such) {
    pid_t self = getpid();
    int error = ENOSYS;
    struct rings *rings = NULL;
    struct sonde_diag diag = {0};
    const struct rings_options options = {.pids = &self,
                                          .pid_count = 1,
                                          .period_ns = 10000000,
                                          .stack_bytes = HOST_MIN_STACK,
                                          .create = refuse_event,
                                          .create_context = &error};
    CHECK_INT(rings_open(&options, &rings, &diag), ==, SONDE_NOT_AVAILABLE);
    CHECK(strstr(diag.text, "CONFIG_PERF_EVENTS"));
}

/* --- BPF -------------------------------------------------------------------------------------- */

TEST(a_refused_bpf_program_has_the_reason_of_the_kernel) {
    char text[REFUSAL_BYTES];
    bool is_final;
    refusal_of_bpf(EPERM, 0, &is_final, text);
    if (is_final)
        check_skip("the kernel does not let us load a BPF program");
    CHECK(off_cpu_says(EPERM, SONDE_NOT_AVAILABLE,
                       "Operation not permitted (capabilities: bpf; Linux "));
    CHECK(off_cpu_says(EPERM, SONDE_NOT_AVAILABLE, "it takes CAP_BPF and CAP_PERFMON"));
    CHECK(off_cpu_says(ENOMEM, SONDE_OUT_OF_MEMORY, "Cannot allocate memory"));
}

static int without_btf(const char *program) {
    if (access("/sys/kernel/btf", F_OK) != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/sys/kernel/btf", "tmpfs", 0, NULL) != 0)
        return NO_MOUNT;
    return off_cpu_says(ENOENT, SONDE_NOT_AVAILABLE, "CONFIG_DEBUG_INFO_BTF") ? 0 : 1;
}

TEST(a_kernel_without_types_is_named_as_such) {
    in_child(without_btf, NULL);
}

static int locked_down(const char *program) {
    char folder[] = "/sys/kernel/security";
    if (access(folder, F_OK) != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder, "tmpfs", 0, NULL) != 0)
        return NO_MOUNT;
    FILE *file = fopen("/sys/kernel/security/lockdown", "we");
    if (!file || fputs("none integrity [confidentiality]\n", file) < 0 || fclose(file) != 0)
        return 1;
    return off_cpu_says(EPERM, SONDE_NOT_AVAILABLE, "lockdown (confidentiality)") ? 0 : 2;
}

TEST(a_kernel_in_lockdown_is_named_as_such) {
    in_child(locked_down, NULL);
}
