/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recording/labels.h"

#include "tests/unit/check.h"

#include <stdio.h>

#define LIMIT 1023
#define ID    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static struct sonde_arena arena;
static struct labels labels;

static const char *label(const char *key) {
    for (uint32_t i = 0; i < labels.count; i++)
        if (strcmp(labels.items[i].key, key) == 0)
            return labels.items[i].value;
    return "";
}

static void declare(const char *text) {
    sonde_arena_finish(&arena);
    labels_of("redis-server", "", text, LIMIT, &arena, &labels);
}

static void place(const char *cgroup) {
    sonde_arena_finish(&arena);
    labels_of("", cgroup, "", LIMIT, &arena, &labels);
}

TEST(declared_labels_are_taken) {
    declare("team=search,version=1.2.3, x=no");
    CHECK_INT(labels.count, ==, 3);
    CHECK_INT(labels.refused, ==, 1); /* a name has no blank */
    CHECK_STR(label("team"), "search");
    CHECK_STR(label("version"), "1.2.3");
    CHECK_STR(label("executable"), "redis-server");
    declare("app.kubernetes.io/name=a=b,_x=1,");
    CHECK_STR(label("app.kubernetes.io/name"), "a=b");
    CHECK_STR(label("_x"), "1");
    CHECK_INT(labels.refused, ==, 0);
}

TEST(malformed_pairs_are_refused_one_by_one) {
    static const char *const pairs[] = {"x",   "=1",     "x=",     "1x=2", "a b=1", "a\"=1",
                                        "-=1", "\xff=1", "x=\xff", "x=\n", "x=a\tb"};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "good=1,%s,fine=2", pairs[i]);
        declare(text);
        CHECK_INT(labels.refused, ==, 1);
        CHECK_INT(labels.count, ==, 3);
        CHECK_STR(label("fine"), "2");
    }
}

TEST(names_that_sonde_uses_cannot_be_declared) {
    declare("service=x,host=x,instance=x,pid=1,event=x,thread=x,container=x,cgroup=x,pod=x,"
            "executable=x");
    CHECK_INT(labels.refused, ==, 10);
    CHECK_INT(labels.count, ==, 1);
    CHECK_STR(label("executable"), "redis-server");
}

TEST(the_first_of_two_equal_names_counts) {
    declare("a=1,a=2");
    CHECK_STR(label("a"), "1");
    CHECK_INT(labels.refused, ==, 1);
}

TEST(labels_are_bounded_in_number_and_length) {
    char text[4096] = "", name[LABELS_NAME + 2], value[LABELS_VALUE + 2];
    for (int i = 0; i < 100; i++)
        sprintf(text + strlen(text), "a%d=1,", i);
    sonde_arena_finish(&arena);
    labels_of("redis", "/x", text, sizeof text, &arena, &labels);
    CHECK_INT(labels.count, ==, LABELS_MAX);
    CHECK_INT(labels.refused, ==, 100 - (LABELS_MAX - 2));
    memset(name, 'n', sizeof name);
    memset(value, 'v', sizeof value);
    name[LABELS_NAME] = value[LABELS_VALUE] = 0;
    snprintf(text, sizeof text, "%s=%s,%sn=1,b=%sv", name, value, name, value);
    declare(text);
    CHECK_STR(label(name), value);
    CHECK_INT(labels.refused, ==, 2);
}

TEST(a_pair_that_may_have_been_cut_is_refused) {
    char text[LIMIT + 1];
    memset(text, 'v', sizeof text);
    memcpy(text, "a=1,b=", 6);
    text[LIMIT] = 0;
    text[100] = ',';
    memcpy(text + 101, "c=", 2);
    labels_of("", "", text, LIMIT, &arena, &labels);
    CHECK_STR(label("a"), "1");
    CHECK_STR(label("c"), "");
    CHECK_INT(labels.refused, ==, 1);
    CHECK_INT(labels.count, ==, 2);
}

TEST(containers_are_found_in_the_paths_of_each_runtime) {
    static const char *const paths[] = {
        "/docker/" ID,
        "/system.slice/docker-" ID ".scope",
        "/machine.slice/libpod-" ID ".scope/container",
        "/kubepods/burstable/pod11111111-2222-3333-4444-555555555555/" ID,
        "/kubepods.slice/x.slice/cri-containerd-" ID ".scope",
        "/kubepods.slice/x.slice/crio-" ID ".scope",
        "/docker/" OTHER "/docker/" ID, /* the innermost */
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        place(paths[i]);
        CHECK_STR(label("container"), ID);
        CHECK_STR(label("cgroup"), paths[i]);
    }
    place("/system.slice/redis.service");
    CHECK_STR(label("container"), "");
    place("/docker/0" ID);
    CHECK_STR(label("container"), "");
    place("/x" ID);
    CHECK_STR(label("container"), "");
}

TEST(pods_are_found_in_the_kubelets_paths) {
    const char *uid = "11111111-2222-3333-4444-555555555555";
    place("/kubepods/burstable/pod11111111-2222-3333-4444-555555555555/" ID);
    CHECK_STR(label("pod"), uid);
    place("/kubepods.slice/kubepods-besteffort.slice/"
          "kubepods-besteffort-pod11111111_2222_3333_4444_555555555555.slice/crio-" ID ".scope");
    CHECK_STR(label("pod"), uid);
    place("/kubepods/podfedcba9876543210fedcba9876543210/" ID);
    CHECK_STR(label("pod"), "fedcba9876543210fedcba9876543210");
    static const char *const none[] = {"/user/pod11111111-2222-3333-4444-555555555555",
                                       "/kubepods/pod1", "/kubepods", "/kubepods/podpodpod"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        place(none[i]);
        CHECK_STR(label("pod"), "");
    }
}

TEST(a_cgroup_that_is_no_text_is_left_out) {
    place("/docker/\xff");
    CHECK_INT(labels.count, ==, 0);
}
