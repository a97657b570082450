/* SPDX-License-Identifier: Apache-2.0
 *
 * setuid and its relatives, and capset. libc changes ids in every thread and aborts the process
 * when the change is allowed in one thread and refused in another. The control thread would be such
 * a thread if the server keeps capabilities across the change, because PR_SET_KEEPCAPS and capset
 * act on the calling thread only. So if the caller's capabilities differ from the control thread's,
 * the control thread ends before the change, and afterwards a new one continues its work with the
 * caller's capabilities. Connection, captures and samples stay.
 *
 * Not signal-safe in that case: the call joins a thread. In the child of a vfork it does
 * nothing. */
#include "service/guest/guest.h"
#include "service/guest/hooks/hooks.h"
#include "service/guest/libc.h"
#include "service/guest/raw.h"

#include <errno.h>
#include <grp.h>
#include <sys/types.h>
#include <unistd.h>

/* Returns whether the control thread has been suspended. */
static bool begin_change(void) {
    return guest_capabilities_differ() && guest_suspend_control();
}

static void end_change(bool is_suspended) {
    int saved = errno;
    if (!is_suspended)
        is_suspended = guest_capabilities_differ() && guest_suspend_control();
    if (is_suspended)
        guest_resume_control();
    errno = saved;
}

/* libc's functions are looked up when the library is loaded: in the child of a fork dlsym might
 * wait for a lock that nobody releases. */
#define CHANGES(name, parameters, ...)         \
    static int(*real_##name) parameters;       \
    HOOK int name parameters {                 \
        if (!real_##name)                      \
            find_real();                       \
        if (!real_##name) {                    \
            errno = ENOSYS;                    \
            return -1;                         \
        }                                      \
        bool is_suspended = begin_change();    \
        int result = real_##name(__VA_ARGS__); \
        end_change(is_suspended);              \
        return result;                         \
    }

typedef void *pointer; /* the types of capset's parameters */

static void find_real(void);

CHANGES(setuid, (uid_t id), id)
CHANGES(setgid, (gid_t id), id)
CHANGES(seteuid, (uid_t id), id)
CHANGES(setegid, (gid_t id), id)
CHANGES(setreuid, (uid_t real, uid_t effective), real, effective)
CHANGES(setregid, (gid_t real, gid_t effective), real, effective)
CHANGES(setresuid, (uid_t real, uid_t effective, uid_t saved), real, effective, saved)
CHANGES(setresgid, (gid_t real, gid_t effective, gid_t saved), real, effective, saved)
CHANGES(setgroups, (size_t count, const gid_t *groups), count, groups)
CHANGES(initgroups, (const char *user, gid_t group), user, group)
HOOK int capset(pointer header, const pointer data);
CHANGES(capset, (pointer header, const pointer data), header, data)

#define FIND(name) real_##name = (__typeof__(real_##name))libc_find_next(#name)

__attribute__((constructor(101))) static void find_real(void) {
    FIND(setuid);
    FIND(setgid);
    FIND(seteuid);
    FIND(setegid);
    FIND(setreuid);
    FIND(setregid);
    FIND(setresuid);
    FIND(setresgid);
    FIND(setgroups);
    FIND(initgroups);
    FIND(capset);
}
