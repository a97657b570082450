/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/address_space.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define MIB (1ull << 20)

/* VmSize or VmData in bytes. */
static uint64_t usage(const char *name) {
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), " %llu", &kib);
    fclose(file);
    CHECK(kib > 0);
    return kib * 1024;
}

/* Leaves the process that much, and returns the limit of before. */
static struct rlimit limit_to(int resource, uint64_t room) {
    struct rlimit before, limit;
    CHECK_INT(getrlimit(resource, &before), ==, 0);
    limit = before;
    limit.rlim_cur = usage(resource == RLIMIT_AS ? "VmSize:" : "VmData:") + room;
    CHECK_INT(setrlimit(resource, &limit), ==, 0);
    return before;
}

TEST(without_limits_everything_is_allowed) {
    char reason[200] = "";
    CHECK(address_space_allows(ADDRESS_SPACE_PRIVATE, 1ull << 40));
    address_space_reason(reason, sizeof reason);
    CHECK_STR(reason, "");
}

TEST(an_eighth_of_what_rlimit_as_leaves_is_allowed) {
    struct rlimit before = limit_to(RLIMIT_AS, 800 * MIB);
    bool has_more = address_space_allows(ADDRESS_SPACE_SHARED, 110 * MIB);
    bool has_less = address_space_allows(ADDRESS_SPACE_SHARED, 90 * MIB);
    CHECK_INT(setrlimit(RLIMIT_AS, &before), ==, 0);
    CHECK(!has_more);
    CHECK(has_less);
}

TEST(rlimit_data_counts_private_memory_only) {
    struct rlimit before = limit_to(RLIMIT_DATA, 80 * MIB);
    bool has_shared = address_space_allows(ADDRESS_SPACE_SHARED, 20 * MIB);
    bool has_private = address_space_allows(ADDRESS_SPACE_PRIVATE, 20 * MIB);
    char reason[200] = "";
    address_space_reason(reason, sizeof reason);
    CHECK_INT(setrlimit(RLIMIT_DATA, &before), ==, 0);
    CHECK(has_shared);
    CHECK(!has_private);
    CHECK(strstr(reason, "RLIMIT_DATA leaves "));
    CHECK(strstr(reason, "ulimit -d"));
}

TEST(a_refusal_names_the_limit_and_what_is_needed_once) {
    char reason[200] = "", again[200] = "";
    struct rlimit before = limit_to(RLIMIT_AS, 16 * MIB);
    void *place = address_space_reserve(40 * MIB);
    CHECK_INT(setrlimit(RLIMIT_AS, &before), ==, 0);
    address_space_reason(reason, sizeof reason);
    address_space_reason(again, sizeof again);
    CHECK(!place);
    CHECK(strstr(reason, "RLIMIT_AS leaves "));
    CHECK(strstr(reason, "needs 40 MiB; raise the limit (ulimit -v"));
    CHECK_INT(strlen(reason), <, 160); /* HeapAnswer.reason */
    CHECK_STR(again, "");
}

TEST(memory_that_is_allowed_can_be_used) {
    struct rlimit before = limit_to(RLIMIT_AS, 800 * MIB);
    char *place = address_space_reserve(10 * MIB);
    CHECK_INT(setrlimit(RLIMIT_AS, &before), ==, 0);
    CHECK(place && place[0] == 0);
    place[10 * MIB - 1] = 1;
    munmap(place, 10 * MIB);
}
