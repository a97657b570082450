/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/chroot.h"

#include "service/guest/process/fds.h"
#include "service/guest/process/procfs.h"
#include "service/guest/raw.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

_Atomic bool chroot_entered;
static struct fds_file maps = FDS_NONE;
static _Atomic uint32_t tids[CHROOT_THREADS_MAX];
static _Atomic uint32_t used; /* one past the highest index that ever held a tid */

static long open_proc(const char *path) {
    return system_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0);
}

static bool replace(uint32_t index, uint32_t old, uint32_t tid) {
    return atomic_compare_exchange_strong(&tids[index], &old, tid);
}

/* A descriptor to keep. That of the main thread stays readable when the thread ends, unlike that of
 * any other thread, but is empty if it is opened after that. */
static long open_lasting_maps(void) {
    char byte;
    long fd = open_proc("/proc/self/maps");
    if (fd >= 0 && system_call(SYS_pread64, fd, (long)&byte, 1, 0, 0) > 0)
        return fd;
    if (fd >= 0)
        raw_close((int)fd);
    return open_proc("/proc/thread-self/maps");
}

/* Hashing by tid: a thread usually finds its slot at the first try. */
void chroot_add_thread(uint32_t tid) {
    for (uint32_t i = 0; i < CHROOT_THREADS_MAX; i++) {
        uint32_t index = (tid + i) % CHROOT_THREADS_MAX;
        if (atomic_load(&tids[index]) == 0 && replace(index, 0, tid)) {
            uint32_t most = atomic_load(&used);
            while (most <= index && !atomic_compare_exchange_weak(&used, &most, index + 1))
                continue;
            return;
        }
    }
}

void chroot_remove_thread(uint32_t tid) {
    for (uint32_t i = 0; i < CHROOT_THREADS_MAX; i++) {
        uint32_t index = (tid + i) % CHROOT_THREADS_MAX;
        if (atomic_load(&tids[index]) == tid && replace(index, tid, 0))
            return;
    }
}

static void add_task(uint32_t tid, void *context) {
    (void)context;
    chroot_add_thread(tid);
}

static void forget_threads(void) {
    uint32_t most = atomic_exchange(&used, 0);
    for (uint32_t i = 0; i < most; i++)
        atomic_store(&tids[i], 0);
}

/* chroot_entered is set first, so that a thread which starts while the directory is read adds
 * itself. */
void chroot_prepare(void) {
    long fd = open_lasting_maps();
    if (fd < 0)
        return;
    fds_close(&maps);
    maps = fds_keep((int)fd);
    forget_threads();
    atomic_store(&chroot_entered, true);
    (void)procfs_each_number("/proc/self/task", add_task, NULL);
}

void chroot_after_fork(void) {
    if (!atomic_load(&chroot_entered))
        return;
    fds_close(&maps);
    forget_threads();
    chroot_add_thread((uint32_t)raw_gettid());
}

long chroot_open_maps(void) {
    long fd = open_proc("/proc/thread-self/maps");
    if (fd >= 0 || !fds_ours(&maps))
        return fd;
    long at = system_call3(SYS_lseek, maps.fd, 0, SEEK_SET);
    return at < 0 ? at : maps.fd;
}

void chroot_close_maps(long fd) {
    if (fd != maps.fd)
        raw_close((int)fd);
}

bool chroot_each_thread(void (*visit)(uint32_t tid, void *context), void *context) {
    if (procfs_each_number("/proc/self/task", visit, context))
        return true;
    if (!atomic_load(&chroot_entered))
        return false;
    uint32_t most = atomic_load(&used);
    for (uint32_t i = 0; i < most; i++) {
        uint32_t tid = atomic_load(&tids[i]);
        if (tid)
            visit(tid, context);
    }
    return true;
}
