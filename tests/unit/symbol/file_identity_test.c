/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/files/file_identity.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONTENT "0123abcd-0123456789abcdef"
#define FUSE    0x65735546
#define EXT4    0xef53

static int create(mode_t mode) {
    char path[4096];
    int fd = mkstemp(temporary_template(path, sizeof path));
    CHECK(fd >= 0 && fchmod(fd, mode) == 0 && unlink(path) == 0);
    return fd;
}

static const char *key_of(int fd) {
    static char keys[4][FILE_IDENTITY_MAX];
    static unsigned next;
    char *key = keys[next++ % 4];
    file_identity(fd, CONTENT, key);
    return key;
}

TEST(a_file_that_only_its_trusted_owner_can_change_has_the_shared_key) {
    int fd = create(0755);
    CHECK_STR(key_of(fd), CONTENT);
    CHECK(file_identity_is_shared(key_of(fd)));
    close(fd);
}

TEST(a_file_that_a_group_or_others_can_change_has_a_key_of_its_own) {
    static const mode_t modes[] = {0775, 0757, 0777};
    for (int i = 0; i < 3; i++) {
        int fd = create(modes[i]);
        CHECK(strncmp(key_of(fd), CONTENT "-", strlen(CONTENT) + 1) == 0);
        CHECK(!file_identity_is_shared(key_of(fd)));
        close(fd);
    }
}

TEST(a_file_of_another_user_has_a_key_of_its_own_unless_that_user_is_root_or_we) {
    struct stat file = {.st_uid = 0, .st_mode = S_IFREG | 0755};
    CHECK(file_is_trusted(&file, EXT4));
    file.st_uid = geteuid();
    CHECK(file_is_trusted(&file, EXT4));
    file.st_uid = geteuid() + 12345;
    CHECK(!file_is_trusted(&file, EXT4));
}

TEST(a_file_system_served_by_a_user_is_not_trusted) {
    struct stat file = {.st_uid = 0, .st_mode = S_IFREG | 0755};
    CHECK(!file_is_trusted(&file, FUSE));
}

TEST(an_untrusted_file_keeps_its_key_until_it_changes) {
    int fd = create(0777);
    char before[FILE_IDENTITY_MAX];
    strcpy(before, key_of(fd));
    usleep(20000); /* more than the resolution of a change time */
    CHECK_STR(key_of(fd), before);
    CHECK(write(fd, "x", 1) == 1);
    CHECK(strcmp(key_of(fd), before) != 0);
    strcpy(before, key_of(fd));
    usleep(20000);
    CHECK(pwrite(fd, "y", 1, 0) == 1); /* the same size */
    CHECK(strcmp(key_of(fd), before) != 0);
    close(fd);
}

TEST(two_untrusted_files_never_have_the_same_key) {
    int first = create(0777), second = create(0777);
    CHECK(strcmp(key_of(first), key_of(second)) != 0);
    close(first);
    close(second);
}

TEST(a_debug_file_that_everybody_has_does_not_change_the_key) {
    char key[FILE_IDENTITY_MAX] = CONTENT;
    int fd = create(0644);
    CHECK(file_is_public(fd));
    CHECK(file_identity_add_debug(fd, key));
    CHECK_STR(key, CONTENT);
    CHECK(file_identity_add_debug(-1, key));
    CHECK_STR(key, CONTENT);
    close(fd);
}

TEST(a_debug_file_that_others_can_change_or_cannot_read_is_part_of_the_key) {
    char changeable[FILE_IDENTITY_MAX] = CONTENT, unreadable[FILE_IDENTITY_MAX] = CONTENT;
    int fd = create(0666);
    CHECK(file_identity_add_debug(fd, changeable));
    CHECK(!file_identity_is_shared(changeable));
    close(fd);
    fd = create(0600);
    CHECK(file_is_public(fd) == (geteuid() != 0));
    CHECK(file_identity_add_debug(fd, unreadable));
    CHECK(file_identity_is_shared(unreadable) == (geteuid() != 0));
    close(fd);
}

TEST(a_key_never_grows_past_its_limit) {
    char key[FILE_IDENTITY_MAX] = CONTENT, before[FILE_IDENTITY_MAX];
    int fd = create(0666), added = 0;
    do {
        strcpy(before, key);
        CHECK(added++ < 100);
    } while (file_identity_add_debug(fd, key));
    CHECK_STR(key, before);
    CHECK(strlen(key) < FILE_IDENTITY_MAX);
    close(fd);
}

TEST(the_longest_key_of_a_file_with_two_debug_files_fits) {
    char content[2 * 32 + 1 + 16 + 1], key[FILE_IDENTITY_MAX];
    memset(content, 'f', sizeof content - 1);
    content[64] = '-';
    content[sizeof content - 1] = 0;
    int fd = create(0666);
    file_identity(fd, content, key);
    /* The fields are shorter here than they can be: 4 of 16 digits, an owner of 8, 5 separators. */
    CHECK_INT(sizeof content - 1 + 4 * 16 + 8 + 5 + 2 * (1 + 8 + 1 + 16), <, FILE_IDENTITY_MAX);
    CHECK(file_identity_add_debug(fd, key) && file_identity_add_debug(fd, key));
    close(fd);
}
