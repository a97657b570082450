/* SPDX-License-Identifier: Apache-2.0
 *
 * Jumps of such a program only go forward, so one pass over the instructions finds all that can be
 * reached. Along the way the accumulator is known as long as it depends on nothing but constants,
 * the number of the call and the architecture. Where it is not known, both ways of a jump are
 * taken. The instructions and what they return: Documentation/networking/filter.rst and
 * Documentation/userspace-api/seccomp_filter.rst of Linux. */
#include "service/guest/process/seccomp_program.h"

#include "service/guest/raw.h"
#include "service/guest/signal/bounds.h"

#include <linux/audit.h>
#include <linux/bpf_common.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

/* All that the guest and the libc functions in it call, perf_event_open apart. */
static const uint16_t guest_calls[] = {
    SYSTEM_GUEST_CALLS,
    SYS_brk,
    SYS_capget,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_clone,
    SYS_clone3,
    SYS_close,
    SYS_close_range,
    SYS_connect,
    SYS_exit,
    SYS_fallocate,
    SYS_fcntl,
    SYS_fstat,
    SYS_fstatfs,
    SYS_ftruncate,
    SYS_futex,
    SYS_getdents64,
    SYS_geteuid,
    SYS_getpid,
    SYS_getppid,
    SYS_getrandom,
    SYS_getrlimit,
    SYS_getsockopt,
    SYS_gettid,
    SYS_inotify_add_watch,
    SYS_inotify_init1,
    SYS_ioctl,
    SYS_lseek,
    SYS_madvise,
    SYS_memfd_create,
    SYS_mmap,
    SYS_mprotect,
    SYS_munmap,
    SYS_nanosleep,
    SYS_newfstatat,
    SYS_openat,
    SYS_ppoll,
    SYS_prctl,
    SYS_pread64,
    SYS_prlimit64,
    SYS_process_vm_readv,
    SYS_pwrite64,
    SYS_read,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_rseq,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigtimedwait,
    SYS_rt_tgsigqueueinfo,
    SYS_sched_getaffinity,
    SYS_sched_yield,
    SYS_sendmsg,
    SYS_sendto,
    SYS_set_robust_list,
    SYS_setitimer,
    SYS_setsockopt,
    SYS_socket,
    SYS_socketpair,
    SYS_tgkill,
    SYS_timer_create,
    SYS_timer_delete,
    SYS_timer_settime,
    SYS_uname,
    SYS_wait4,
    SYS_waitid,
    SYS_write,
};

struct state {
    uint8_t is_reached, is_known;
    uint32_t a; /* the accumulator, if it is known */
};

/* Another way to the instruction at `to`. False: there is no such instruction. */
static bool reach(struct state *states, uint32_t count, uint64_t to, const struct state *from) {
    if (to >= count)
        return false;
    struct state *state = &states[to];
    if (!state->is_reached)
        *state = *from;
    else if (!from->is_known || state->a != from->a)
        state->is_known = false;
    return true;
}

static bool jumps(uint16_t code, uint32_t a, uint32_t k) {
    switch (BPF_OP(code)) {
    case BPF_JEQ:
        return a == k;
    case BPF_JGT:
        return a > k;
    case BPF_JGE:
        return a >= k;
    default:
        return a & k;
    }
}

static bool reach_by_jump(struct state *states, uint32_t count, uint32_t at,
                          const struct sock_filter *step) {
    const struct state *from = &states[at];
    uint64_t next = (uint64_t)at + 1;
    if (BPF_OP(step->code) == BPF_JA)
        return reach(states, count, next + step->k, from);
    bool is_known = from->is_known && BPF_SRC(step->code) == BPF_K;
    bool is_taken = is_known && jumps(step->code, from->a, step->k);
    return ((is_known && !is_taken) || reach(states, count, next + step->jt, from)) &&
           (is_taken || reach(states, count, next + step->jf, from));
}

static void load(struct state *state, uint32_t number, const struct sock_filter *step) {
    bool is_data = BPF_MODE(step->code) == BPF_ABS;
    bool is_number = is_data && step->k == offsetof(struct seccomp_data, nr);
    bool is_arch = is_data && step->k == offsetof(struct seccomp_data, arch);
    state->is_known = is_number || is_arch || BPF_MODE(step->code) == BPF_IMM;
    state->a = is_number ? number : is_arch ? SYSTEM_AUDIT_ARCH : step->k;
}

static void step_over(struct state *state, uint32_t number, const struct sock_filter *step) {
    switch (BPF_CLASS(step->code)) {
    case BPF_LD:
        load(state, number, step);
        break;
    case BPF_ALU:
        state->is_known = state->is_known && step->code == (BPF_ALU | BPF_AND | BPF_K);
        state->a &= step->k;
        break;
    case BPF_MISC:
        state->is_known = state->is_known && BPF_MISCOP(step->code) == BPF_TAX;
        break;
    }
}

static bool is_harm(uint32_t number, uint16_t code, uint32_t result) {
    uint32_t action = result & SECCOMP_RET_ACTION_FULL;
    if (BPF_RVAL(code) != BPF_K)
        return true;
    if (action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG)
        return false;
    return action != SECCOMP_RET_ERRNO || number == SYS_rt_sigreturn;
}

static bool harms(const struct sock_fprog *program, uint32_t number, struct state *states) {
    for (uint32_t i = 0; i < program->len; i++)
        states[i] = (struct state){.is_reached = i == 0};
    for (uint32_t i = 0; i < program->len; i++) {
        const struct sock_filter *step = &program->filter[i];
        bool is_jump = BPF_CLASS(step->code) == BPF_JMP;
        if (!states[i].is_reached)
            continue;
        if (BPF_CLASS(step->code) == BPF_RET) {
            if (is_harm(number, step->code, step->k))
                return true;
            continue;
        }
        struct state after = states[i];
        step_over(&after, number, step);
        if (is_jump ? !reach_by_jump(states, program->len, i, step)
                    : !reach(states, program->len, (uint64_t)i + 1, &after))
            return true;
    }
    return false;
}

/* A program may pass NULL, or any address, to find out what the kernel offers. */
static bool is_readable(const void *from, size_t bytes) {
    uint64_t start = (uint64_t)from, end = start + bytes;
    return start && end > start && bounds_probe(start, end) >= end;
}

bool seccomp_program_harms(const struct sock_fprog *program, bool with_perf) {
    if (!is_readable(program, sizeof *program) || program->len == 0 ||
        program->len > BPF_MAXINSNS ||
        !is_readable(program->filter, program->len * sizeof *program->filter))
        return true;
    size_t bytes = program->len * sizeof(struct state);
    struct state *states =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (states == MAP_FAILED)
        return true;
    bool result = with_perf && harms(program, SYS_perf_event_open, states);
    for (size_t i = 0; i < sizeof guest_calls / sizeof *guest_calls && !result; i++)
        result = harms(program, guest_calls[i], states);
    munmap(states, bytes);
    return result;
}
