/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/targets/find_target.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <unistd.h>

#define OTHER 54321u /* neither root nor the user of this test */

/* A list of targets without an engine thread, which is all that a search reads. */
struct list {
    struct engine engine;
    struct target targets[64];
    uint32_t count;
};

static struct target *attach(struct list *list, const char *name, pid_t pid, uid_t uid) {
    struct target *target = &list->targets[list->count++];
    snprintf(target->info.name, sizeof target->info.name, "%s", name);
    snprintf(target->info.uuid, sizeof target->info.uuid, "%032d", (int)pid);
    target->info.pid = pid;
    target->uid = uid;
    target->is_attached = true;
    target->next = list->engine.targets;
    list->engine.targets = target;
    return target;
}

static sonde_err find(struct list *list, const char *name, pid_t pid, uid_t caller,
                      struct target **found, struct sonde_diag *diag) {
    struct engine_selector selector = {.name = name, .pid = pid};
    return find_target(&list->engine, &selector, caller, found, diag);
}

TEST(a_name_of_another_user_does_not_make_the_callers_own_ambiguous) {
    static struct list list;
    struct sonde_diag diag = {0};
    struct target *own = attach(&list, "db", 10, OTHER + 1), *found;
    attach(&list, "db", 11, OTHER);
    attach(&list, "db", 12, OTHER);
    CHECK_INT(find(&list, "db", 0, OTHER + 1, &found, &diag), ==, SONDE_OK);
    CHECK(found == own);
}

TEST(root_prefers_the_targets_of_sondeds_own_user) {
    static struct list list;
    struct sonde_diag diag = {0};
    struct target *found;
    attach(&list, "db", 11, OTHER);
    struct target *own = attach(&list, "db", 10, geteuid());
    CHECK_INT(find(&list, "db", 0, 0, &found, &diag), ==, SONDE_OK);
    CHECK(found == own);
}

TEST(names_of_other_users_are_found_if_the_caller_has_none_of_that_name) {
    static struct list list;
    struct sonde_diag diag = {0};
    struct target *other = attach(&list, "db", 11, OTHER), *found;
    attach(&list, "web", 10, geteuid());
    CHECK_INT(find(&list, "db", 0, geteuid(), &found, &diag), ==, SONDE_OK);
    CHECK(found == other);
    attach(&list, "db", 12, OTHER + 1);
    CHECK_INT(find(&list, "db", 0, geteuid(), &found, &diag), ==, SONDE_TARGET_AMBIGUOUS);
}

TEST(two_own_targets_are_ambiguous_and_the_list_names_only_them) {
    static struct list list;
    struct sonde_diag diag = {0};
    struct target *found;
    attach(&list, "db", 10, geteuid());
    attach(&list, "db", 12, geteuid());
    attach(&list, "db", 12345, OTHER);
    CHECK_INT(find(&list, "db", 0, geteuid(), &found, &diag), ==, SONDE_TARGET_AMBIGUOUS);
    CHECK(strstr(diag.text, "2 processes are called db") != NULL);
    CHECK(strstr(diag.text, "db  12  ") != NULL);
    CHECK(strstr(diag.text, "12345") == NULL);
}

TEST(a_pid_finds_the_target_of_another_user_that_has_the_same_name) {
    static struct list list;
    struct sonde_diag diag = {0};
    struct target *found;
    attach(&list, "db", 10, geteuid());
    struct target *other = attach(&list, "db", 11, OTHER);
    CHECK_INT(find(&list, "db", 11, geteuid(), &found, &diag), ==, SONDE_OK);
    CHECK(found == other);
}

TEST(without_a_name_the_callers_only_target_is_meant) {
    static struct list list;
    struct sonde_diag diag = {0};
    struct target *own = attach(&list, "db", 10, geteuid()), *found;
    attach(&list, "web", 11, OTHER);
    CHECK_INT(find(&list, NULL, 0, geteuid(), &found, &diag), ==, SONDE_OK);
    CHECK(found == own);
    CHECK_INT(find(&list, NULL, 0, OTHER + 1, &found, &diag), ==, SONDE_TARGET_AMBIGUOUS);
    CHECK(strstr(diag.text, "2 processes are attached") != NULL);
}

TEST(a_list_that_does_not_fit_counts_the_targets_it_leaves_out) {
    static struct list list;
    struct sonde_diag diag = {0};
    struct target *found;
    char more[32];
    attach(&list, "db", 1000, geteuid());
    uint32_t left = 0;
    for (pid_t pid = 1001; pid < 1064; pid++) { /* lines of the same length */
        attach(&list, "db", pid, geteuid());
        CHECK_INT(find(&list, "db", 0, geteuid(), &found, &diag), ==, SONDE_TARGET_AMBIGUOUS);
        if (left > 0 || strstr(diag.text, "more"))
            left++;
        snprintf(more, sizeof more, "\nand %u more", left);
        CHECK(left == 0 || strstr(diag.text, more) != NULL);
    }
    CHECK_INT(left, >, 1);
}
