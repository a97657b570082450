/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/output.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

/* Creates a directory and returns the path of a file in it. */
static const char *fresh_path(void) {
    static char path[128];
    CHECK(mkdtemp(temporary_template(folder, sizeof folder)) != NULL);
    snprintf(path, sizeof path, "%s/result", folder);
    return path;
}

static int files_in_folder(void) {
    DIR *entries = opendir(folder);
    int count = 0;
    while (readdir(entries))
        count++;
    closedir(entries);
    return count - 2;
}

static const char *content_of(const char *path) {
    static char text[64];
    int fd = open(path, O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[len < 0 ? 0 : len] = 0;
    return text;
}

static void write_all(struct output *output, const char *text) {
    CHECK_INT(output_write(output, text, strlen(text), NULL), ==, SONDE_OK);
}

TEST(a_committed_file_has_its_content_and_the_default_mode) {
    const char *path = fresh_path();
    struct output output;
    struct stat info;
    umask(022);
    CHECK_INT(output_open(&output, path, NULL), ==, SONDE_OK);
    write_all(&output, "abc");
    CHECK_INT(access(path, F_OK), ==, -1);
    CHECK_INT(output_commit(&output, NULL), ==, SONDE_OK);
    output_finish(&output);
    CHECK_STR(content_of(path), "abc");
    CHECK_INT(stat(path, &info), ==, 0);
    CHECK_INT(info.st_mode & 0777, ==, 0644);
    CHECK_INT(files_in_folder(), ==, 1);
}

TEST(a_file_that_is_not_committed_is_deleted) {
    const char *path = fresh_path();
    struct output output;
    CHECK_INT(output_open(&output, path, NULL), ==, SONDE_OK);
    write_all(&output, "half");
    output_finish(&output);
    output_finish(&output);
    CHECK_INT(files_in_folder(), ==, 0);
}

TEST(a_failed_write_leaves_the_old_file_unchanged) {
    const char *path = fresh_path();
    for (int i = 0; i < 2; i++) {
        struct output output;
        CHECK_INT(output_open(&output, path, NULL), ==, SONDE_OK);
        write_all(&output, i == 0 ? "old" : "new, but broken off");
        if (i == 0)
            CHECK_INT(output_commit(&output, NULL), ==, SONDE_OK);
        output_finish(&output);
    }
    CHECK_STR(content_of(path), "old");
    CHECK_INT(files_in_folder(), ==, 1);
}

TEST(a_pipe_is_written_directly) {
    const char *path = fresh_path();
    CHECK_INT(mkfifo(path, 0600), ==, 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    struct output output;
    char text[8] = "";
    CHECK_INT(output_open(&output, path, NULL), ==, SONDE_OK);
    write_all(&output, "xyz");
    CHECK_INT(output_commit(&output, NULL), ==, SONDE_OK);
    output_finish(&output);
    CHECK_INT(read(reader, text, sizeof text), ==, 3);
    close(reader);
    CHECK_INT(files_in_folder(), ==, 1);
}

TEST(a_missing_directory_is_an_error) {
    struct output output;
    struct sonde_diag diag = {0};
    CHECK_INT(output_open(&output, "/no/such/folder/x.svg", &diag), ==, SONDE_IO);
    CHECK(strstr(diag.text, "/no/such/folder/x.svg") != NULL);
    output_finish(&output);
}
