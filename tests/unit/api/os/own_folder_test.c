/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/own_folder.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char open_to_all[64], folder[96], file[128];

/* A directory like /tmp with the path of a folder in it, which is not made. */
static void prepare(void) {
    snprintf(open_to_all, sizeof open_to_all, "/tmp/own-folder-XXXXXX");
    CHECK(mkdtemp(open_to_all) != NULL);
    CHECK_INT(chmod(open_to_all, 01777), ==, 0);
    snprintf(folder, sizeof folder, "%s/sonde-1", open_to_all);
    snprintf(file, sizeof file, "%s/grpc.sock", folder);
}

static sonde_err check(struct sonde_diag *diag) {
    *diag = (struct sonde_diag){0};
    return own_folder_check(file, "--socket", diag);
}

TEST(a_missing_folder_is_made_for_this_user_alone) {
    struct sonde_diag diag;
    struct stat info;
    prepare();
    CHECK_INT(check(&diag), ==, SONDE_OK);
    CHECK_INT(lstat(folder, &info), ==, 0);
    CHECK_INT(info.st_mode & 07777, ==, 0700);
    CHECK_INT(check(&diag), ==, SONDE_OK);
    CHECK_INT(chmod(folder, 0711), ==, 0); /* sonded --everybody */
    CHECK_INT(check(&diag), ==, SONDE_OK);
    CHECK_INT(chmod(folder, 0770), ==, 0);
    CHECK_INT(check(&diag), ==, SONDE_PERMISSION_DENIED);
    CHECK(strstr(diag.text, "other users may write") != NULL);
    rmdir(folder);
    rmdir(open_to_all);
}

TEST(a_link_is_refused) {
    struct sonde_diag diag;
    prepare();
    CHECK_INT(symlink("/run", folder), ==, 0);
    CHECK_INT(check(&diag), ==, SONDE_PERMISSION_DENIED);
    CHECK(strstr(diag.text, "is not a directory") != NULL);
    unlink(folder);
    rmdir(open_to_all);
}

TEST(a_folder_of_another_user_is_refused) {
    struct sonde_diag diag;
    if (geteuid() != 0)
        return;
    prepare();
    CHECK_INT(mkdir(folder, 0700), ==, 0);
    CHECK_INT(chown(folder, 65534, 65534), ==, 0);
    CHECK_INT(check(&diag), ==, SONDE_PERMISSION_DENIED);
    CHECK(strstr(diag.text, "belongs to user 65534") != NULL);
    rmdir(folder);
    rmdir(open_to_all);
}

TEST(folders_in_directories_of_one_user_are_not_looked_at) {
    struct sonde_diag diag;
    prepare();
    CHECK_INT(chmod(open_to_all, 0755), ==, 0);
    CHECK_INT(symlink("/run", folder), ==, 0);
    CHECK_INT(check(&diag), ==, SONDE_OK);
    CHECK_INT(own_folder_check("/x", "--socket", &diag), ==, SONDE_OK);
    CHECK_INT(own_folder_check("relative", "--socket", &diag), ==, SONDE_OK);
    unlink(folder);
    rmdir(open_to_all);
}
