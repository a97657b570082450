/* SPDX-License-Identifier: Apache-2.0
 *
 * A row of the table tries one right. It returns 0 or -errno. */
#include "service/host/rights.h"

#include "service/host/record.h"
#include "service/host/refusal.h"
#include "service/host/sampler/capabilities.h"
#include "service/host/sampler/sampler.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIAL_PERIOD_NS 1000000000ull

/* --- trials ----------------------------------------------------------------------------------- */

static int closed(int fd) {
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

static int try_perf_all(struct sampler *sampler) {
    const struct perf_event_spec spec = {
        .pid = -1, .period_ns = TRIAL_PERIOD_NS, .stack_bytes = HOST_MIN_STACK, .has_kernel = true};
    return closed(sampler_perf_event(sampler, &spec));
}

static int try_perf_own(struct sampler *sampler) {
    const struct perf_event_spec spec = {
        .pid = getpid(), .period_ns = TRIAL_PERIOD_NS, .stack_bytes = HOST_MIN_STACK};
    int error = closed(perf_event_create(&spec));
    return error ? closed(sampler_perf_event(sampler, &spec)) : 0;
}

/* There may be no process of another user to try it with. The first one belongs to root, but a
 * security module or a container can hide it even from those who see all others. */
static int try_memory(struct sampler *sampler) {
    if (sampler_capabilities(sampler) & 1ull << CAP_SYS_PTRACE)
        return 0;
    return closed(sampler_open(sampler, PROCESS_MEMORY, 1, 0, 0));
}

static int try_files(struct sampler *sampler);

static bool find_own_code(uint64_t *start, uint64_t *end) {
    char line[512];
    unsigned long long low, high, code = (uintptr_t)try_files;
    bool is_found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !is_found && fgets(line, sizeof line, maps))
        is_found = sscanf(line, "%llx-%llx", &low, &high) == 2 && low <= code && code < high;
    if (maps)
        fclose(maps);
    *start = is_found ? low : 0;
    *end = is_found ? high : 0;
    return is_found;
}

/* A mapping of this process itself: CAP_CHECKPOINT_RESTORE is asked for even there. */
static int try_files(struct sampler *sampler) {
    uint64_t start, end;
    if (!find_own_code(&start, &end))
        return -ENOENT;
    int error = closed(sampler_open(sampler, PROCESS_MAPPED, getpid(), start, end));
    bool may_read =
        sampler_capabilities(sampler) & (1ull << CAP_DAC_READ_SEARCH | 1ull << CAP_DAC_OVERRIDE);
    return error ? error : may_read ? 0 : -EACCES;
}

static int try_kernel_names(struct sampler *sampler) {
    char text[4096];
    int fd = sampler_open(sampler, PROCESS_KALLSYMS, 0, 0, 0);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    text[len > 0 ? len : 0] = 0;
    if (fd >= 0)
        close(fd);
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        if (strtoull(line, NULL, 16) != 0)
            return 0;
        if (!strchr(line, '\n'))
            break;
    }
    return fd < 0 ? fd : -EACCES;
}

/* --- commands --------------------------------------------------------------------------------- */

/* The group whose members may run the sampler: sonded's. */
static void own_group(char name[64]) {
    struct group group, *found = NULL;
    char text[1024];
    if (getgrgid_r(getegid(), &group, text, sizeof text, &found) == 0 && found)
        snprintf(name, 64, "%s", group.gr_name);
    else
        snprintf(name, 64, "%u", (unsigned)getegid());
}

/* Above perf_event_paranoid 2, kernels of Debian and Ubuntu ask for one more. */
static bool needs_admin(void) {
    int level;
    return refusal_is_paranoid(&level);
}

/* The kernel does not start a program whose file has a capability that this container or unit may
 * not have. */
static bool is_bounded(struct sampler *sampler) {
    char problem[192];
    sampler_problem(sampler, problem);
    return strstr(problem, strerrordesc_np(EPERM)) != NULL;
}

/* chown removes capabilities, so setcap is last. */
static void grant_capabilities(struct sampler *sampler, char *command, size_t size) {
    const char *program = sampler_program(sampler);
    char group[64];
    if (sampler_is_lost(sampler))
        snprintf(command, size, "restart sonded: its sonde-sampler was killed");
    else if (getuid() == 0 || is_bounded(sampler))
        snprintf(command, size,
                 "in a container: --cap-add PERFMON,BPF,SYS_PTRACE,SYSLOG,DAC_READ_SEARCH,"
                 "CHECKPOINT_RESTORE%s; in a unit: the same in CapabilityBoundingSet=",
                 needs_admin() ? ",SYS_ADMIN" : "");
    else if (getenv("INVOCATION_ID")) /* systemd has started it */
        snprintf(command, size,
                 "systemctl edit the unit of sonded: [Service] AmbientCapabilities=CAP_PERFMON "
                 "CAP_BPF CAP_SYS_PTRACE CAP_SYSLOG CAP_DAC_READ_SEARCH CAP_CHECKPOINT_RESTORE%s",
                 needs_admin() ? " CAP_SYS_ADMIN" : "");
    else if (access(program, F_OK) == 0) {
        own_group(group);
        snprintf(command, size,
                 "sudo sh -c 'chown root:%s \"$0\" && chmod 0750 \"$0\" && "
                 "setcap " CAPABILITIES_OF_SAMPLER "%s+ep \"$0\"' %.128s  (and restart sonded)",
                 group, needs_admin() ? ",cap_sys_admin" : "", program);
    } else
        snprintf(command, size, "run sonded as root");
}

static void grant_perf_own(struct sampler *sampler, char *command, size_t size) {
    (void)sampler;
    if (needs_admin()) /* Debian's default is 3 */
        snprintf(command, size, "sudo sysctl kernel.perf_event_paranoid=2");
    else
        snprintf(command, size, "in a container: a seccomp profile that allows perf_event_open");
}

static void grant_kernel_names(struct sampler *sampler, char *command, size_t size) {
    if (refusal_setting("kptr_restrict", 0) > 1)
        snprintf(command, size, "sudo sysctl kernel.kptr_restrict=1");
    else
        grant_capabilities(sampler, command, size);
}

/* --- table ------------------------------------------------------------------------------------ */

static const struct right {
    const char *name, *lost;
    int (*try)(struct sampler *sampler);
    void (*grant)(struct sampler *sampler, char *command, size_t size);
} table[RIGHT_KINDS] = {
    [RIGHT_PERF_ALL] = {"perf, all processes",
                        "no profiles of the whole machine or of other users' processes, no "
                        "kernel frames, and threads shorter than a period are missed",
                        try_perf_all, grant_capabilities},
    [RIGHT_PERF_OWN] = {"perf, own processes",
                        "only programs started under `sonde run` can be profiled", try_perf_own,
                        grant_perf_own},
    [RIGHT_BPF] = {"off-CPU by BPF",
                   "off-CPU time is found by looking at threads from time to time; short waits "
                   "are missed",
                   sampler_try_bpf, grant_capabilities},
    [RIGHT_MEMORY] = {"memory of other users",
                      "other users' processes cannot be profiled from outside", try_memory,
                      grant_capabilities},
    [RIGHT_FILES] = {"files of other users",
                     "no names of functions in files that are deleted, in containers, or that only "
                     "other users may read",
                     try_files, grant_capabilities},
    [RIGHT_KERNEL_NAMES] = {"names in the kernel", "kernel frames have addresses but no names",
                            try_kernel_names, grant_kernel_names},
};

static void explain(struct sampler *sampler, enum host_right_kind kind, int error,
                    struct host_right *right) {
    uint64_t capabilities = sampler_capabilities(sampler);
    bool is_final = false;
    if (kind == RIGHT_BPF)
        refusal_of_bpf(error, capabilities, &is_final, right->reason);
    else
        refusal_text(error, capabilities, right->reason);
    if (!is_final && (error == EACCES || error == EPERM))
        table[kind].grant(sampler, right->command, sizeof right->command);
}

void host_right_read(struct sampler *sampler, enum host_right_kind kind, struct host_right *right) {
    int error = table[kind].try(sampler);
    *right = (struct host_right){.name = table[kind].name,
                                 .is_granted = error == 0,
                                 .lost = error == 0 ? "" : table[kind].lost};
    if (error)
        explain(sampler, kind, -error, right);
}

void host_rights_read(struct sampler *sampler, struct host_right rights[RIGHT_KINDS]) {
    for (int i = 0; i < RIGHT_KINDS; i++)
        host_right_read(sampler, (enum host_right_kind)i, &rights[i]);
}
