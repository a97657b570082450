/* SPDX-License-Identifier: Apache-2.0
 *
 * The capabilities of the calling thread, a bit each (CAP_... of <linux/capability.h>). A thread
 * passes its own on to those it starts, so sonded and the sampler limit them before they start
 * any. */
#ifndef SONDE_SERVICE_HOST_SAMPLER_CAPABILITIES_H
#define SONDE_SERVICE_HOST_SAMPLER_CAPABILITIES_H

#include <stdbool.h>
#include <stdint.h>

uint64_t capabilities_held(void);
/* Gives up all others for good: a program that this process starts cannot get them back, if this
 * process may lower its bounding set (CAP_SETPCAP). False: the kernel refused. */
bool capabilities_keep(uint64_t kept);

/* What the sampler needs, and what sonded needs when a sampler does the rest. Root's sonded opens
 * files as other users, reads and stops targets, and gives sockets away. */
uint64_t capabilities_of_sampler(void);
uint64_t capabilities_of_sonded(void);

/* Names as setcap takes them, separated by commas: those of the sampler. */
#define CAPABILITIES_OF_SAMPLER \
    "cap_perfmon,cap_bpf,cap_sys_ptrace,cap_syslog,cap_dac_read_search,cap_checkpoint_restore"

#endif
