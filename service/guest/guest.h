/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest as a whole: how it starts in a process, survives a fork, and ends. One control thread,
 * with all signals masked, does everything except ticks: it talks to sonded, watches mappings and
 * threads, and sends accounts. While nobody profiles, it sleeps in one poll without a timeout. */
#ifndef SONDE_SERVICE_GUEST_GUEST_H
#define SONDE_SERVICE_GUEST_GUEST_H

#include "api/version.h"
#include "service/guest/process/fds.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GUEST_VERSION      SONDE_VERSION
#define GUEST_PATH_BYTES   108 /* of sockaddr_un */
#define GUEST_NAME_BYTES   64
#define GUEST_LABELS_BYTES 1024
#define GUEST_STACK        (64u << 10) /* of the control thread, if that suffices */

enum guest_state {
    GUEST_OFF,
    GUEST_AWAY,    /* not connected */
    GUEST_REFUSED, /* one side has refused the connection */
    GUEST_IDLE,
    GUEST_PREPARING,
    GUEST_RUNNING
};

struct guest {
    char socket_path[GUEST_PATH_BYTES]; /* "@name" = abstract */
    char name[GUEST_NAME_BYTES];        /* from the options, SONDE_NAME or, at the start, argv[0] */
    char labels[GUEST_LABELS_BYTES];    /* SONDE_LABELS, cut if it is longer */
    struct fds_file wake;               /* readable: the control thread has something to do */
    _Atomic bool stopping;
    _Atomic bool suspending;  /* the control thread is to end, and another will continue */
    _Atomic bool reread_maps; /* a library was closed */
    _Atomic bool keeps_maps;  /* capture_keep_maps */
    _Atomic uint32_t state;   /* enum guest_state */
    char refusal[160];
    uint32_t start_delay_ms; /* a process that ends before never connects */
    bool is_shell;           /* it does not connect while it waits for a child */
};

extern struct guest guest __attribute__((visibility("hidden")));

/* Creates the control thread; 0 or EAGAIN. guest.socket_path and guest.name are set before. The
 * caller holds the lock of start.c, or is the only thread. */
int guest_start(uint32_t delay_ms);
/* In the child, right after fork has returned there: creates a control thread if the parent had
 * one. Preserves errno. */
void guest_restart_after_fork(void);
/* Opens guest.wake and the end that handler_wake_control writes to, again if the application has
 * closed them. Returns false if no descriptor is free. Control thread, or before there is one. */
bool guest_make_wake(void);

/* Whether the calling thread's capabilities differ from the control thread's; false when there is
 * no control thread. Any thread. */
bool guest_capabilities_differ(void);
/* Ends the control thread, whose state stays; false when there is none. Blocks starts, stops and
 * other suspensions until the same thread calls guest_resume_control. That creates a new control
 * thread, with the caller's capabilities, which continues. Not signal-safe. */
bool guest_suspend_control(void);
void guest_resume_control(void);
/* Before a filter for all threads, which may kill the control thread: ends the guest for good, in
 * the children of forks as well. Returns whether it was running; guest_come_back takes that if
 * there is no filter after all. Not signal-safe. */
bool guest_leave(void);
void guest_come_back(bool was_running);
/* Before a chroot hides the socket's path: lets a control thread that has not connected yet connect
 * at once, and waits for that up to 50 ms. Preserves errno. Any thread. */
void guest_connect_now(void);
/* pthread_create for a thread that is not sampled (hooks/thread_hooks.c). */
int guest_create_thread(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                        void *argument);

/* The body of the control thread (control.c). Returns when guest.stopping or guest.suspending is
 * set. */
void control_run(void);
/* Ends what a suspended control thread left, when no new one could be created. */
void control_end(void);
/* In the child of a fork: forgets connection, rings and maps. */
void control_after_fork(void);

#endif
