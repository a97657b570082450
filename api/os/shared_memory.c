/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* F_GET_SEALS fails with -1 for files that cannot have seals, and -1 has all bits set. Memory on
 * hugetlbfs can be sealed, too, but nobody sends any, and its lengths must be rounded up. */
static bool has_seals(int fd, int wanted) {
    struct statfs system;
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & wanted) == wanted && fstatfs(fd, &system) == 0 &&
           system.f_type == TMPFS_MAGIC;
}

/* Makes the system call itself, because libc's function would bind the guest to glibc 2.33. */
static bool get_status(int fd, struct stat *file) {
    return fd >= 0 && syscall(SYS_fstat, fd, file) == 0;
}

bool shared_memory_is_sealed(int fd, int seals, uint64_t min_bytes, uint64_t max_bytes,
                             uint64_t *bytes) {
    struct stat file;
    if (!get_status(fd, &file) || !S_ISREG(file.st_mode) || !has_seals(fd, seals))
        return false;
    *bytes = (uint64_t)file.st_size;
    return *bytes >= min_bytes && *bytes <= max_bytes;
}

/* The end of a file counts as a hole. */
bool shared_memory_is_whole(int fd, uint64_t bytes) {
    off_t hole = lseek(fd, 0, SEEK_HOLE);
    return hole >= 0 && (uint64_t)hole >= bytes;
}

const void *shared_memory_map(int fd, uint64_t bytes) {
    void *place = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    return place == MAP_FAILED ? NULL : place;
}
