/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/host/process_info.h"

#include "service/engine/core/start_time.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char boot_id[40];

static void read_boot_id(void) {
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, boot_id, sizeof boot_id - 1) : 0;
    boot_id[len > 0 ? len : 0] = 0;
    if (fd >= 0)
        close(fd);
}

static uint64_t mix(uint64_t word) {
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ull;
    word = (word ^ word >> 27) * 0x94d049bb133111ebull;
    return word ^ word >> 31;
}

static uint64_t hash(uint64_t seed, const char *text) {
    for (; *text; text++)
        seed = mix(seed ^ (unsigned char)*text) + 0x9e3779b97f4a7c15ull;
    return mix(seed);
}

void process_info_text_uuid(const char *text, char uuid[33]) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_boot_id);
    uint64_t high = hash(hash(1, boot_id), text), low = hash(hash(2, boot_id), text);
    snprintf(uuid, 33, "%016llx%016llx", (unsigned long long)high, (unsigned long long)low);
}

void process_info_uuid(const struct process_entry *entry, char uuid[33]) {
    char text[96];
    snprintf(text, sizeof text, "process %d %llu %u", (int)entry->pid,
             (unsigned long long)entry->start_ticks, (unsigned)entry->uid);
    process_info_text_uuid(text, uuid);
}

void process_info_fill(const struct process_entry *entry, struct engine_target *info) {
    *info = (struct engine_target){
        .pid = entry->pid,
        .uid = entry->uid,
        .start_unix_ns = start_time_unix_ns(entry->start_ticks),
        .threads = entry->threads,
        .is_unattached = true,
        .cpu_ns = entry->cpu_ns,
    };
    memcpy(info->name, entry->name, sizeof info->name);
    memcpy(info->executable, entry->executable, sizeof info->executable);
    memcpy(info->container, entry->container, sizeof info->container);
    process_info_uuid(entry, info->uuid);
}
