/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/shared_memory.h"

#include "tests/unit/check.h"
#include "tests/unit/old_kernel.h"
#include "tests/unit/temporary.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define PAGE  4096

/* Sealed memory with that many bytes, of which the first `written` are written. */
static int memory(size_t size, size_t written, int seals) {
    int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    for (size_t i = 0; i < written; i++)
        CHECK_INT(pwrite(fd, "x", 1, (off_t)i), ==, 1);
    CHECK(ftruncate(fd, (off_t)size) == 0 && (!seals || fcntl(fd, F_ADD_SEALS, seals) == 0));
    return fd;
}

/* Closes fd. */
static bool is_accepted(int fd, uint64_t least, uint64_t most) {
    uint64_t bytes;
    bool is_sealed = shared_memory_is_sealed(fd, SEALS, least, most, &bytes);
    close(fd);
    return is_sealed;
}

TEST(memory_with_the_seals_and_a_size_within_the_bounds_is_accepted) {
    uint64_t bytes = 0;
    int fd = memory(PAGE, 0, SEALS | F_SEAL_WRITE);
    CHECK(shared_memory_is_sealed(fd, SEALS, PAGE, PAGE, &bytes));
    CHECK_INT(bytes, ==, PAGE);
    CHECK(!shared_memory_is_sealed(fd, SEALS, PAGE + 1, 2 * PAGE, &bytes));
    CHECK(!shared_memory_is_sealed(fd, SEALS, 1, PAGE - 1, &bytes));
    close(fd);
    CHECK(!is_accepted(memory((size_t)1 << 40, 0, SEALS), 1, 1 << 30));
}

TEST(memory_without_one_of_the_seals_is_refused) {
    CHECK(!is_accepted(memory(PAGE, 0, 0), 1, PAGE));
    CHECK(!is_accepted(memory(PAGE, 0, F_SEAL_SHRINK), 1, PAGE));
    CHECK(!is_accepted(memory(PAGE, 0, F_SEAL_GROW | F_SEAL_WRITE), 1, PAGE));
    int fd = memfd_create("memory", MFD_CLOEXEC); /* its only seal is F_SEAL_SEAL */
    CHECK(ftruncate(fd, PAGE) == 0 && !is_accepted(fd, 1, PAGE));
}

/* F_GET_SEALS fails for all of these with -1, which has all bits set. */
TEST(what_cannot_have_seals_is_refused) {
    char path[32];
    int ends[2];
    int fd = mkstemp(temporary_template(path, sizeof path));
    CHECK(ftruncate(fd, PAGE) == 0 && unlink(path) == 0 && !is_accepted(fd, 0, PAGE));
    fd = open("/dev/shm", O_TMPFILE | O_RDWR, 0600); /* tmpfs, like a memfd */
    CHECK(fd < 0 || ftruncate(fd, PAGE) == 0);
    CHECK(!is_accepted(fd, 0, PAGE));
    CHECK(!is_accepted(open("/dev/zero", O_RDONLY), 0, UINT64_MAX));
    CHECK(!is_accepted(open("/dev/null", O_RDONLY), 0, UINT64_MAX));
    CHECK(!is_accepted(open("/", O_RDONLY | O_DIRECTORY), 0, UINT64_MAX));
    CHECK(pipe(ends) == 0 && !is_accepted(ends[0], 0, UINT64_MAX));
    close(ends[1]);
    CHECK(!is_accepted(-1, 0, UINT64_MAX));
}

TEST(memory_of_huge_pages_is_refused) {
    int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (fd < 0)
        check_skip("this kernel has no huge pages");
    CHECK(fcntl(fd, F_ADD_SEALS, SEALS) == 0 && !is_accepted(fd, 0, UINT64_MAX));
}

TEST(memory_is_whole_if_every_page_was_written) {
    int fd = memory(3 * PAGE, 3 * PAGE, SEALS);
    CHECK(shared_memory_is_whole(fd, 3 * PAGE));
    CHECK(shared_memory_is_whole(fd, 0));
    CHECK(!shared_memory_is_whole(fd, 3 * PAGE + 1));
    close(fd);
    fd = memory(3 * PAGE, PAGE, SEALS);
    CHECK(shared_memory_is_whole(fd, PAGE));
    CHECK(!shared_memory_is_whole(fd, PAGE + 1));
    close(fd);
    fd = memory(0, 0, 0); /* pages behind its end do not hide the hole before it */
    CHECK(ftruncate(fd, PAGE) == 0);
    CHECK_INT(fallocate(fd, FALLOC_FL_KEEP_SIZE, 2 * PAGE, 8 * PAGE), ==, 0);
    CHECK(!shared_memory_is_whole(fd, PAGE));
    close(fd);
}

static int map_as_before_6_7(void) {
    int fd = memory(PAGE, 1, SEALS | F_SEAL_WRITE);
    if (!old_kernel_refuse_shared_maps())
        return 77;
    if (mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED || errno != EPERM)
        return 1;
    const char *mapped = shared_memory_map(fd, PAGE);
    return mapped && mapped[0] == 'x' ? 0 : 2;
}

TEST(sealed_memory_is_mapped_where_the_kernel_refuses_shared_mappings_of_it) {
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(map_as_before_6_7());
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    CHECK(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        check_skip("the kernel accepts no seccomp filter");
    CHECK_INT(WEXITSTATUS(status), ==, 0);
}

TEST(memory_that_cannot_be_mapped_leaves_the_reason) {
    CHECK(shared_memory_map(-1, PAGE) == NULL);
    CHECK_INT(errno, ==, EBADF);
}
