/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/seccomp_program.h"

#include "tests/unit/check.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define KILL    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define ALLOW   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1)
#define NUMBER  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ARCH    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch))
#define FIRST   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args))
#define IS(k)   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1)
#define FROM(k) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, k, 0, 1)

static bool harms_with(struct sock_filter *filter, size_t len, bool with_perf) {
    struct sock_fprog program = {(unsigned short)len, filter};
    return seccomp_program_harms(&program, with_perf);
}

#define HARMS(...)                                  \
    harms_with((struct sock_filter[]){__VA_ARGS__}, \
               sizeof((struct sock_filter[]){__VA_ARGS__}) / sizeof(struct sock_filter), true)

TEST(an_action_counts_if_a_call_of_the_guest_reaches_it) {
    CHECK(!HARMS(ALLOW));
    CHECK(HARMS(KILL));
    CHECK(!HARMS(NUMBER, IS(SYS_reboot), KILL, ALLOW));
    CHECK(HARMS(NUMBER, IS(SYS_ioctl), KILL, ALLOW));
    CHECK(!HARMS(NUMBER, IS(SYS_ioctl), REFUSE, ALLOW));
}

/* A profile of an older program may kill for the calls that newer machines have instead. */
TEST(the_calls_that_only_older_machines_have_count_where_they_are) {
    CHECK(HARMS(NUMBER, IS(SYS_unlink), KILL, ALLOW));
    CHECK(HARMS(NUMBER, IS(SYS_open), KILL, ALLOW));
    CHECK(!HARMS(NUMBER, IS(SYS_unlinkat), KILL, ALLOW));
    CHECK(!HARMS(NUMBER, IS(SYS_readlinkat), KILL, ALLOW));
}

TEST(a_handler_must_be_able_to_return) {
    CHECK(HARMS(NUMBER, IS(SYS_rt_sigreturn), REFUSE, ALLOW));
}

TEST(actions_that_others_decide_count_as_harm) {
    CHECK(HARMS(NUMBER, IS(SYS_read), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP), ALLOW));
    CHECK(HARMS(NUMBER, IS(SYS_read), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE), ALLOW));
    CHECK(HARMS(NUMBER, IS(SYS_read), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF), ALLOW));
    CHECK(HARMS(NUMBER, BPF_STMT(BPF_RET | BPF_A, 0)));
    CHECK(!HARMS(NUMBER, IS(SYS_read), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_LOG), ALLOW));
}

/* As libseccomp begins each filter. */
TEST(what_other_architectures_get_does_not_count) {
    CHECK(!HARMS(ARCH, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0), KILL, NUMBER,
                 FROM(0x40000000), KILL, ALLOW));
    CHECK(HARMS(ARCH, IS(AUDIT_ARCH_X86_64), KILL, ALLOW));
}

TEST(arguments_may_be_anything) {
    CHECK(HARMS(NUMBER, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3), FIRST, IS(7), KILL,
                ALLOW));
    CHECK(!HARMS(NUMBER, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_reboot, 0, 3), FIRST, IS(7), KILL,
                 ALLOW));
}

/* Two ways with different numbers meet, so the jump after it is not known. */
TEST(what_differs_by_the_way_is_not_known) {
    CHECK(HARMS(FIRST, IS(7), BPF_STMT(BPF_LD | BPF_IMM, 1), IS(1), KILL, ALLOW));
}

TEST(a_mask_and_a_constant_keep_the_number_known) {
    CHECK(!HARMS(NUMBER, BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffff), IS(SYS_reboot), KILL, ALLOW));
    CHECK(HARMS(NUMBER, BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1), IS(SYS_reboot), KILL, ALLOW));
    CHECK(!HARMS(BPF_STMT(BPF_LD | BPF_IMM, 5), IS(6), KILL, ALLOW));
}

TEST(perf_event_open_counts_if_it_is_not_tried_first) {
    struct sock_filter filter[] = {NUMBER, IS(SYS_perf_event_open), KILL, ALLOW};
    CHECK(!harms_with(filter, 4, false));
    CHECK(harms_with(filter, 4, true));
}

TEST(what_cannot_be_read_counts_as_harm) {
    struct sock_filter filter[] = {ALLOW};
    void *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(seccomp_program_harms(NULL, true));
    CHECK(seccomp_program_harms(hole, true));
    CHECK(harms_with(hole, 1, true));
    CHECK(harms_with(NULL, 1, true));
    CHECK(harms_with(filter, 0, true));
    CHECK(HARMS(NUMBER, BPF_JUMP(BPF_JMP | BPF_JA, 4000, 0, 0), ALLOW)); /* past its end */
    CHECK(HARMS(NUMBER));
}
