/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/rings.h"

#include "service/guest/process/address_space.h"
#include "service/guest/process/fds.h"
#include "service/guest/raw.h"
#include "service/guest/signal/push.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define STALL_NS     1500000000ull
#define RECORD_BYTES 400u  /* of a sample with 44 frames */
#define MIN_RATE_HZ  1000u /* leaves room for a faster capture that joins later */
#define SKEW         2u    /* busy threads may share a ring */

static struct fds_file memory = FDS_NONE;
static bool is_limited; /* the rings are smaller than planned */

uint64_t rings_plan(uint64_t period_ns, uint32_t cpus, uint32_t *count) {
    uint32_t rings = 1;
    while (rings * 2 <= cpus && rings * 2 <= RING_MAX_RINGS)
        rings *= 2;
    uint64_t rate = 1000000000ull / (period_ns ? period_ns : 1);
    if (rate < MIN_RATE_HZ)
        rate = MIN_RATE_HZ;
    uint64_t wanted = rate * cpus * SKEW * RECORD_BYTES / rings * STALL_NS / 1000000000ull;
    uint64_t bytes = RING_MIN_BYTES;
    while (bytes < wanted && bytes < RING_MAX_BYTES)
        bytes *= 2;
    *count = rings;
    return bytes;
}

static size_t total_bytes(uint32_t count, uint64_t bytes) {
    return RING_PAGE + (size_t)count * (RING_PAGE + bytes);
}

/* Halves the rings until the program's limits allow them. 0 = not even the smallest. */
static uint64_t allowed_bytes(uint32_t count, uint64_t bytes) {
    is_limited = false;
    while (!address_space_allows(ADDRESS_SPACE_SHARED, total_bytes(count, bytes))) {
        if (bytes == RING_MIN_BYTES)
            return 0;
        is_limited = true;
        bytes /= 2;
    }
    address_space_forget();
    return bytes;
}

bool rings_suffice(uint64_t period_ns, uint32_t cpus) {
    uint32_t count;
    uint64_t bytes = rings_plan(period_ns, cpus, &count);
    return is_limited || handler_state.rings.count * handler_state.rings.bytes >= count * bytes;
}

/* Sealed against shrinking, which would turn the other side's loads into SIGBUS. */
static int make_memory(size_t total) {
    int fd = raw_memfd("sonde-rings");
    if (fd < 0)
        return -fd;
    memory = fds_keep(fd);
    if (ftruncate(memory.fd, (off_t)total) != 0 ||
        fcntl(memory.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return errno;
    return 0;
}

int rings_create(uint64_t period_ns, uint32_t cpus) {
    uint32_t count;
    uint64_t planned = rings_plan(period_ns, cpus, &count), bytes = allowed_bytes(count, planned);
    size_t total = total_bytes(count, bytes);
    int error = bytes ? make_memory(total) : ENOMEM;
    void *place = MAP_FAILED;
    if (!error) {
        place = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, 0);
        error = place == MAP_FAILED ? errno : 0;
    }
    if (error) {
        fds_close(&memory);
        return error;
    }
    madvise(place, total, MADV_DONTFORK);
    struct ring_header *header = place;
    header->version = 1;
    header->ring_count = count;
    header->ring_bytes = bytes;
    header->magic = RING_MAGIC;
    handler_state.rings = (struct ring_set){header, count, bytes};
    return 0;
}

void rings_destroy(void) {
    if (!handler_state.rings.header)
        return;
    munmap(handler_state.rings.header,
           total_bytes(handler_state.rings.count, handler_state.rings.bytes));
    fds_close(&memory);
    handler_state.rings = (struct ring_set){NULL, 0, 0};
}

void rings_after_fork(void) {
    fds_close(&memory);
    handler_state.rings = (struct ring_set){NULL, 0, 0};
}

int rings_fd(void) {
    return fds_ours(&memory) ? memory.fd : -1;
}

bool rings_drained(void) {
    return rings_read_bytes() == rings_written_bytes();
}

uint64_t rings_read_bytes(void) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < handler_state.rings.count; i++)
        sum += atomic_load(&ring_control_of(&handler_state.rings, i)->tail);
    return sum;
}

uint64_t rings_written_bytes(void) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < handler_state.rings.count; i++)
        sum += atomic_load(&ring_control_of(&handler_state.rings, i)->head);
    return sum;
}

void rings_punch(void) {
    for (uint32_t i = 0; rings_fd() >= 0 && i < handler_state.rings.count; i++) {
        off_t data = (off_t)(RING_PAGE + i * (RING_PAGE + handler_state.rings.bytes) + RING_PAGE);
        fallocate(memory.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, data,
                  (off_t)handler_state.rings.bytes);
    }
}
