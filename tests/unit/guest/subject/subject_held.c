/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs of threads that no tick may reach: small alternate signal stacks and seccomp filters. */
#include "tests/unit/guest/subject/subject.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static long raw(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

/* ---- small_altstack ---- */

#define AREA      65536
#define HEADROOM  512 /* left below the kernel's frame: enough for a handler that does nothing */
#define PATTERN   0xa5
#define LEAST     2048 /* the kernel takes no smaller alternate stack */
#define BURNED_MS 800

static uint64_t context_at;

static void note_context(int number, siginfo_t *info, void *context) {
    context_at = (uint64_t)context;
}

/* The size of the kernel's frame on this CPU. */
static size_t frame_bytes(void) {
    static char stack[AREA];
    stack_t large = {.ss_sp = stack, .ss_size = sizeof stack}, none = {.ss_flags = SS_DISABLE};
    struct sigaction action = {.sa_sigaction = note_context, .sa_flags = SA_ONSTACK | SA_SIGINFO};
    sigaltstack(&large, NULL);
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
    sigaltstack(&none, NULL);
    return (size_t)((uint64_t)stack + sizeof stack - context_at + sizeof(uint64_t));
}

static unsigned char area[AREA];

static void *burn_on_small_stack(void *past_libc) {
    size_t bytes = frame_bytes() + HEADROOM;
    stack_t small = {.ss_sp = area + AREA / 2, .ss_size = bytes > LEAST ? bytes : LEAST};
    stack_t none = {.ss_flags = SS_DISABLE};
    memset(area, PATTERN, AREA / 2);
    if (past_libc ? raw(SYS_sigaltstack, (long)&small, 0, 0) : sigaltstack(&small, NULL))
        abort();
    subject_work(BURNED_MS * SUBJECT_MS);
    if (past_libc ? raw(SYS_sigaltstack, (long)&none, 0, 0) : sigaltstack(&none, NULL))
        abort();
    subject_work(BURNED_MS * SUBJECT_MS);
    return (void *)syscall(SYS_gettid);
}

/* Prints its tid and how many bytes below the stack were written. */
void verb_small_altstack(int past_libc) {
    pthread_t thread;
    void *tid;
    subject_say("ready", 0, 0);
    subject_wait();
    pthread_create(&thread, NULL, burn_on_small_stack, past_libc ? area : NULL);
    pthread_join(thread, &tid);
    int touched = 0;
    for (int i = 0; i < AREA / 2; i++)
        touched += area[i] != PATTERN;
    subject_say("touched", (long long)(intptr_t)tid, touched);
    subject_wait();
}

/* ---- smallest_altstack ---- */

#define ARCH_REQ_XCOMP_PERM 0x1023
#define TILE_DATA           18

/* The stack that Rust gives each thread: the kernel's largest frame, or 8 KiB. */
static size_t smallest_stack(void) {
    size_t bytes = getauxval(AT_MINSIGSTKSZ);
    return bytes > 8192 ? bytes : 8192;
}

/* From here on the kernel saves the tiles of this thread. */
static void use_tiles(void) {
    static const unsigned char config[64] = {[0] = 1, [16] = 64, [48] = 16};
    __asm__ volatile("ldtilecfg %0\n\ttilezero %%tmm0" ::"m"(config));
}

static void *burn_on_smallest_stack(void *with_tiles) {
    stack_t small = {.ss_sp = area + AREA / 2, .ss_size = smallest_stack()};
    stack_t none = {.ss_flags = SS_DISABLE};
    memset(area, PATTERN, AREA / 2);
    if (sigaltstack(&small, NULL) != 0)
        abort();
    if (with_tiles)
        use_tiles();
    subject_work(BURNED_MS * SUBJECT_MS);
    sigaltstack(&none, NULL);
    return (void *)syscall(SYS_gettid);
}

/* Like small_altstack, or "refused" if there are no tiles. */
void verb_smallest_altstack(int with_tiles) {
    pthread_t thread;
    void *tid;
    bool is_refused = with_tiles && raw(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA, 0) != 0;
    subject_say(is_refused ? "refused" : "ready", 0, 0);
    subject_wait();
    pthread_create(&thread, NULL, burn_on_smallest_stack, with_tiles ? area : NULL);
    pthread_join(thread, &tid);
    int touched = 0;
    for (int i = 0; i < AREA / 2; i++)
        touched += area[i] != PATTERN;
    subject_say("touched", (long long)(intptr_t)tid, touched);
    subject_wait();
}

/* ---- filtered ---- */

/* Number of SUBJECT_SPINs that take about ms of CPU time. */
static long spins_of(int ms) {
    long spins = 0;
    int64_t end = subject_clock(CLOCK_THREAD_CPUTIME_ID) + ms * SUBJECT_MS;
    for (; subject_clock(CLOCK_THREAD_CPUTIME_ID) < end; spins++)
        SUBJECT_SPIN();
    return spins;
}

static void spin(long spins) {
    for (; spins > 0; spins--)
        SUBJECT_SPIN();
}

/* Kills for all calls but these. */
static void kill_but_for(const int *calls, int count, unsigned flags) {
    struct sock_filter filter[64] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    int len = 1;
    for (int i = 0; i < count; i++) {
        filter[len++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        filter[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    filter[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {(unsigned short)len, filter};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) != 0)
        abort();
}

/* By prctl, like older programs. */
static void refuse_perf(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        abort();
}

static _Atomic bool is_over;

/* Programs may install filters one by one, and set their own SIGTRAP handler meanwhile. */
static void kill_more(void) {
    static const int calls[] = {SYS_exit, SYS_clock_gettime, SYS_seccomp, SYS_rt_sigaction};
    struct sigaction action = {.sa_handler = SIG_IGN};
    kill_but_for(calls, 4, 0);
    kill_but_for(calls, 4, 0);
    sigaction(SIGTRAP, &action, NULL);
}

static void *burn_filtered(void *how) {
    static const int calls[] = {SYS_exit, SYS_clock_gettime};
    long spins = spins_of(BURNED_MS / 4);
    if (how == (void *)1)
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    else if (how == (void *)3)
        refuse_perf();
    else if (how == (void *)5)
        kill_more();
    else
        kill_but_for(calls, 2, 0);
    if (how == (void *)3)
        subject_work(BURNED_MS * SUBJECT_MS);
    else
        spin(4 * spins);
    while (how == (void *)4 && !is_over)
        SUBJECT_SPIN();
    raw(SYS_exit, 0, 0, 0);
    return NULL;
}

/* 1: a strict thread; 2: a thread whose filter kills; 3: a thread whose filter refuses; 4: like 2,
 * until the test says so; 5: a thread that goes on to change its filters and handlers. */
void verb_filtered(int how) {
    pthread_t thread;
    subject_say("ready", 0, 0);
    subject_wait();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    pthread_create(&thread, NULL, burn_filtered, (void *)(intptr_t)how);
    if (how == 4)
        subject_wait();
    is_over = true;
    pthread_join(thread, NULL);
    subject_say("burned", 0, 0);
    subject_wait();
}

static void *burn_shortly(void *unused) {
    subject_work(100 * SUBJECT_MS);
    return NULL;
}

/* A killing filter for all threads, then a child and a thread. */
void verb_filtered_process(int unused) {
    static const int calls[] = {
        SYS_clock_gettime, SYS_read,   SYS_write,   SYS_exit_group,      SYS_exit,
        SYS_clone,         SYS_clone3, SYS_wait4,   SYS_set_robust_list, SYS_rseq,
        SYS_mmap,          SYS_munmap, SYS_madvise, SYS_mprotect,        SYS_rt_sigprocmask,
        SYS_rt_sigaction,  SYS_futex,
    };
    subject_say("ready", 0, 0);
    subject_wait();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    kill_but_for(calls, sizeof calls / sizeof *calls, SECCOMP_FILTER_FLAG_TSYNC);
    pid_t child = fork();
    if (child == 0) {
        subject_work(100 * SUBJECT_MS);
        _exit(0);
    }
    pthread_t thread;
    int status = -1;
    if (waitpid(child, &status, 0) != child || pthread_create(&thread, NULL, burn_shortly, NULL))
        abort();
    pthread_join(thread, NULL);
    subject_say("survived", status, 0);
    subject_wait();
}
