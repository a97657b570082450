/* SPDX-License-Identifier: Apache-2.0
 *
 * All running sonded that this user may use: the machine's own and those of `sonde run`. They are
 * found by their sockets in the runtime directories, and asked which processes are attached to
 * them. Private ones of other commands are not found. Main thread only.
 *
 * Users look into /run/sonde, $XDG_RUNTIME_DIR/sonde or /run/user/UID/sonde, and /tmp/sonde-UID;
 * root into those of all users. If XDG_RUNTIME_DIR is another directory than /run/user/UID, only
 * that one and /run/sonde count. */
#ifndef SONDE_CLIENTS_CLI_SERVICES_H
#define SONDE_CLIENTS_CLI_SERVICES_H

#include "proto/sonde/v1/profiler.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define SERVICES_MAX 64

struct found_service {
    char address[128]; /* "unix:..." */
    uid_t uid;         /* who runs it */
    bool is_own;       /* of this user, or root's: it may know the token */
    bool is_of_run;    /* of a `sonde run`: it ends with its command */
    /* Set by services_ask. */
    bool answers;
    uint32_t targets; /* number of attached processes */
    uint32_t matches; /* how many of them the selector means */
    char names[160];  /* "redis-server 4711, web 4712, ..." */
    char nearest[64]; /* the name most like the selector's; "" = none is. Not safe to print */
};

struct found_services {
    struct found_service items[SERVICES_MAX]; /* own ones and the machine's first */
    size_t count;
    bool is_roots_forbidden; /* root's is running, but this user may not use it */
};

void services_find(struct found_services *found);

/* Asks all of them at once, and waits 2 seconds at most. What another user's sonded says of
 * processes that are not that user's does not count. `token` is sent to own services only. */
void services_ask(struct found_services *found, const Sonde__V1__TargetSelector *selector,
                  const char *token);

/* Prints a line for each: the option that picks it, and its targets. */
void services_print(const struct found_services *found, FILE *out);

/* The directories that services_find looks into, for messages: "/run/sonde, /tmp/sonde-1000". */
void services_describe_search(char *text, size_t size);

#endif
