/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/worker/confine.h"

#include "service/symbol/worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY       65534
#define MEMORY_BYTES ((rlim_t)2 << 30) /* on top of the files, which are mapped */
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

/* Inflated sections are mapped too, and may be many times larger than the file. */
static bool limit_memory(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true; /* their shadows need terabytes of addresses */
#endif
    rlim_t files = 0;
    for (int fd = SYMBOL_WORKER_MAIN; fd <= SYMBOL_WORKER_PACKAGE; fd++) {
        struct stat about;
        if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
            files += (rlim_t)about.st_size;
    }
    return set_limit(RLIMIT_AS, MEMORY_BYTES + 12 * files);
}

static bool set_limits(void) {
    return limit_memory() && set_limit(RLIMIT_CPU, SYMBOL_WORKER_CPU_SECONDS) &&
           set_limit(RLIMIT_FSIZE, OUT_BYTES) && set_limit(RLIMIT_CORE, 0);
}

/* Root becomes the owner of the file it reads, and nobody for root's own files: split DWARF has
 * the worker open other files by names that the file says. */
static bool drop_user(void) {
    struct stat about;
    if (geteuid() != 0)
        return true;
    bool owned = fstat(SYMBOL_WORKER_DWARF, &about) == 0 && about.st_uid != 0;
    uid_t user = owned ? about.st_uid : NOBODY;
    gid_t group = owned ? about.st_gid : NOBODY;
    return setgroups(0, NULL) == 0 && setresgid(group, group, group) == 0 &&
           setresuid(user, user, user) == 0;
}

#define ALLOW(name)                                        \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* The flags of open and openat are their 2nd and 3rd argument: reading only. */
#define ALLOW_READING(name, argument)                                                      \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 4),                                 \
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[argument])), \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC, 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),                              \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static bool set_filter(void) {
    static struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(read),
        ALLOW(pread64),
        ALLOW(write),
        ALLOW(lseek),
        ALLOW(mmap),
        ALLOW(munmap),
        ALLOW(mremap),
        ALLOW(mprotect),
        ALLOW(madvise),
        ALLOW(brk),
        ALLOW(fstat),
        ALLOW(newfstatat),
        ALLOW(ftruncate),
        ALLOW(close),
        ALLOW(futex),
        ALLOW(getrandom),
        ALLOW(clock_gettime),
        ALLOW(rt_sigreturn),
        ALLOW(exit),
        ALLOW(exit_group),
        ALLOW_READING(openat, 2),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

bool symbol_confine(void) {
    /* The death signal comes after the change of user, which would clear it. */
    return set_limits() && drop_user() && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
           prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && set_filter();
}
