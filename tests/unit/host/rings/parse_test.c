/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/rings/parse.h"
#include "tests/unit/check.h"

#include <stdio.h>

/* A record that is built field by field. */
static struct {
    _Alignas(8) uint8_t bytes[PARSE_MAX_BYTES];
    size_t size;
} built;

static void u32(uint32_t value) {
    memcpy(built.bytes + built.size, &value, 4);
    built.size += 4;
}

static void u64(uint64_t value) {
    memcpy(built.bytes + built.size, &value, 8);
    built.size += 8;
}

static void text(const char *value, size_t field) {
    memset(built.bytes + built.size, 0, field);
    memcpy(built.bytes + built.size, value, strnlen(value, field));
    built.size += field;
}

static void begin(uint32_t type, uint16_t misc) {
    struct perf_event_header header = {.type = type, .misc = misc};
    built.size = 0;
    memcpy(built.bytes, &header, sizeof header);
    built.size = sizeof header;
}

static void id(void) {
    u32(7);     /* pid */
    u32(8);     /* tid */
    u64(12345); /* time */
    u32(3);     /* cpu */
    u32(0);
}

static void set_size(size_t size) {
    uint16_t value = (uint16_t)size;
    memcpy(built.bytes + 6, &value, 2);
}

static enum parsed parse(bool has_kernel, struct host_record *record) {
    set_size(built.size);
    return parse_record(built.bytes, built.size, has_kernel, record);
}

static void sample(bool has_kernel, uint32_t asked, uint32_t copied) {
    begin(PERF_RECORD_SAMPLE, has_kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER);
    id();
    u64(1000000); /* period */
    if (has_kernel) {
        u64(3);
        u64((uint64_t)PERF_CONTEXT_KERNEL);
        u64(0xffffffff81000010);
        u64(0xffffffff81000020);
    }
    u64(PERF_SAMPLE_REGS_ABI_64);
    for (uint64_t i = 0; i < 17; i++)
        u64(0x1000 + i);
    u64(asked);
    for (uint32_t i = 0; i < asked; i++)
        built.bytes[built.size++] = (uint8_t)i;
    if (asked)
        u64(copied);
}

TEST(a_sample_has_its_registers_by_dwarf_number) {
    struct host_record record;
    sample(false, 64, 40);
    CHECK_INT(parse(false, &record), ==, PARSED_RECORD);
    CHECK_INT(record.kind, ==, HOST_SAMPLE);
    CHECK_INT(record.pid, ==, 7);
    CHECK_INT(record.tid, ==, 8);
    CHECK_INT(record.time_ns, ==, 12345);
    CHECK_INT(record.cpu, ==, 3);
    CHECK_INT(record.sample.weight_ns, ==, 1000000);
    CHECK(!record.sample.is_in_kernel);
    CHECK_INT(record.sample.abi, ==, HOST_ABI_64);
    CHECK_INT(record.sample.registers.known, ==, UNWIND_ALL_KNOWN);
    /* perf: ax bx cx dx si di bp sp ip r8-r15; DWARF: ax dx cx bx si di bp sp r8-r15 ip */
    static const int perf[] = {0, 3, 2, 1, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 8};
    for (int i = 0; i < 17; i++)
        CHECK_INT(record.sample.registers.value[i], ==, 0x1000 + perf[i]);
    CHECK_INT(record.sample.asked_bytes, ==, 64);
    CHECK_INT(record.sample.stack_bytes, ==, 40);
    CHECK_INT(record.sample.stack[39], ==, 39);
    CHECK_INT(record.sample.kernel_count, ==, 0);
}

TEST(a_sample_of_a_page_fault_has_its_address) {
    struct host_record record;
    begin(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
    u32(7);
    u32(8);
    u64(12345);
    u64(0x7f0012345678);
    u32(3);
    u32(0);
    u64(PERF_SAMPLE_REGS_ABI_NONE);
    u64(0);
    set_size(built.size);
    CHECK_INT(parse_record(built.bytes, built.size, PARSE_ADDRESS | PARSE_NO_PERIOD, &record), ==,
              PARSED_RECORD);
    CHECK_INT(record.pid, ==, 7);
    CHECK_INT(record.time_ns, ==, 12345);
    CHECK_INT(record.cpu, ==, 3);
    CHECK(record.sample.address == 0x7f0012345678);
    set_size(32);
    CHECK_INT(parse_record(built.bytes, 32, PARSE_ADDRESS | PARSE_NO_PERIOD, &record), ==,
              PARSED_INVALID);
}

TEST(a_sample_in_the_kernel_has_the_kernels_frames) {
    struct host_record record;
    sample(true, 8, 0);
    CHECK_INT(parse(true, &record), ==, PARSED_RECORD);
    CHECK(record.sample.is_in_kernel);
    CHECK_INT(record.sample.kernel_count, ==, 2);
    CHECK(record.sample.kernel[0] == 0xffffffff81000010);
    CHECK(record.sample.kernel[1] == 0xffffffff81000020);
    CHECK_INT(record.sample.stack_bytes, ==, 0);
}

static void chain_sample(const uint64_t *chain, uint64_t count) {
    begin(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL);
    id();
    u64(1000000);
    u64(count);
    for (uint64_t i = 0; i < count; i++)
        u64(chain[i]);
    u64(PERF_SAMPLE_REGS_ABI_NONE);
    u64(0);
}

TEST(only_frames_after_the_kernels_marker_count) {
    struct host_record record;
    const uint64_t user[] = {(uint64_t)PERF_CONTEXT_USER, 0x1234};
    chain_sample(user, 2);
    CHECK_INT(parse(true, &record), ==, PARSED_RECORD);
    CHECK_INT(record.sample.kernel_count, ==, 0);
    const uint64_t both[] = {(uint64_t)PERF_CONTEXT_KERNEL, 0x10, (uint64_t)PERF_CONTEXT_USER, 9};
    chain_sample(both, 4);
    CHECK_INT(parse(true, &record), ==, PARSED_RECORD);
    CHECK_INT(record.sample.kernel_count, ==, 1);
    uint64_t many[HOST_MAX_KERNEL + 50];
    many[0] = (uint64_t)PERF_CONTEXT_KERNEL;
    for (size_t i = 1; i < sizeof many / sizeof *many; i++)
        many[i] = i;
    chain_sample(many, sizeof many / sizeof *many);
    CHECK_INT(parse(true, &record), ==, PARSED_RECORD);
    CHECK_INT(record.sample.kernel_count, ==, HOST_MAX_KERNEL);
    chain_sample(NULL, 0);
    CHECK_INT(parse(true, &record), ==, PARSED_RECORD);
    CHECK_INT(record.sample.kernel_count, ==, 0);
}

TEST(a_kernel_thread_has_no_registers_and_no_stack) {
    struct host_record record;
    chain_sample(NULL, 0);
    CHECK_INT(parse(true, &record), ==, PARSED_RECORD);
    CHECK_INT(record.sample.abi, ==, HOST_ABI_NONE);
    CHECK_INT(record.sample.registers.known, ==, 0);
    CHECK_INT(record.sample.stack_bytes, ==, 0);
}

TEST(a_sample_whose_parts_do_not_fit_is_invalid) {
    struct host_record record;
    sample(true, 64, 65); /* more copied than asked */
    CHECK_INT(parse(true, &record), ==, PARSED_INVALID);
    static const uint64_t counts[] = {4000, 1ull << 61, UINT64_MAX, UINT64_MAX / 8};
    for (int i = 0; i < 4; i++) {
        sample(true, 64, 64);
        memcpy(built.bytes + 40, &counts[i], 8); /* frames */
        CHECK_INT(parse(true, &record), ==, PARSED_INVALID);
        sample(false, 64, 64);
        memcpy(built.bytes + 40 + 8 + 17 * 8, &counts[i], 8); /* bytes of the stack */
        CHECK_INT(parse(false, &record), ==, PARSED_INVALID);
    }
    sample(false, 8, 8);
    built.bytes[40] = 3; /* an ABI that does not exist */
    CHECK_INT(parse(false, &record), ==, PARSED_INVALID);
}

TEST(every_cut_of_a_sample_is_invalid) {
    struct host_record record;
    sample(true, 64, 64);
    size_t whole = built.size;
    for (size_t size = 0; size < whole; size++) {
        set_size(size);
        CHECK_INT(parse_record(built.bytes, size, true, &record), ==, PARSED_INVALID);
    }
}

TEST(a_size_that_is_not_the_headers_is_invalid) {
    struct host_record record;
    uint64_t time_ns;
    sample(true, 64, 64);
    set_size(built.size - 8);
    CHECK_INT(parse_record(built.bytes, built.size, true, &record), ==, PARSED_INVALID);
    CHECK(!parse_time(built.bytes, built.size, &time_ns));
}

static void mapping(uint64_t start, uint64_t bytes, const char *path) {
    begin(PERF_RECORD_MMAP2, 0);
    u32(7);
    u32(8);
    u64(start);
    u64(bytes);
    u64(0x2000); /* offset */
    u32(8);
    u32(1);
    u64(99); /* inode */
    u64(77); /* its generation */
    u32(5);
    u32(2);
    text(path, (strlen(path) + 8) & ~7u);
    id();
}

TEST(a_mapping_has_its_file) {
    struct host_record record;
    mapping(0x400000, 0x5000, "/usr/bin/redis-server");
    CHECK_INT(parse(false, &record), ==, PARSED_RECORD);
    CHECK_INT(record.kind, ==, HOST_MMAP);
    CHECK_INT(record.pid, ==, 7);
    CHECK_INT(record.time_ns, ==, 12345);
    CHECK_INT(record.mmap.start, ==, 0x400000);
    CHECK_INT(record.mmap.end, ==, 0x405000);
    CHECK_INT(record.mmap.offset, ==, 0x2000);
    CHECK_INT(record.mmap.inode, ==, 99);
    CHECK_INT(record.mmap.inode_generation, ==, 77);
    CHECK_INT(record.mmap.device_major, ==, 8);
    CHECK_INT(record.mmap.device_minor, ==, 1);
    CHECK_STR(record.mmap.path, "/usr/bin/redis-server");
    mapping(0x400000, 0x5000, "//anon");
    CHECK_INT(parse(false, &record), ==, PARSED_RECORD);
    CHECK_STR(record.mmap.path, "");
}

TEST(mappings_that_wrap_or_have_no_end_are_invalid) {
    struct host_record record;
    mapping(UINT64_MAX - 10, 0x1000, "/x");
    CHECK_INT(parse(false, &record), ==, PARSED_INVALID);
    mapping(0x1000, 0, "/x");
    CHECK_INT(parse(false, &record), ==, PARSED_INVALID);
    mapping(0x1000, 0x1000, "/seven7");
    built.bytes[72 + 7] = 'x'; /* instead of the NUL */
    CHECK_INT(parse(false, &record), ==, PARSED_INVALID);
    static char longest[HOST_PATH_BYTES + 1];
    memset(longest, 'p', HOST_PATH_BYTES);
    mapping(0x1000, 0x1000, longest);
    CHECK_INT(parse(false, &record), ==, PARSED_INVALID);
}

TEST(names_forks_exits_and_losses_are_told) {
    struct host_record record;
    begin(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
    u32(7);
    u32(8);
    text("worker", 8);
    id();
    CHECK_INT(parse(false, &record), ==, PARSED_RECORD);
    CHECK_INT(record.kind, ==, HOST_COMM);
    CHECK_STR(record.comm.name, "worker");
    CHECK(record.comm.is_exec);
    for (int is_exit = 0; is_exit < 2; is_exit++) {
        begin(is_exit ? PERF_RECORD_EXIT : PERF_RECORD_FORK, 0);
        u32(20);
        u32(7);
        u32(21);
        u32(8);
        u64(5);
        id();
        CHECK_INT(parse(false, &record), ==, PARSED_RECORD);
        CHECK_INT(record.kind, ==, is_exit ? HOST_EXIT : HOST_FORK);
        CHECK_INT(record.pid, ==, 20);
        CHECK_INT(record.tid, ==, 21);
        CHECK_INT(record.fork.parent_pid, ==, is_exit ? 0 : 7);
        CHECK_INT(record.fork.parent_tid, ==, is_exit ? 0 : 8);
    }
    begin(PERF_RECORD_LOST, 0);
    u64(1);
    u64(42);
    id();
    CHECK_INT(parse(false, &record), ==, PARSED_RECORD);
    CHECK_INT(record.kind, ==, HOST_LOST);
    CHECK_INT(record.lost, ==, 42);
    CHECK_INT(record.pid, ==, 0);
    begin(PERF_RECORD_LOST_SAMPLES, 0);
    u64(43);
    id();
    CHECK_INT(parse(false, &record), ==, PARSED_RECORD);
    CHECK_INT(record.lost, ==, 43);
}

TEST(a_name_without_an_end_is_invalid) {
    struct host_record record;
    begin(PERF_RECORD_COMM, 0);
    u32(7);
    u32(8);
    text("sixteen bytes!!!", 16);
    id();
    CHECK_INT(parse(false, &record), ==, PARSED_INVALID);
    begin(PERF_RECORD_COMM, 0);
    u32(7);
    u32(8);
    text("more than sixteen bytes", 24);
    id();
    CHECK_INT(parse(false, &record), ==, PARSED_INVALID);
}

TEST(kinds_that_nobody_needs_are_nothing_and_have_a_time) {
    struct host_record record;
    uint64_t time_ns = 0;
    begin(PERF_RECORD_THROTTLE, 0);
    u64(1);
    u64(2);
    u64(3);
    id();
    CHECK_INT(parse(false, &record), ==, PARSED_NOTHING);
    CHECK(parse_time(built.bytes, built.size, &time_ns));
    CHECK_INT(time_ns, ==, 12345);
    begin(PERF_RECORD_THROTTLE, 0);
    u64(1);
    set_size(built.size);
    CHECK(!parse_time(built.bytes, built.size, &time_ns));
    CHECK_INT(parse(false, &record), ==, PARSED_INVALID);
}

TEST(a_process_outside_of_this_namespace_is_zero) {
    struct host_record record;
    sample(false, 8, 8);
    int32_t none = -1;
    memcpy(built.bytes + 8, &none, 4);
    CHECK_INT(parse(false, &record), ==, PARSED_RECORD);
    CHECK_INT(record.pid, ==, 0);
    CHECK_INT(record.tid, ==, 8);
}

TEST(a_sample_without_a_period_has_no_weight) {
    struct host_record record;
    begin(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
    id();
    u64(PERF_SAMPLE_REGS_ABI_NONE);
    u64(0); /* no stack */
    set_size(built.size);
    CHECK_INT(parse_record(built.bytes, built.size, PARSE_NO_PERIOD, &record), ==, PARSED_RECORD);
    CHECK_INT(record.sample.weight_ns, ==, 0);
    CHECK_INT(record.time_ns, ==, 12345);
    /* Read as one with a period, it is too short. */
    CHECK_INT(parse_record(built.bytes, built.size, 0, &record), ==, PARSED_INVALID);
}

/* Hardware events at a rate: the kernel says how many each sample stands for. */
TEST(the_weight_of_a_sample_is_the_period_that_the_kernel_says) {
    struct host_record record;
    begin(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
    id();
    u64(1ull << 40);
    u64(PERF_SAMPLE_REGS_ABI_NONE);
    u64(0);
    set_size(built.size);
    CHECK_INT(parse_record(built.bytes, built.size, 0, &record), ==, PARSED_RECORD);
    CHECK_INT(record.sample.weight_ns, ==, 1ull << 40);
}
