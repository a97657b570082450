/* SPDX-License-Identifier: Apache-2.0
 *
 * setuid and its kin, and capset: a server that gives up its privileges does so without us. libc
 * changes ids in every thread, and aborts the process when one thread may and another may not. Our
 * thread would be such another where the server keeps capabilities across the change
 * (PR_SET_KEEPCAPS and capset concern the calling thread alone). So where the caller's rights
 * differ from our thread's, our thread ends before the change, and another goes on in its place
 * afterwards, with the caller's rights. Nothing else of the guest notices: connection, captures and
 * samples stay.
 *
 * Not for handlers: the call then joins a thread. In the child of a vfork it does nothing. */
#include "service/guest/guest.h"
#include "service/guest/raw.h"

#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Before a change: whether our thread was sent away. */
static bool begin(void) {
    return guest_capabilities_differ() && guest_suspend_control();
}

static void end(bool is_aside) {
    int saved = errno;
    if (!is_aside)
        is_aside = guest_capabilities_differ() && guest_suspend_control();
    if (is_aside)
        guest_resume_control();
    errno = saved;
}

/* libc's own are found as the library is loaded: in the child of a fork dlsym might wait for a lock
 * that nobody will release. */
#define CHANGES(name, parameters, ...)         \
    static int(*real_##name) parameters;       \
    EXPORT int name parameters {               \
        if (!real_##name)                      \
            find_real();                       \
        if (!real_##name) {                    \
            errno = ENOSYS;                    \
            return -1;                         \
        }                                      \
        bool is_aside = begin();               \
        int result = real_##name(__VA_ARGS__); \
        end(is_aside);                         \
        return result;                         \
    }

typedef void *pointer; /* capset's two */

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
EXPORT int capset(pointer header, const pointer data);
CHANGES(capset, (pointer header, const pointer data), header, data)

#define FIND(name) real_##name = (__typeof__(real_##name))dlsym(RTLD_NEXT, #name)

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
