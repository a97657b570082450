/* SPDX-License-Identifier: Apache-2.0
 *
 * Rights under real refusals: another user, dropped capabilities, a seccomp filter. */
#include "service/host/rights.h"

#include "api/os/confine.h"
#include "service/host/sampler/capabilities.h"
#include "tests/unit/check.h"
#include "tests/unit/host/sampler/scene.h"

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct host_right rights[RIGHT_KINDS];

/* Says what a right lacks; false unless exactly the refused ones do. */
static bool are_consistent(void) {
    for (int i = 0; i < RIGHT_KINDS; i++) {
        bool has_loss = rights[i].lost[0] != 0, has_reason = rights[i].reason[0] != 0;
        if (has_loss == rights[i].is_granted || has_reason == rights[i].is_granted ||
            (rights[i].is_granted && rights[i].command[0]))
            return false;
    }
    return true;
}

static void read_rights(const char *program) {
    struct sampler *sampler;
    if (sampler_create(program, &sampler, NULL) != SONDE_OK)
        abort();
    host_rights_read(sampler, rights);
    sampler_destroy(sampler);
}

TEST(a_right_is_granted_or_says_what_is_lost) {
    read_rights(NULL);
    CHECK(are_consistent());
    for (int i = 1; i < RIGHT_KINDS; i++)
        CHECK(strcmp(rights[i].name, rights[i - 1].name) != 0);
}

static bool commands_have(const char *text) {
    return strstr(rights[RIGHT_MEMORY].command, text) && strstr(rights[RIGHT_FILES].command, text);
}

static int without_program(const char *program) {
    unsetenv("INVOCATION_ID");
    read_rights(program);
    if (!are_consistent() || rights[RIGHT_MEMORY].is_granted || rights[RIGHT_FILES].is_granted)
        return 1;
    return commands_have("run sonded as root") ? 0 : 2;
}

TEST(a_user_without_the_sampler_is_sent_to_root) {
    scene_program(0755, 0, false); /* skips unless root */
    CHECK_INT(scene_in_child(true, without_program, NULL), ==, 0);
    CHECK_INT(scene_in_child(true, without_program, "/nonexistent"), ==, 0);
}

static int without_capabilities(const char *program) {
    unsetenv("INVOCATION_ID");
    read_rights(program);
    if (!are_consistent() || rights[RIGHT_MEMORY].is_granted)
        return 1;
    return commands_have(CAPABILITIES_OF_SAMPLER "+ep") && commands_have(program) &&
                   commands_have("chmod 0750") && commands_have("root:nogroup")
               ? 0
               : 2;
}

TEST(a_user_with_a_sampler_that_has_no_capabilities_gets_the_setcap) {
    CHECK_INT(scene_in_child(true, without_capabilities, scene_program(0755, 0, false)), ==, 0);
}

static int under_systemd(const char *program) {
    setenv("INVOCATION_ID", "1", 1);
    read_rights(program);
    return commands_have("AmbientCapabilities=") ? 0 : 1;
}

TEST(a_service_of_systemd_gets_a_unit_setting) {
    CHECK_INT(scene_in_child(true, under_systemd, scene_program(0755, 0, false)), ==, 0);
}

static int with_capabilities(const char *program) {
    read_rights(program);
    return are_consistent() && rights[RIGHT_MEMORY].is_granted && rights[RIGHT_FILES].is_granted
               ? 0
               : 1;
}

TEST(the_sampler_s_capabilities_count) {
    CHECK_INT(scene_in_child(true, with_capabilities, scene_program(0750, NOBODY, true)), ==, 0);
}

/* As nobody in a container without CAP_SYSLOG. */
static int in_container(const char *program) {
    if (prctl(PR_CAPBSET_DROP, CAP_SYSLOG) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) != 0)
        return 1;
    unsetenv("INVOCATION_ID");
    read_rights(program);
    return commands_have("--cap-add") ? 0 : 2;
}

TEST(a_capability_that_a_container_may_not_have_is_named_as_such) {
    CHECK_INT(scene_in_child(false, in_container, scene_program(0750, NOBODY, true)), ==, 0);
}

static int as_restricted_root(const char *program) {
    if (!capabilities_keep(0))
        return 1;
    read_rights(NULL);
    if (!are_consistent() || rights[RIGHT_FILES].is_granted)
        return 2;
    return strstr(rights[RIGHT_FILES].command, "--cap-add") ? 0 : 3;
}

TEST(root_in_a_container_gets_the_container_s_option) {
    scene_program(0755, 0, false);
    CHECK_INT(scene_in_child(false, as_restricted_root, NULL), ==, 0);
}

static int under_seccomp(const char *program) {
    if (confine_process(CONFINE_FRONTEND, NULL) != SONDE_OK)
        return 1;
    read_rights(NULL);
    const struct host_right *own = &rights[RIGHT_PERF_OWN], *bpf = &rights[RIGHT_BPF];
    if (!are_consistent() || own->is_granted || rights[RIGHT_PERF_ALL].is_granted ||
        bpf->is_granted)
        return 2;
    return strstr(own->command, "perf_event_") && own->reason[0] ? 0 : 3;
}

TEST(refused_system_calls_are_found_by_trying) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    check_skip("a sanitizer's run-time library needs more system calls than the filter allows");
#endif
    CHECK_INT(scene_in_child(false, under_seccomp, NULL), ==, 0);
}

/* Every right but that of BPF, where bpf(2) ends the process. */
static int rights_without_bpf(const char *program) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog rules = {sizeof filter / sizeof *filter, filter};
    struct sampler *sampler;
    if (sampler_create(NULL, &sampler, NULL) != SONDE_OK ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &rules) != 0)
        return 1;
    for (int i = 0; i < RIGHT_KINDS; i++)
        if (i != RIGHT_BPF)
            host_right_read(sampler, (enum host_right_kind)i, &rights[i]);
    bool is_known = rights[RIGHT_PERF_ALL].name && rights[RIGHT_KERNEL_NAMES].name;
    sampler_destroy(sampler);
    return is_known ? 0 : 2;
}

TEST(a_right_is_read_without_loading_a_program_of_bpf) {
    CHECK_INT(scene_in_child(false, rights_without_bpf, NULL), ==, 0);
}
