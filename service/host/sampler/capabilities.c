/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/sampler/capabilities.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(capability) (1ull << (capability))

static bool read_sets(struct __user_cap_data_struct sets[2]) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    return syscall(SYS_capget, &header, sets) == 0;
}

uint64_t capabilities_held(void) {
    struct __user_cap_data_struct sets[2];
    return read_sets(sets) ? sets[0].effective | (uint64_t)sets[1].effective << 32 : 0;
}

uint64_t capabilities_permitted(void) {
    struct __user_cap_data_struct sets[2];
    return read_sets(sets) ? sets[0].permitted | (uint64_t)sets[1].permitted << 32 : 0;
}

bool capabilities_keep_spare(uint64_t kept, uint64_t spare) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    /* Fails without CAP_SETPCAP. A user's process has nothing to win back then. */
    for (int i = 0; i < 64 && prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
        if (!(kept & BIT(i)))
            (void)prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (!read_sets(sets))
        return false;
    for (int i = 0; i < 2; i++) {
        sets[i].permitted &= (uint32_t)((kept | spare) >> (32 * i));
        sets[i].effective = sets[i].permitted & (uint32_t)(kept >> (32 * i));
        sets[i].inheritable = 0;
    }
    return syscall(SYS_capset, &header, sets) == 0;
}

bool capabilities_keep(uint64_t kept) {
    return capabilities_keep_spare(kept, 0);
}

bool capabilities_use_only(uint64_t used) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {0};
    if ((capabilities_permitted() & used) != used)
        return false;
    for (int i = 0; i < 2; i++)
        sets[i].permitted = sets[i].effective = (uint32_t)(used >> (32 * i));
    return syscall(SYS_capset, &header, sets) == 0;
}

/* Kernels before 5.9 lack PERFMON, BPF and CHECKPOINT_RESTORE; CAP_SYS_ADMIN covers them. */
static uint64_t newest(void) {
    return prctl(PR_CAPBSET_READ, CAP_CHECKPOINT_RESTORE, 0, 0, 0) >= 0
               ? BIT(CAP_PERFMON) | BIT(CAP_BPF) | BIT(CAP_CHECKPOINT_RESTORE)
               : BIT(CAP_SYS_ADMIN);
}

uint64_t capabilities_of_sampler(void) {
    return newest() | BIT(CAP_SYS_PTRACE) | BIT(CAP_SYSLOG) | BIT(CAP_DAC_READ_SEARCH);
}

uint64_t capabilities_of_opener(void) {
    return BIT(CAP_SYS_ADMIN);
}

uint64_t capabilities_of_sonded(void) {
    if (geteuid() != 0)
        return BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_IPC_LOCK);
    uint64_t map_files = newest() & (BIT(CAP_CHECKPOINT_RESTORE) | BIT(CAP_SYS_ADMIN));
    return map_files | BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) |
           BIT(CAP_FOWNER) | BIT(CAP_KILL) | BIT(CAP_SETGID) | BIT(CAP_SETUID) |
           BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_IPC_LOCK) | BIT(CAP_SYS_PTRACE);
}

void capabilities_text(uint64_t set, char text[CAPABILITIES_TEXT]) {
    static const struct {
        int capability;
        const char *name;
    } names[] = {
        {CAP_PERFMON, "perfmon"},       {CAP_BPF, "bpf"},
        {CAP_SYS_PTRACE, "sys_ptrace"}, {CAP_SYSLOG, "syslog"},
        {CAP_SYS_ADMIN, "sys_admin"},
    };
    size_t len = 0;
    text[0] = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (set & BIT(names[i].capability))
            len += (size_t)snprintf(text + len, CAPABILITIES_TEXT - len, "%s%s", len ? "," : "",
                                    names[i].name);
    if (len == 0)
        memcpy(text, "none", sizeof "none");
}
