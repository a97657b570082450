/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the off-CPU program into the kernel and attaches it. Only this needs CAP_BPF and
 * CAP_PERFMON (as root: nothing else), so the sampler process can do it for sonded: the result is a
 * few descriptors, and their holder needs no rights. The program runs until the last copy of
 * OFF_CPU_LINK is closed. Requires Linux 5.15 with BTF. Any thread. */
#ifndef SONDE_SERVICE_HOST_BPF_OFF_CPU_LOAD_H
#define SONDE_SERVICE_HOST_BPF_OFF_CPU_LOAD_H

#include <stdbool.h>
#include <stdint.h>

enum off_cpu_fd {
    OFF_CPU_CONTROL = 0, /* see off_cpu_shared.h */
    OFF_CPU_SLOT_ARRAY,
    OFF_CPU_RING,
    OFF_CPU_LINK,
    OFF_CPU_FDS
};

/* Plain numbers that both sides check. */
struct off_cpu_spec {
    uint32_t slot_count;  /* a power of two, 64 to OFF_CPU_SLOTS */
    uint32_t stack_bytes; /* OFF_CPU_MIN_STACK to OFF_CPU_MAX_STACK, a multiple of 8 */
    uint32_t ring_bytes;  /* a power of two, 64 KiB to 64 MiB */
    uint64_t namespace_device, namespace_inode; /* of the reader's pid namespace; 0 = the first */
};

/* Returns 0 with descriptors (close-on-exec), which the caller closes, or -errno: EINVAL for an
 * invalid spec, EPERM, ENOENT or EOPNOTSUPP where the kernel lacks BTF or a helper. */
int off_cpu_load(const struct off_cpu_spec *spec, int fds[OFF_CPU_FDS]);
/* Whether this kernel takes the program from this process: loads it and removes it again, without
 * attaching it. Takes some milliseconds. 0 or -errno, as above. */
int off_cpu_try(void);

#endif
