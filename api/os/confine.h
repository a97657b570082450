/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes from a running service the system calls it never makes, so that a bug in one of its parsers
 * cannot be used for them. Refused calls fail with EPERM. The kernel applies this to all threads
 * and to later children, for good. Neither the service nor a program it starts can gain privileges
 * by exec afterwards (PR_SET_NO_NEW_PRIVS). */
#ifndef SONDE_API_OS_CONFINE_H
#define SONDE_API_OS_CONFINE_H

#include "api/error.h"

enum confine_rights {
    /* Refuses to change mounts, namespaces, clocks, modules and keys, io_uring and the like. */
    CONFINE_SERVICE,
    /* For a program that only talks to sockets and reads files. It may also not start programs,
     * create processes, open files for writing, change users, or read or trace other processes. */
    CONFINE_FRONTEND,
    /* Like CONFINE_FRONTEND, but allows perf events and BPF: for the process that holds
     * capabilities for sonded. */
    CONFINE_SAMPLER,
    /* Refuses everything but perf_event_open, messages over open sockets, close, and the end of the
     * process. */
    CONFINE_OPENER,
};

/* Call this when all sockets are open. An error means that the kernel accepts no seccomp filter; a
 * service goes on without, and says so. In builds with sanitizers, which need some of these calls,
 * it does nothing. Thread safety: any thread, once. */
SONDE_MUST_USE sonde_err confine_process(enum confine_rights rights, struct sonde_diag *diag);

#endif
