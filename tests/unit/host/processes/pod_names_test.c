/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/processes/pod_names.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UID "11111111-2222-3333-4444-555555555555"
#define ID  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char pods[200], containers[200];
static struct pod_directories *directories;
static struct pod_names names;

static void begin(void) {
    CHECK(mkdtemp(temporary_template(pods, sizeof pods)) != NULL);
    CHECK(mkdtemp(temporary_template(containers, sizeof containers)) != NULL);
    directories = pod_directories_create(pods, containers);
}

static void add(const char *folder, const char *name) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_INT(mkdir(path, 0700), ==, 0);
}

static void take_away(const char *folder, const char *name) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_INT(rmdir(path), ==, 0);
}

static void look(void) {
    pod_names_find(directories, UID, ID, &names);
}

TEST(pods_that_come_and_go_are_noticed) {
    begin();
    look();
    CHECK_STR(names.pod, "");
    add(pods, "default_web.v1-x_" UID);
    add(containers, "web.v1-x_default_side-car-" ID ".log");
    look();
    CHECK_STR(names.namespace_name, "default");
    CHECK_STR(names.pod, "web.v1-x");
    CHECK_STR(names.container, "side-car");
    take_away(pods, "default_web.v1-x_" UID);
    look();
    CHECK_STR(names.pod, "");
    CHECK_STR(names.container, "side-car");
    CHECK_INT(rmdir(pods), ==, 0);
    look();
    CHECK_STR(names.pod, "");
    pod_directories_destroy(directories);
}

TEST(entries_of_another_shape_are_no_names) {
    static const char *const strange[] = {UID, "_" UID, "x" UID, "default_" UID, "a_b" UID};
    begin();
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++)
        add(pods, strange[i]);
    add(containers, ID ".log");
    add(containers, "-" ID ".log");
    add(containers, "a_b_c-" ID);
    look();
    CHECK_STR(names.namespace_name, "");
    CHECK_STR(names.pod, "");
    CHECK_STR(names.container, "");
    pod_names_find(directories, "", "", &names);
    CHECK_STR(names.pod, "");
    pod_directories_destroy(directories);
}

TEST(names_that_are_too_long_are_left_out) {
    char name[256];
    begin();
    memset(name, 'n', sizeof name);
    snprintf(name + POD_NAMESPACE_BYTES, sizeof name - POD_NAMESPACE_BYTES, "_web_" UID);
    add(pods, name);
    look();
    CHECK_STR(names.namespace_name, "");
    CHECK_STR(names.pod, "web");
    pod_directories_destroy(directories);
}

TEST(a_full_directory_is_read_up_to_its_bound) {
    begin();
    for (int i = 0; i <= POD_MAX_ENTRIES; i++) {
        char name[64];
        snprintf(name, sizeof name, "a_b_%d", i);
        add(pods, name);
    }
    size_t found = 0;
    for (int i = 0; i <= POD_MAX_ENTRIES; i++) {
        char uid[16];
        snprintf(uid, sizeof uid, "%d", i);
        pod_names_find(directories, uid, "", &names);
        found += strcmp(names.pod, "b") == 0;
    }
    CHECK(found <= POD_MAX_ENTRIES && found >= POD_MAX_ENTRIES - 2); /* and . and .. */
    pod_directories_destroy(directories);
}
