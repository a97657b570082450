/* SPDX-License-Identifier: Apache-2.0
 *
 * The capabilities of the calling thread, a bit each (CAP_... of <linux/capability.h>). A thread
 * passes its own on to those it starts, so sonded and the sampler limit them before they start
 * any. */
#ifndef SONDE_SERVICE_HOST_SAMPLER_CAPABILITIES_H
#define SONDE_SERVICE_HOST_SAMPLER_CAPABILITIES_H

#include <stdbool.h>
#include <stdint.h>

uint64_t capabilities_held(void); /* in effect */
uint64_t capabilities_permitted(void);
/* Gives up all others for good: a program that this process starts cannot get them back, if this
 * process may lower its bounding set (CAP_SETPCAP). False: the kernel refused. */
bool capabilities_keep(uint64_t kept);
/* The same, but `spare` stays permitted without being in effect: only a process that this one forks
 * can use it, after capabilities_use_only. */
bool capabilities_keep_spare(uint64_t kept, uint64_t spare);
/* Puts `used` into effect and gives up all others. False: one of them is not permitted, or the
 * kernel refused. */
bool capabilities_use_only(uint64_t used);

/* What the sampler needs, and what sonded needs when a sampler does the rest. Root's sonded opens
 * files as other users, reads and stops targets, and gives sockets away. */
uint64_t capabilities_of_sampler(void);
/* What the sampler's opener (opener.h) needs: CAP_SYS_ADMIN. */
uint64_t capabilities_of_opener(void);
uint64_t capabilities_of_sonded(void);

/* Names as setcap takes them, separated by commas: those of the sampler. */
#define CAPABILITIES_OF_SAMPLER \
    "cap_perfmon,cap_bpf,cap_sys_ptrace,cap_syslog,cap_dac_read_search,cap_checkpoint_restore"

#define CAPABILITIES_TEXT 64
/* Those of a set that sampling asks for, for messages: "perfmon,bpf", or "none". */
void capabilities_text(uint64_t set, char text[CAPABILITIES_TEXT]);

#endif
