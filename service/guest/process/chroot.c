/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/chroot.h"

#include "service/guest/process/fds.h"
#include "service/guest/process/limits.h"
#include "service/guest/raw.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

_Atomic bool jail_entered;
static struct fds_file maps = FDS_NONE;
static _Atomic uint32_t tids[JAIL_THREADS];
static _Atomic uint32_t used; /* places below it may hold a tid */

static long open_proc(const char *path) {
    return raw_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0);
}

static bool put(uint32_t place, uint32_t old, uint32_t tid) {
    return atomic_compare_exchange_strong(&tids[place], &old, tid);
}

/* From a place that is the thread's own, mostly; where the list is full it is not sampled. */
void jail_add(uint32_t tid) {
    for (uint32_t i = 0; i < JAIL_THREADS; i++) {
        uint32_t place = (tid + i) % JAIL_THREADS;
        if (atomic_load(&tids[place]) == 0 && put(place, 0, tid)) {
            uint32_t most = atomic_load(&used);
            while (most <= place && !atomic_compare_exchange_weak(&used, &most, place + 1))
                continue;
            return;
        }
    }
}

void jail_remove(uint32_t tid) {
    for (uint32_t i = 0; i < JAIL_THREADS; i++) {
        uint32_t place = (tid + i) % JAIL_THREADS;
        if (atomic_load(&tids[place]) == tid && put(place, tid, 0))
            return;
    }
}

static void add_task(uint32_t tid, void *context) {
    (void)context;
    jail_add(tid);
}

static void clear(void) {
    uint32_t most = atomic_exchange(&used, 0);
    for (uint32_t i = 0; i < most; i++)
        atomic_store(&tids[i], 0);
}

/* Threads that begin while the list is read are on it by their own hand. Where there is no /proc
 * any more what was taken along before is all there is. */
void jail_prepare(void) {
    long fd = open_proc("/proc/self/maps");
    if (fd < 0)
        return;
    fds_close(&maps);
    maps = fds_keep((int)fd);
    clear();
    atomic_store(&jail_entered, true);
    (void)limits_each_number("/proc/self/task", add_task, NULL);
}

void jail_after_fork(void) {
    if (!atomic_load(&jail_entered))
        return;
    fds_close(&maps);
    clear();
    jail_add((uint32_t)raw_gettid());
}

long jail_open_maps(void) {
    long fd = open_proc("/proc/self/maps");
    if (fd >= 0 || !fds_ours(&maps))
        return fd;
    long at = raw_call3(SYS_lseek, maps.fd, 0, SEEK_SET);
    return at < 0 ? at : maps.fd;
}

void jail_close_maps(long fd) {
    if (fd != maps.fd)
        raw_close((int)fd);
}

bool jail_each_task(void (*visit)(uint32_t tid, void *context), void *context) {
    if (limits_each_number("/proc/self/task", visit, context))
        return true;
    if (!atomic_load(&jail_entered))
        return false;
    uint32_t most = atomic_load(&used);
    for (uint32_t i = 0; i < most; i++) {
        uint32_t tid = atomic_load(&tids[i]);
        if (tid)
            visit(tid, context);
    }
    return true;
}
