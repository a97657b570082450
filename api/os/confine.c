/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>

/* What no part of Sonde does. */
static const int never[] = {
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(move_mount),
    SCMP_SYS(open_tree),
    SCMP_SYS(fsopen),
    SCMP_SYS(fsconfig),
    SCMP_SYS(fsmount),
    SCMP_SYS(fspick),
    SCMP_SYS(mount_setattr),
    SCMP_SYS(setns),
    SCMP_SYS(unshare),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(reboot),
    SCMP_SYS(swapon),
    SCMP_SYS(swapoff),
    SCMP_SYS(acct),
    SCMP_SYS(quotactl),
    SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime),
    SCMP_SYS(clock_adjtime),
    SCMP_SYS(adjtimex),
    SCMP_SYS(sethostname),
    SCMP_SYS(setdomainname),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(keyctl),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(io_uring_register),
    SCMP_SYS(io_uring_enter),
    SCMP_SYS(iopl),
    SCMP_SYS(ioperm),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(personality),
    SCMP_SYS(syslog),
    SCMP_SYS(vhangup),
    SCMP_SYS(mknod),
    SCMP_SYS(mknodat),
    SCMP_SYS(modify_ldt),
    SCMP_SYS(name_to_handle_at),
};

/* What only the part behind the frontend does. */
static const int never_in_frontend[] = {
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    SCMP_SYS(fork),
    SCMP_SYS(vfork),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(kcmp),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(process_madvise),
    SCMP_SYS(setuid),
    SCMP_SYS(setgid),
    SCMP_SYS(setreuid),
    SCMP_SYS(setregid),
    SCMP_SYS(setresuid),
    SCMP_SYS(setresgid),
    SCMP_SYS(setfsuid),
    SCMP_SYS(setfsgid),
    SCMP_SYS(setgroups),
    SCMP_SYS(capset),
    SCMP_SYS(creat),
    SCMP_SYS(truncate),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(link),
    SCMP_SYS(linkat),
    SCMP_SYS(symlink),
    SCMP_SYS(symlinkat),
    SCMP_SYS(mkdir),
    SCMP_SYS(mkdirat),
    SCMP_SYS(chmod),
    SCMP_SYS(fchmodat),
    SCMP_SYS(chown),
    SCMP_SYS(lchown),
    SCMP_SYS(fchownat),
    SCMP_SYS(setxattr),
    SCMP_SYS(lsetxattr),
    SCMP_SYS(memfd_create),
};

/* What only the sampler does besides. */
static const int only_in_sampler[] = {SCMP_SYS(perf_event_open), SCMP_SYS(bpf)};

/* All that the sampler's opener does. */
static const int opener[] = {
    SCMP_SYS(perf_event_open), SCMP_SYS(recvfrom),   SCMP_SYS(recvmsg), SCMP_SYS(sendmsg),
    SCMP_SYS(close),           SCMP_SYS(exit_group), SCMP_SYS(exit),    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(restart_syscall),
};

static bool allow_all(scmp_filter_ctx filter, const int *calls, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0) != 0)
            return false;
    return true;
}

static bool refuse_all(scmp_filter_ctx filter, const int *calls, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), calls[i], 0) != 0)
            return false;
    return true;
}

/* Opening for writing, by either call. openat2 has its flags in memory, where a filter cannot see
 * them: ENOSYS makes a caller use openat. */
static bool refuse_writing(scmp_filter_ctx filter) {
    static const unsigned long flags[] = {O_WRONLY, O_RDWR, O_CREAT, O_TRUNC};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        struct scmp_arg_cmp in_open = SCMP_A1(SCMP_CMP_MASKED_EQ, flags[i], flags[i]);
        struct scmp_arg_cmp in_openat = SCMP_A2(SCMP_CMP_MASKED_EQ, flags[i], flags[i]);
        if (seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(open), 1, &in_open) ||
            seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(openat), 1, &in_openat))
            return false;
    }
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(openat2), 0) == 0;
}

/* Threads may still be created. clone3 has its flags in memory, too; libc then uses clone. */
static bool refuse_processes(scmp_filter_ctx filter) {
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                            SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)) == 0 &&
           seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0;
}

static bool add_rules(scmp_filter_ctx filter, enum confine_rights rights) {
    if (seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) != 0 ||
        seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)) != 0)
        return false;
    if (rights == CONFINE_OPENER)
        return allow_all(filter, opener, sizeof opener / sizeof *opener);
    return refuse_all(filter, never, sizeof never / sizeof *never) &&
           (rights == CONFINE_SERVICE ||
            (refuse_all(filter, never_in_frontend,
                        sizeof never_in_frontend / sizeof *never_in_frontend) &&
             (rights == CONFINE_SAMPLER ||
              refuse_all(filter, only_in_sampler,
                         sizeof only_in_sampler / sizeof *only_in_sampler)) &&
             refuse_writing(filter) && refuse_processes(filter)));
}

sonde_err confine_process(enum confine_rights rights, struct sonde_diag *diag) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return SONDE_OK;
#endif
    scmp_filter_ctx filter =
        seccomp_init(rights == CONFINE_OPENER ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW);
    bool is_built = filter && add_rules(filter, rights);
    int result = is_built ? seccomp_load(filter) : 0;
    seccomp_release(filter);
    if (!is_built)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "cannot build the seccomp filter");
    return result == 0 ? SONDE_OK
                       : sonde_fail_os(diag, -result, "the kernel accepts no seccomp filter");
}
