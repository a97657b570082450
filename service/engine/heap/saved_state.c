/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/heap/saved_state.h"

#include <inttypes.h>
#include <string.h>

#define MAX_LINES 100100 /* one per dump, and the first five */

void heap_saved_state_write(const struct heap_saved_state *memory, const struct heap_dumps *dumps,
                            FILE *file) {
    fprintf(file,
            "sonde-heap 1\nprocess %" PRId32 " ticks %" PRIu64 " uid %" PRIu32
            "\nactive %d since %" PRId64 " lease %" PRId64 " interval %u keep %u %" PRIu64
            " epoch %" PRIu64 "\nowner %s\nname %s\n",
            memory->pid, memory->ticks, memory->uid, memory->active, memory->since_unix_ns,
            memory->lease_until_unix_ns, memory->interval_s, memory->keep_dumps, memory->keep_bytes,
            memory->epoch, memory->owner, memory->name);
    for (uint32_t i = 0; i < dumps->count; i++)
        fprintf(file, "dump %06u epoch %" PRIu64 "\n", dumps->items[i].number,
                dumps->items[i].epoch);
}

static bool is_sound(const struct heap_saved_state *memory) {
    return memory->since_unix_ns >= 0 && memory->lease_until_unix_ns >= 0 &&
           memory->interval_s <= HEAP_MEMORY_MAX_INTERVAL_S && memory->keep_dumps > 0 &&
           memory->keep_bytes > 0 && memory->epoch > 0 && memory->epoch < UINT64_MAX / 2;
}

static void read_activity(struct heap_saved_state *memory, const char *line) {
    struct heap_saved_state said = *memory;
    int active = 0;
    if (sscanf(line,
               "active %d since %" SCNd64 " lease %" SCNd64 " interval %u keep %u %" SCNu64
               " epoch %" SCNu64,
               &active, &said.since_unix_ns, &said.lease_until_unix_ns, &said.interval_s,
               &said.keep_dumps, &said.keep_bytes, &said.epoch) != 7 ||
        !is_sound(&said))
        return;
    said.active = active == 1;
    *memory = said;
}

/* We never write a longer line. */
static void read_text(char *into, size_t size, const char *text) {
    size_t len = strcspn(text, "\n");
    if (len >= size)
        return;
    memcpy(into, text, len);
    into[len] = 0;
}

static void read_dump(struct heap_dumps *dumps, const char *line) {
    uint32_t number;
    uint64_t epoch;
    if (!dumps || sscanf(line, "dump %u epoch %" SCNu64, &number, &epoch) != 2)
        return;
    for (uint32_t i = 0; i < dumps->count; i++)
        if (dumps->items[i].number == number)
            dumps->items[i].epoch = epoch;
}

void heap_saved_state_read(struct heap_saved_state *memory, struct heap_dumps *dumps, FILE *file) {
    char line[512];
    int32_t pid;
    uint64_t ticks;
    uint32_t uid;
    if (!fgets(line, sizeof line, file) || strcmp(line, "sonde-heap 1\n") != 0)
        return;
    for (int i = 0; i < MAX_LINES && fgets(line, sizeof line, file); i++) {
        uid = memory->uid;
        if (sscanf(line, "process %" SCNd32 " ticks %" SCNu64 " uid %" SCNu32, &pid, &ticks,
                   &uid) >= 2) {
            memory->pid = pid;
            memory->ticks = ticks;
            memory->uid = uid;
        } else if (strncmp(line, "active ", 7) == 0) {
            read_activity(memory, line);
        } else if (strncmp(line, "owner ", 6) == 0) {
            read_text(memory->owner, sizeof memory->owner, line + 6);
        } else if (strncmp(line, "name ", 5) == 0) {
            read_text(memory->name, sizeof memory->name, line + 5);
        } else {
            read_dump(dumps, line);
        }
    }
}
