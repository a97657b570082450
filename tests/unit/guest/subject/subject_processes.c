/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs about processes: fork, exec, refused system calls, the library's interface, dlopen. */
#include "tests/unit/guest/subject/subject.h"

#include "api/sonde.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

/* ---- forks: half of the children exec, half exit; then some of each other kind ---- */

static int child_of_fork(int number) {
    pid_t child = fork();
    if (child == 0) {
        subject_work(SUBJECT_MS);
        if (number % 2)
            execl("/bin/true", "true", (char *)NULL);
        _exit(0);
    }
    int status = -1;
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

static int child_of_spawn(void) {
    char *const argv[] = {"true", NULL};
    pid_t child;
    int status = -1;
    return posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ) != 0 ||
           waitpid(child, &status, 0) != child || status != 0;
}

/* A child that shares our memory and sets its signal handlers, as shells do. */
static int child_of_vfork(void) {
    int status = -1;
    pid_t child = vfork();
    if (child == 0) {
        struct sigaction action = {.sa_handler = SIG_DFL};
        sigaction(SIGTRAP, &action, NULL);
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

static void *burn_on(void *argument) {
    while (!*(volatile int *)argument)
        subject_work(SUBJECT_MS);
    return NULL;
}

void verb_forks(int count) {
    volatile int stop = 0;
    pthread_t thread;
    int bad = 0;
    subject_say("ready", 0, 0);
    subject_wait();
    pthread_create(&thread, NULL, burn_on, (void *)&stop);
    for (int i = 0; i < count; i++) {
        bad += child_of_fork(i);
        bad += i % 4 == 0 && child_of_spawn();
        bad += i % 4 == 2 && child_of_vfork();
    }
    stop = 1;
    pthread_join(thread, NULL);
    subject_say("bad", bad, 0);
    subject_wait();
}

/* ---- exec: which descriptors the new program inherits ---- */

/* Descriptors of the kinds that the guest uses. The test itself passes none of them. */
static int guest_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        char target[256] = "";
        if (readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) > 0)
            count += !strncmp(target, "anon_inode:", 11) || !strncmp(target, "socket:", 7) ||
                     !strncmp(target, "/memfd:", 7);
    }
    closedir(folder);
    return count;
}

void verb_exec(int step) {
    if (step == 1) {                    /* this is the new program, without the guest */
        subject_work(100 * SUBJECT_MS); /* a tick of the old program would kill us here */
        subject_say("open", guest_descriptors(), 0);
        subject_wait();
        return;
    }
    subject_say("ready", guest_descriptors(), 0);
    subject_wait();
    subject_work(50 * SUBJECT_MS);
    subject_say("before", guest_descriptors(), 0);
    unsetenv("LD_PRELOAD");
    char *const argv[] = {"subject", "exec", "1", NULL};
    execve("/proc/self/exe", argv, environ);
}

/* ---- refused: seccomp refuses clocks ---- */

static void refuse(const int *calls, int count, unsigned how) {
    struct sock_filter filter[16] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    int len = 1;
    for (int i = 0; i < count; i++) {
        filter[len++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        filter[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, how);
    }
    filter[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)len, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        abort();
}

/* 1: perf_event_open fails; 2: timer_create, too; 3: perf_event_open kills the process. */
void verb_refused(int what) {
    const int calls[] = {SYS_perf_event_open, SYS_timer_create};
    if (what == 3)
        refuse(calls, 1, SECCOMP_RET_KILL_PROCESS);
    else
        refuse(calls, what, SECCOMP_RET_ERRNO | EPERM);
    subject_say("ready", 0, 0);
    subject_wait();
    int64_t before = subject_clock(CLOCK_PROCESS_CPUTIME_ID);
    subject_work(1000 * SUBJECT_MS);
    subject_say("burned", subject_clock(CLOCK_PROCESS_CPUTIME_ID) - before, 0);
    subject_wait();
}

/* ---- The library's interface, called as by a linked program ---- */

#define FIND(name) __typeof__(&name) call_##name = (__typeof__(&name))dlsym(RTLD_DEFAULT, #name)

static void *labelled(void *unused) {
    FIND(sonde_label_thread);
    FIND(sonde_label_request);
    prctl(PR_SET_NAME, "labelled");
    call_sonde_label_thread("compaction");
    call_sonde_label_request(4711);
    subject_work(300 * SUBJECT_MS);
    call_sonde_label_thread(NULL);
    call_sonde_label_request(0);
    prctl(PR_SET_NAME, "renamed");
    subject_work(300 * SUBJECT_MS);
    return (void *)syscall(SYS_gettid);
}

void verb_labels(int unused) {
    pthread_t thread;
    void *tid;
    subject_say("ready", 0, 0);
    subject_wait();
    pthread_create(&thread, NULL, labelled, NULL);
    pthread_join(thread, &tid);
    subject_say("tid", (long long)(intptr_t)tid, 0);
    subject_wait();
}

void verb_embedded(int unused) {
    FIND(sonde_start);
    FIND(sonde_stop);
    FIND(sonde_status);
    subject_say("ready", call_sonde_start(NULL) == EALREADY, 0);
    subject_wait(); /* until a capture runs */
    subject_work(100 * SUBJECT_MS);
    struct sigaction before, after;
    call_sonde_stop();
    __typeof__(&sigaction) call_sigaction = sigaction;
    call_sigaction(SIGTRAP, NULL, &before);
    int off = strcmp(call_sonde_status(), "off") == 0;
    struct sonde_start_options options = {.size = sizeof options, .name = "again"};
    int error = call_sonde_start(&options);
    call_sigaction(SIGTRAP, NULL, &after);
    subject_say("again", off && before.sa_handler == SIG_DFL && after.sa_handler == SIG_DFL, error);
    subject_wait();
}

/* ---- plain: does nothing; argument: milliseconds to live ---- */

void verb_plain(int ms) {
    usleep((useconds_t)ms * 1000);
}

/* ---- children: one that does not exec ---- */

void verb_children(int unused) {
    subject_say("ready", 0, 0);
    subject_wait();
    pid_t child = fork();
    if (child == 0) {
        subject_wait();
        subject_work(100 * SUBJECT_MS);
        subject_say("child", 0, 0);
        subject_wait();
        _exit(0);
    }
    subject_say("forked", child, 0);
    int status;
    waitpid(child, &status, 0);
    subject_say("ended", status, 0);
    subject_wait();
}

/* ---- loader: loads and unloads a library ---- */

void verb_loader(int rounds) {
    subject_say("ready", 0, 0);
    subject_wait();
    int bad = 0;
    for (int i = 0; i < rounds; i++) {
        void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
        unsigned long (*crc)(unsigned long, const unsigned char *, unsigned) =
            library ? (__typeof__(crc))dlsym(library, "crc32") : NULL;
        static unsigned char data[1 << 20];
        int64_t end = subject_clock(CLOCK_MONOTONIC) + 120 * SUBJECT_MS;
        while (crc &&
               subject_clock(CLOCK_MONOTONIC) < end) /* longer than the guest takes to notice */
            bad += crc(0, data, sizeof data) == 0;
        bad += !crc || dlclose(library) != 0;
        subject_work(120 * SUBJECT_MS);
    }
    subject_say("bad", bad, 0);
    subject_wait();
}
