/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recording/labels.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIMIT 1023
#define ID    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID   "11111111-2222-3333-4444-555555555555"
#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static struct sonde_arena arena;
static struct labels labels;
static struct pod_directories *pods;

static const char *label(const char *key) {
    for (uint32_t i = 0; i < labels.count; i++)
        if (strcmp(labels.items[i].key, key) == 0)
            return labels.items[i].value;
    return "";
}

static void take(const char *executable, const char *cgroup, const char *declared, size_t limit) {
    const struct labels_source source = {.executable = executable,
                                         .cgroup = cgroup,
                                         .declared = declared,
                                         .limit = limit,
                                         .pods = pods};
    labels_of(&source, &arena, &labels);
}

static void declare(const char *text) {
    sonde_arena_finish(&arena);
    take("redis-server", "", text, LIMIT);
}

static void place(const char *cgroup) {
    sonde_arena_finish(&arena);
    take("", cgroup, "", LIMIT);
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
    take("redis", "/x", text, sizeof text);
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
    take("", "", text, LIMIT);
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

TEST(paths_that_a_container_sees_are_relative_to_its_own) {
    place("/../../besteffort/pod" UID "/" ID);
    CHECK_STR(label("pod"), UID);
    CHECK_STR(label("container"), ID);
    CHECK_STR(label("cgroup"), "/besteffort/pod" UID "/" ID);
    place("/../../../system.slice/redis.service");
    CHECK_STR(label("unit"), "redis.service");
    CHECK_STR(label("pod"), "");
    CHECK_STR(label("cgroup"), "/system.slice/redis.service");
    place("/..");
    CHECK_INT(labels.count, ==, 0);
    place("/...hidden/pod" UID);
    CHECK_STR(label("pod"), "");
    CHECK_STR(label("cgroup"), "/...hidden/pod" UID);
}

TEST(units_are_the_innermost_services_of_a_path) {
    place("/system.slice/redis.service");
    CHECK_STR(label("unit"), "redis.service");
    place("/user.slice/user-1000.slice/user@1000.service/app.slice/web.service/worker");
    CHECK_STR(label("unit"), "web.service");
    place("/user.slice/user-1000.slice/session-3.scope");
    CHECK_STR(label("unit"), "");
    place("/.service");
    CHECK_STR(label("unit"), "");
    declare("unit=x");
    CHECK_INT(labels.refused, ==, 1);
}

/* The directories of a node with one pod of two containers, of which one has its link. */
TEST(pods_have_the_names_that_the_kubelet_gave_them) {
    char folder[200], path[500], log[250], all[250];
    CHECK(mkdtemp(temporary_template(folder, sizeof folder)) != NULL);
    snprintf(all, sizeof all, "%s/pods", folder);
    snprintf(log, sizeof log, "%s/containers", folder);
    CHECK_INT(mkdir(all, 0700), ==, 0);
    CHECK_INT(mkdir(log, 0700), ==, 0);
    snprintf(path, sizeof path, "%s/shop_web-7d_" UID, all);
    CHECK_INT(mkdir(path, 0700), ==, 0);
    snprintf(path, sizeof path, "%s/web-7d_shop_nginx-" ID ".log", log);
    CHECK_INT(symlink("/nowhere", path), ==, 0);
    pods = pod_directories_create(all, log);
    place("/kubepods/burstable/pod" UID "/" ID);
    CHECK_STR(label("namespace"), "shop");
    CHECK_STR(label("pod_name"), "web-7d");
    CHECK_STR(label("container_name"), "nginx");
    place("/kubepods/burstable/pod" UID "/" OTHER);
    CHECK_STR(label("pod_name"), "web-7d");
    CHECK_STR(label("container_name"), "");
    place("/system.slice/" ID);
    CHECK_STR(label("container_name"), "");
    pod_directories_destroy(pods);
    pods = NULL;
}

TEST(what_a_pod_declares_of_itself_again_is_no_fault) {
    char folder[200], path[500];
    CHECK(mkdtemp(temporary_template(folder, sizeof folder)) != NULL);
    snprintf(path, sizeof path, "%s/shop_web_" UID, folder);
    CHECK_INT(mkdir(path, 0700), ==, 0);
    pods = pod_directories_create(folder, folder);
    take("", "/kubepods/pod" UID, "namespace=shop", LIMIT);
    CHECK_INT(labels.refused, ==, 0);
    take("", "/kubepods/pod" UID, "namespace=other", LIMIT);
    CHECK_INT(labels.refused, ==, 1);
    CHECK_STR(label("namespace"), "shop");
    pod_directories_destroy(pods);
    pods = NULL;
}

TEST(a_cgroup_that_is_no_text_is_left_out) {
    place("/docker/\xff");
    CHECK_INT(labels.count, ==, 0);
}
