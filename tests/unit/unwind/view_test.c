/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/table/table.h"
#include "service/unwind/table/table_view.h"
#include "tests/unit/check.h"
#include "tests/unit/old_kernel.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"
#define LD   "/lib64/ld-linux-x86-64.so.2"

static struct unwind_cache *cache;
static struct unwind_views *views;

static void begin(void) {
    CHECK_INT(unwind_cache_create(NULL, 0, &cache, NULL), ==, SONDE_OK);
    views = unwind_views_create(cache);
    CHECK(views != NULL);
}

static void end(void) {
    unwind_views_destroy(views);
    unwind_cache_destroy(cache);
}

static sonde_err get(const char *identity, const char *path, const struct unwind_view **view) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    sonde_err err = unwind_views_get(views, identity, fd, -1, NULL, view);
    close(fd);
    return err;
}

static uint64_t builds(void) {
    struct unwind_cache_counters counters;
    unwind_cache_counters(cache, &counters);
    return counters.builds;
}

TEST(all_processes_share_the_view_of_a_file) {
    const struct unwind_view *first, *second, *other;
    begin();
    CHECK_INT(get("ld", LD, &first), ==, SONDE_OK);
    CHECK_INT(get("ld", LD, &second), ==, SONDE_OK);
    CHECK_INT(get("libc", LIBC, &other), ==, SONDE_OK);
    CHECK(first == second);
    CHECK(first->image != other->image);
    CHECK_INT(unwind_table_check(first->image, first->bytes), ==, SONDE_OK);
    CHECK_INT(unwind_views_bytes(views), ==, first->bytes + other->bytes);
    end();
}

TEST(the_last_release_unmaps_a_view_and_a_later_get_does_not_build_its_table) {
    const struct unwind_view *first, *second;
    begin();
    CHECK_INT(get("ld", LD, &first), ==, SONDE_OK);
    CHECK_INT(get("ld", LD, &second), ==, SONDE_OK);
    unwind_views_release(views, first);
    CHECK_INT(unwind_views_bytes(views), ==, second->bytes);
    unwind_views_release(views, second);
    CHECK_INT(unwind_views_bytes(views), ==, 0);
    unwind_views_release(views, NULL);
    CHECK_INT(get("ld", LD, &first), ==, SONDE_OK);
    CHECK_INT(builds(), ==, 1);
    end();
}

TEST(a_file_without_a_table_has_no_view) {
    const struct unwind_view *view;
    begin();
    CHECK(get("null", "/dev/null", &view) != SONDE_OK);
    CHECK(view == NULL);
    CHECK_INT(get("../ld", LD, &view), ==, SONDE_INVALID_ARGUMENT);
    CHECK(view == NULL);
    CHECK_INT(unwind_views_bytes(views), ==, 0);
    end();
}

TEST(a_file_in_memory_has_a_view) {
    static uint8_t bytes[1 << 20];
    const struct unwind_view *view, *same;
    begin();
    int fd = open(LD, O_RDONLY | O_CLOEXEC);
    ssize_t got = read(fd, bytes, sizeof bytes);
    close(fd);
    CHECK_INT(got, >, 4096);
    CHECK_INT(unwind_views_get_memory(views, "ld", bytes, (size_t)got, NULL, &view), ==, SONDE_OK);
    CHECK_INT(unwind_views_get_memory(views, "ld", bytes, (size_t)got, NULL, &same), ==, SONDE_OK);
    CHECK(view == same);
    CHECK(unwind_views_get_memory(views, "no", bytes, 100, NULL, &same) != SONDE_OK);
    end();
}

static void *get_and_release(void *context) {
    (void)context;
    for (int i = 0; i < 200; i++) {
        const struct unwind_view *view;
        if (get("ld", LD, &view) != SONDE_OK)
            return "no view";
        const struct unwind_header *header = view->image;
        if (header->magic != UNWIND_MAGIC)
            return "not a table";
        unwind_views_release(views, view);
    }
    return NULL;
}

TEST(threads_that_get_and_release_one_view_leave_none) {
    pthread_t threads[4];
    void *result;
    begin();
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, get_and_release, NULL);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &result);
        CHECK(result == NULL);
    }
    CHECK_INT(unwind_views_bytes(views), ==, 0);
    CHECK_INT(builds(), ==, 1);
    end();
}

static int in_child(int (*run)(void)) {
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(run());
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    CHECK(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        check_skip("the kernel accepts no seccomp filter");
    return WEXITSTATUS(status);
}

static int get_as_before_6_7(void) {
    const struct unwind_view *view;
    begin();
    if (!old_kernel_refuse_shared_maps())
        return 77;
    return get("ld", LD, &view) == SONDE_OK ? 0 : 1;
}

TEST(a_view_is_mapped_where_the_kernel_refuses_shared_mappings_of_sealed_memory) {
    CHECK_INT(in_child(get_as_before_6_7), ==, 0);
}

/* Room for a table in a memfd, but not for its mapping. */
static int get_without_room(void) {
    const struct unwind_view *view;
    struct sonde_diag diag = {0};
    begin();
    if (get("libc", LIBC, &view) != SONDE_OK)
        return 1;
    unwind_views_release(views, view);
    const struct rlimit none = {4096, 4096};
    int fd = open(LIBC, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setrlimit(RLIMIT_AS, &none) != 0)
        return 2;
    sonde_err err = unwind_views_get(views, "libc", fd, -1, &diag, &view);
    return err == SONDE_IO && diag.os_error == ENOMEM && strstr(diag.text, "cannot map an unwind")
               ? 0
               : 3;
}

TEST(a_table_that_cannot_be_mapped_is_an_error_with_its_reason) {
    CHECK_INT(in_child(get_without_room), ==, 0);
}
