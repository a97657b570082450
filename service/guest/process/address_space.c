/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/address_space.h"

#include "service/guest/process/append.h"
#include "service/guest/process/procfs.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define PAGE      4096ull
#define UNLIMITED UINT64_MAX

/* Fields of /proc/thread-self/statm, in pages. */
enum { STATM_SIZE, STATM_DATA = 5, STATM_FIELDS };

static struct {
    _Atomic uint64_t needed, room; /* bytes; needed 0 = nothing was refused */
    _Atomic bool is_data;          /* by RLIMIT_DATA */
} refusal;

static bool read_usage(uint64_t fields[STATM_FIELDS]) {
    char text[128], *at = text;
    if (procfs_read_file("/proc/thread-self/statm", text, sizeof text) <= 0)
        return false;
    for (int i = 0; i < STATM_FIELDS; i++) {
        char *end;
        fields[i] = strtoul(at, &end, 10) * PAGE;
        if (end == at)
            return false;
        at = end;
    }
    return true;
}

static uint64_t limit_of(int resource) {
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur
                                                                               : UNLIMITED;
}

static uint64_t room_of(uint64_t limit, bool is_known, uint64_t used) {
    if (limit == UNLIMITED)
        return UNLIMITED;
    used = is_known ? used : limit / 2;
    return used < limit ? limit - used : 0;
}

bool address_space_allows(enum address_space_kind kind, uint64_t bytes) {
    uint64_t space = limit_of(RLIMIT_AS), used[STATM_FIELDS] = {0};
    uint64_t data = kind == ADDRESS_SPACE_PRIVATE ? limit_of(RLIMIT_DATA) : UNLIMITED;
    if (space == UNLIMITED && data == UNLIMITED)
        return true;
    bool is_known = read_usage(used);
    uint64_t space_room = room_of(space, is_known, used[STATM_SIZE]);
    uint64_t data_room = room_of(data, is_known, used[STATM_DATA]);
    uint64_t room = data_room < space_room ? data_room : space_room;
    if (bytes <= room / ADDRESS_SPACE_SHARE)
        return true;
    atomic_store(&refusal.is_data, data_room < space_room);
    atomic_store(&refusal.room, room);
    atomic_store(&refusal.needed, bytes);
    return false;
}

void *address_space_reserve(size_t bytes) {
    if (!address_space_allows(ADDRESS_SPACE_PRIVATE, bytes))
        return NULL;
    void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return place == MAP_FAILED ? NULL : place;
}

void address_space_forget(void) {
    atomic_store(&refusal.needed, 0);
}

bool address_space_reason(char *buffer, size_t size) {
    uint64_t needed = atomic_exchange(&refusal.needed, 0);
    bool is_data = atomic_load(&refusal.is_data);
    if (!needed)
        return false;
    append_text(buffer, size, is_data ? "RLIMIT_DATA leaves " : "RLIMIT_AS leaves ");
    append_number(buffer, size, atomic_load(&refusal.room) >> 20);
    append_text(buffer, size, " MiB free, of which Sonde takes at most 1/8, and it needs ");
    append_number(buffer, size, (needed + (1u << 20) - 1) >> 20);
    append_text(buffer, size,
                is_data ? " MiB; raise the limit (ulimit -d, LimitDATA=)"
                        : " MiB; raise the limit (ulimit -v, LimitAS=)");
    return true;
}
