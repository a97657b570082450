/* SPDX-License-Identifier: Apache-2.0
 *
 * A server that drops its privileges except one, and one that calls chroot. */
#include "tests/unit/guest/subject/subject.h"
#include "tests/unit/temporary.h"

#include <dirent.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define NOBODY 65534

extern int capset(cap_user_header_t header, const cap_user_data_t data);

static int keep(uint32_t caps, int (*set)(cap_user_header_t, const cap_user_data_t)) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{caps, caps, 0}, {0, 0, 0}};
    return set(&header, data);
}

static int raw_capset(cap_user_header_t header, const cap_user_data_t data) {
    return (int)syscall(SYS_capset, header, data);
}

/* Counts threads whose ids or permitted capabilities differ from the main thread's. */
static int count_others(void) {
    const char *command = "cd /proc/%d/task && for t in *; do grep -E '^(Uid|Gid|CapPrm)' "
                          "$t/status | tr '\\n' ' '; echo; done | sort -u | wc -l";
    char text[256], line[32] = "";
    snprintf(text, sizeof text, command, (int)getpid());
    FILE *out = popen(text, "r");
    if (out && !fgets(line, sizeof line, out))
        line[0] = 0;
    if (out)
        pclose(out);
    return atoi(line) - 1;
}

/* 0: by libc's capset, 1: by a raw system call. Prints how many steps failed and how many threads
 * differ. */
void verb_drops(int past_libc) {
    const uint32_t both = 1u << CAP_SETGID | 1u << CAP_NET_BIND_SERVICE;
    int (*set)(cap_user_header_t, const cap_user_data_t) = past_libc ? raw_capset : capset;
    const gid_t groups[] = {NOBODY};
    subject_say("ready", 0, 0);
    subject_wait();
    subject_work(200 * SUBJECT_MS);
    int failed = prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0;
    failed += setresuid(NOBODY, NOBODY, NOBODY) != 0;
    failed += keep(both, set) != 0;
    failed += setgroups(1, groups) != 0;
    failed += setresgid(NOBODY, NOBODY, NOBODY) != 0;
    failed += keep(1u << CAP_NET_BIND_SERVICE, set) != 0;
    subject_say("dropped", failed, past_libc ? 0 : count_others());
    subject_work(500 * SUBJECT_MS);
    subject_say("worked", 0, 0);
    subject_wait();
    subject_say("late", count_others(), 0);
    subject_wait();
}

/* ---- chroot: threads that work after a chroot ---- */

static void *work_in_chroot(void *unused) {
    SUBJECT_BURN(300 * SUBJECT_MS);
    return unused;
}

void verb_chroot(int threads) {
    pthread_t ids[8];
    char folder[64];
    subject_say("ready", 0, 0);
    subject_wait();
    int failed = !mkdtemp(temporary_template(folder, sizeof folder)) || chdir(folder) != 0 ||
                 rmdir(folder) != 0 || chroot(".") != 0;
    for (int i = 0; i < threads; i++)
        failed += pthread_create(&ids[i], NULL, work_in_chroot, NULL) != 0;
    subject_say("entered", failed, access("/proc/self", F_OK));
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    subject_say("worked", 0, 0);
    subject_wait();
    pthread_create(&ids[0], NULL, work_in_chroot, NULL);
    subject_work(300 * SUBJECT_MS);
    pthread_join(ids[0], NULL);
    subject_say("again", subject_clock(CLOCK_PROCESS_CPUTIME_ID), 0);
    subject_wait();
}
