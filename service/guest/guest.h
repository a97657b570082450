/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest as a whole: how it starts in a process, survives a fork, and ends. One control thread
 * with all signals masked does everything that is not a tick: it talks to sonded, watches maps and
 * threads, sends accounts. While nobody profiles it sleeps in one poll without a timeout. */
#ifndef SONDE_SERVICE_GUEST_GUEST_H
#define SONDE_SERVICE_GUEST_GUEST_H

#include "service/guest/fds.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GUEST_VERSION    "0.1.0"
#define GUEST_PATH_BYTES 108 /* of sockaddr_un */
#define GUEST_NAME_BYTES 64
#define GUEST_STACK      (64u << 10)

enum guest_state {
    GUEST_OFF,
    GUEST_AWAY,
    GUEST_REFUSED,
    GUEST_IDLE,
    GUEST_PREPARING,
    GUEST_RUNNING
};

struct guest {
    char socket_path[GUEST_PATH_BYTES]; /* "@name" = abstract */
    char name[GUEST_NAME_BYTES]; /* of the options, SONDE_NAME, or argv[0]'s base at the start */
    struct fds_file wake;        /* wakes the control thread: stop, a miss, a closed library */
    _Atomic bool stopping;
    _Atomic bool reread_maps;
    _Atomic bool keeps_maps; /* capture_keep_maps */
    _Atomic uint32_t state;  /* enum guest_state */
    char refusal[128];
    uint32_t start_delay_ms; /* a process that ends sooner never appears */
};

extern struct guest guest __attribute__((visibility("hidden")));

/* Makes the control thread; 0 or an errno. guest.socket_path and name are set. */
int guest_start(uint32_t delay_ms);
/* In the child right after fork returned there: a control thread of its own, when the parent had
 * one. */
void guest_restart_after_fork(void);
/* What room_wake wakes through; made anew by the control thread when the host has closed it. False:
 * no descriptors left. */
bool guest_make_wake(void);

/* Body of the control thread (control.c): returns when guest.stopping. */
void control_run(void);
/* In the child of a fork: forgets connection, rings, maps. */
void control_after_fork(void);

#endif
