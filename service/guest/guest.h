/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest as a whole: how it starts in a process, survives a fork, and ends. One control thread
 * with all signals masked does everything that is not a tick: it talks to sonded, watches maps and
 * threads, sends accounts. While nobody profiles it sleeps in one poll without a timeout. */
#ifndef SONDE_SERVICE_GUEST_GUEST_H
#define SONDE_SERVICE_GUEST_GUEST_H

#include "service/guest/process/fds.h"

#include <limits.h>
#include <pthread.h>
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
    _Atomic bool suspending; /* the thread ends, and another goes on where it stood */
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
/* What handler_wake_control wakes through; made anew by the control thread when the host has closed
 * it. False: no descriptors left. */
bool guest_make_wake(void);

/* Whether the calling thread's rights (rights.h) are others than the control thread's; false when
 * there is none. */
bool guest_capabilities_differ(void);
/* Sends the control thread away; false when there was none. No start, stop or other stepping aside
 * happens until the same thread has called guest_resume_control, which makes another, with the
 * caller's rights, that goes on in its place. */
bool guest_suspend_control(void);
void guest_resume_control(void);
/* Lets a control thread that is still waiting to begin connect at once, and waits for it, 50 ms at
 * most: the socket's path will be out of sight. */
void guest_connect_now(void);
/* pthread_create without a clock for the new thread (interpose.c). */
int guest_create_thread(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                        void *argument);

/* Body of the control thread (control.c): returns when guest.stopping or guest.suspending. */
void control_run(void);
/* Ends what a thread left when it stepped aside and none could be made in its place. */
void control_end(void);
/* In the child of a fork: forgets connection, rings, maps. */
void control_after_fork(void);

#endif
