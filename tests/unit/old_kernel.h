/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes this process see what it would see on an older kernel. */
#ifndef SONDE_TESTS_UNIT_OLD_KERNEL_H
#define SONDE_TESTS_UNIT_OLD_KERNEL_H

#include <errno.h>
#include <seccomp.h>
#include <stdbool.h>
#include <sys/mman.h>

/* Before Linux 6.7, mmap of sealed memory with MAP_SHARED fails with EPERM, even for reading. The
 * filter cannot see whether memory is sealed, so it refuses all shared mappings for reading. For
 * good: call it in a child. False: the kernel accepts no filter. */
static inline bool old_kernel_refuse_shared_maps(void) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int result = filter ? seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap), 2,
                                           SCMP_A2(SCMP_CMP_EQ, PROT_READ),
                                           SCMP_A3(SCMP_CMP_MASKED_EQ, 3, MAP_SHARED))
                        : -ENOMEM;
    if (result == 0)
        result = seccomp_load(filter);
    seccomp_release(filter);
    return result == 0;
}

#endif
