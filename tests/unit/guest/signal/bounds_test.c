/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/signal/bounds.h"

#include "tests/unit/check.h"

#include <sys/mman.h>

#define PAGE 4096u

TEST(bounds_probe_stops_at_the_first_page_that_cannot_be_read) {
    char *pages = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t start = (uint64_t)pages, far = start + 64 * PAGE;
    CHECK(mprotect(pages + 5 * PAGE, PAGE, PROT_NONE) == 0);
    CHECK_INT(bounds_probe(start + 100, far), ==, start + 5 * PAGE);
    CHECK_INT(bounds_probe(start + 100, start + 2 * PAGE), ==, start + 2 * PAGE);
    CHECK_INT(bounds_probe(start + 5 * PAGE + 8, far), ==, start + 5 * PAGE + 8);
    CHECK_INT(bounds_probe(64, far), ==, 64);
    CHECK(munmap(pages, 8 * PAGE) == 0);
    CHECK_INT(bounds_probe(start, far), ==, start);
    CHECK_INT(bounds_probe(1ull << 60, UINT64_MAX), ==, 1ull << 60);
}
