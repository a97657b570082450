/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes in a perf ring. The first 8 bytes are options; the rest is what the kernel wrote, at a
 * position that lets it wrap around. Each record is parsed from a block of its own size, so that a
 * sanitizer sees reads outside of it. */
#include "service/host/rings/parse.h"
#include "service/host/rings/ring.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DATA 8192u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct perf_event_mmap_page *page;
static struct ring ring;

static void make_ring(void) {
    int fd = memfd_create("ring", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 4096 + DATA))
        abort();
    page = mmap(NULL, 4096 + DATA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED || ring_map(&ring, fd, DATA))
        abort();
    close(fd);
}

static void fill(const uint8_t *from, size_t size, uint64_t at) {
    uint8_t *to = (uint8_t *)page + 4096;
    page->data_tail = at;
    page->data_head = at + size;
    for (size_t i = 0; i < size; i++)
        to[(at + i) % DATA] = from[i];
    ring.tail = ring.head = at;
    ring.record_size = 0;
}

static uint64_t sum_of(const struct host_record *record) {
    uint64_t sum = 0;
    if (record->kind == HOST_SAMPLE) {
        const struct host_sample *sample = &record->sample;
        if (sample->stack_bytes > sample->asked_bytes || sample->kernel_count > HOST_MAX_KERNEL)
            abort();
        for (uint32_t i = 0; i < sample->stack_bytes; i++)
            sum += sample->stack[i];
        for (uint32_t i = 0; i < sample->kernel_count; i++)
            sum += sample->kernel[i];
    }
    if (record->kind == HOST_MMAP) {
        if (strlen(record->mmap.path) >= HOST_PATH_BYTES || record->mmap.end <= record->mmap.start)
            abort();
    }
    if (record->kind == HOST_COMM && strlen(record->comm.name) >= HOST_COMM_BYTES)
        abort();
    if (record->pid < 0 || record->tid < 0)
        abort();
    return sum;
}

static void parse(const uint8_t *from, size_t size, unsigned how) {
    uint8_t *bytes = malloc(size);
    struct host_record record;
    uint64_t time_ns = 0, sum = 0;
    memcpy(bytes, from, size);
    bool has_time = parse_time(bytes, size, &time_ns);
    if (parse_record(bytes, size, how, &record) == PARSED_RECORD) {
        sum = sum_of(&record);
        if (!has_time || time_ns != record.time_ns)
            abort();
    }
    __asm__ volatile("" : : "r"(sum));
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static _Alignas(8) uint8_t space[PARSE_MAX_BYTES];
    const uint8_t *record;
    enum ring_look look;
    if (size < 8 || size - 8 > DATA)
        return 0;
    if (!page)
        make_ring();
    fill(data + 8, size - 8, (data[1] | (uint64_t)data[2] << 8) * 8);
    while ((look = ring_peek(&ring, space, &record)) == RING_RECORD) {
        parse(record, ring.record_size, data[0] & 7);
        ring_pop(&ring);
        ring_release(&ring);
    }
    if (page->data_tail != page->data_head)
        abort(); /* read to its end or emptied */
    return 0;
}
