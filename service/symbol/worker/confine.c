/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/worker/confine.h"

#include "service/symbol/worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY       65534
#define MEMORY_BYTES ((rlim_t)2 << 30) /* beyond the input files, which are mapped */
#define OUT_BYTES    ((rlim_t)16 << 30)

static bool set_limit(int what, rlim_t most) {
    struct rlimit limit;
    if (getrlimit(what, &limit) != 0)
        return false;
    if (limit.rlim_max < most)
        most = limit.rlim_max;
    limit = (struct rlimit){most, most};
    return setrlimit(what, &limit) == 0;
}

/* Decompressed sections are mapped, too, and may be many times larger than the file. */
static bool limit_memory(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true; /* shadow memory takes terabytes of address space */
#endif
    rlim_t files = 0;
    for (int fd = SYMBOL_WORKER_MAIN; fd <= SYMBOL_WORKER_PACKAGE; fd++) {
        struct stat info;
        if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
            files += (rlim_t)info.st_size;
    }
    return set_limit(RLIMIT_AS, MEMORY_BYTES + 12 * files);
}

static bool set_limits(void) {
    return limit_memory() && set_limit(RLIMIT_CPU, SYMBOL_WORKER_CPU_SECONDS) &&
           set_limit(RLIMIT_FSIZE, OUT_BYTES) && set_limit(RLIMIT_CORE, 0);
}

/* The worker runs as the owner of the file it reads (as nobody if that is root), because with split
 * DWARF the file names other files to open. */
static bool drop_user(void) {
    struct stat info;
    if (geteuid() != 0)
        return true;
    bool owned = fstat(SYMBOL_WORKER_DWARF, &info) == 0 && info.st_uid != 0;
    uid_t user = owned ? info.st_uid : NOBODY;
    gid_t group = owned ? info.st_gid : NOBODY;
    return setgroups(0, NULL) == 0 && setresgid(group, group, group) == 0 &&
           setresuid(user, user, user) == 0;
}

/* The system calls of the worker and of the C library while they read files and build a table. */
static const int allowed[] = {
    SCMP_SYS(read),      SCMP_SYS(pread64),       SCMP_SYS(write),        SCMP_SYS(lseek),
    SCMP_SYS(mmap),      SCMP_SYS(munmap),        SCMP_SYS(mremap),       SCMP_SYS(mprotect),
    SCMP_SYS(madvise),   SCMP_SYS(brk),           SCMP_SYS(fstat),        SCMP_SYS(newfstatat),
    SCMP_SYS(ftruncate), SCMP_SYS(close),         SCMP_SYS(futex),        SCMP_SYS(getrandom),
    SCMP_SYS(exit),      SCMP_SYS(clock_gettime), SCMP_SYS(rt_sigreturn), SCMP_SYS(exit_group),
};
#define CHANGES_FILES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)

/* Other calls fail with EPERM, so that a library can try something else. A call through another
 * table of system calls (32-bit, x32), whose numbers mean other things, kills the process. */
static bool set_filter(void) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    bool set = filter &&
               seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0 &&
               seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
                                SCMP_A2(SCMP_CMP_MASKED_EQ, CHANGES_FILES, 0)) == 0;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        set = set && seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0) == 0;
    set = set && seccomp_load(filter) == 0; /* sets PR_SET_NO_NEW_PRIVS, too */
    seccomp_release(filter);
    return set;
}

bool symbol_confine(void) {
    /* A change of user clears the parent-death signal, so set that afterwards. */
    return set_limits() && drop_user() && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
           prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && set_filter();
}
