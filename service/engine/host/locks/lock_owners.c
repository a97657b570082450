/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/host/locks/lock_owners.h"

#include "api/base/clock.h"
#include "service/process/inner_pid.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define KEEP_NS 1000000000ull

static struct lock_owner *slot_of(struct lock_owners *owners, pid_t pid, uint32_t claimed) {
    uint32_t hash = (claimed * 2654435761u ^ (uint32_t)pid * 2246822519u) >> 16;
    return &owners->kept[hash % LOCK_OWNERS_KEPT];
}

static void keep(struct lock_owners *owners, pid_t pid, uint32_t claimed, pid_t tid,
                 uint64_t now_ns) {
    *slot_of(owners, pid, claimed) = (struct lock_owner){pid, tid, claimed, now_ns + KEEP_NS};
}

/* Whether the process is in another pid namespace than this one. */
static bool is_elsewhere(pid_t pid) {
    struct stat ours, theirs;
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)pid);
    return stat("/proc/self/ns/pid", &ours) == 0 && stat(path, &theirs) == 0 &&
           (ours.st_ino != theirs.st_ino || ours.st_dev != theirs.st_dev);
}

static bool has_thread(pid_t pid, uint32_t tid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%u", (int)pid, tid);
    return access(path, F_OK) == 0;
}

/* Keeps an answer for each thread. */
static void scan(struct lock_owners *owners, pid_t pid, uint64_t now_ns) {
    char path[48];
    struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    for (uint32_t i = 0; dir && i < LOCK_OWNERS_THREADS && (entry = readdir(dir)); i++) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid > 0)
            keep(owners, pid, (uint32_t)process_inner_tid(pid, tid), tid, now_ns);
    }
    if (dir)
        closedir(dir);
}

static bool may_scan(struct lock_owners *owners, pid_t pid, uint64_t now_ns) {
    uint64_t *next_ns = &owners->next_scan_ns[(uint32_t)pid % LOCK_OWNERS_SCANS];
    if (now_ns < *next_ns)
        return false;
    *next_ns = now_ns + KEEP_NS;
    return true;
}

pid_t lock_owners_find(struct lock_owners *owners, pid_t pid, uint32_t claimed) {
    uint64_t now_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC);
    const struct lock_owner *slot = slot_of(owners, pid, claimed);
    if (claimed == 0)
        return 0;
    if (slot->pid == pid && slot->claimed == claimed && now_ns < slot->until_ns)
        return slot->tid;
    bool is_scanned = is_elsewhere(pid);
    pid_t tid = !is_scanned && has_thread(pid, claimed) ? (pid_t)claimed : 0;
    keep(owners, pid, claimed, tid, now_ns);
    if (is_scanned && may_scan(owners, pid, now_ns))
        scan(owners, pid, now_ns);
    return slot->pid == pid && slot->claimed == claimed ? slot->tid : 0;
}
