/* SPDX-License-Identifier: Apache-2.0
 *
 * Growth of processes that exist only as sets of pages. */
#include "service/host/resident/grown.h"
#include "tests/unit/check.h"

#include <math.h>

#define PAGE  4096ull
#define CHUNK (RESIDENT_PAGES * PAGE)
#define MANY  65536u

/* A process: what is resident, and the faults that were sampled. */
static struct resident_chunk before_chunks[1024], now_chunks[1024];
static struct resident_set before, now;
static struct grown_sample samples[MANY];
static size_t count;
static struct grown grown;
static double missed;

static void begin(void) {
    before = (struct resident_set){.chunks = before_chunks, .page_bytes = PAGE, .knows_huge = true};
    now = (struct resident_set){.chunks = now_chunks, .page_bytes = PAGE, .knows_huge = true};
    count = 0;
    missed = 1;
    now.fault_pages = 1;
}

/* Adds `pages` pages of a chunk, from its beginning. */
static struct resident_chunk *add(struct resident_set *set, uint64_t number, uint32_t pages,
                                  enum resident_kind kind) {
    struct resident_chunk *chunk = &set->chunks[set->count++];
    *chunk = (struct resident_chunk){.number = number, .kind = kind};
    for (uint32_t i = 0; i < pages; i++)
        chunk->pages[i / 64] |= 1ull << i % 64;
    return chunk;
}

static void fault(uint64_t number, uint32_t page, uint64_t weight, uint32_t tag) {
    samples[count++] = (struct grown_sample){
        .address = number * CHUNK + page * PAGE + 8, .weight = weight, .tag = tag};
}

static void divide(void) {
    CHECK_INT(grown_divide(&before, &now, samples, count, missed, &grown), ==, SONDE_OK);
    uint64_t sum = 0, all = 0;
    for (size_t i = 0; i < count; i++)
        sum += samples[i].bytes;
    for (size_t kind = 0; kind < RESIDENT_KINDS; kind++) {
        sum += grown.no_fault[kind];
        all += grown.grown[kind];
    }
    CHECK_INT(sum, ==, all);
}

static uint64_t pages_of(uint32_t tag) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += samples[i].tag == tag ? samples[i].bytes : 0;
    return (sum + PAGE / 2) / PAGE;
}

TEST(each_new_page_is_of_the_fault_that_brought_it) {
    begin();
    add(&before, 7, 100, RESIDENT_ANONYMOUS);
    add(&now, 7, 300, RESIDENT_ANONYMOUS);
    for (uint32_t page = 100; page < 300; page++)
        fault(7, page, 1, page < 250);
    divide();
    CHECK_INT(pages_of(1), ==, 150);
    CHECK_INT(pages_of(0), ==, 50);
    CHECK_INT(grown.grown[RESIDENT_ANONYMOUS], ==, 200 * PAGE);
    CHECK_INT(grown.no_fault[RESIDENT_ANONYMOUS], ==, 0);
    CHECK_INT(grown.gone, ==, 0);
}

/* As copy-on-write after a fork, NUMA hints, and writes to pages of files have. */
TEST(a_fault_on_a_page_that_was_resident_brings_nothing) {
    begin();
    add(&before, 7, 512, RESIDENT_ANONYMOUS);
    add(&now, 7, 512, RESIDENT_ANONYMOUS);
    for (uint32_t page = 0; page < 512; page++)
        fault(7, page, 1, 1);
    divide();
    CHECK_INT(grown.grown[RESIDENT_ANONYMOUS], ==, 0);
    CHECK_INT(pages_of(1), ==, 0);
}

TEST(a_page_that_comes_back_from_swap_is_not_new) {
    begin();
    struct resident_chunk *chunk = add(&before, 7, 0, RESIDENT_ANONYMOUS);
    chunk->swapped[0] = 0xff;
    add(&now, 7, 16, RESIDENT_ANONYMOUS);
    for (uint32_t page = 0; page < 16; page++)
        fault(7, page, 1, 1);
    divide();
    CHECK_INT(pages_of(1), ==, 8);
    CHECK_INT(grown.back, ==, 8 * PAGE);
}

TEST(a_fault_on_a_page_that_was_given_back_brings_nothing) {
    begin();
    add(&before, 7, 64, RESIDENT_ANONYMOUS);
    add(&now, 8, 1, RESIDENT_ANONYMOUS);
    fault(7, 3, 1, 1);
    fault(9, 3, 1, 1);
    fault(8, 0, 1, 2);
    divide();
    CHECK_INT(pages_of(1), ==, 0);
    CHECK_INT(pages_of(2), ==, 1);
    CHECK_INT(grown.gone, ==, 64 * PAGE);
}

TEST(of_several_faults_of_a_page_the_last_one_has_brought_it) {
    begin();
    add(&now, 7, 2, RESIDENT_ANONYMOUS);
    fault(7, 0, 1, 1);
    fault(7, 1, 1, 1);
    fault(7, 0, 1, 2);
    divide();
    CHECK_INT(pages_of(1), ==, 1);
    CHECK_INT(pages_of(2), ==, 1);
}

TEST(a_huge_page_is_of_its_one_fault_also_if_nobody_says_that_it_is_huge) {
    for (int knows = 0; knows < 2; knows++) {
        begin();
        now.knows_huge = knows;
        for (uint64_t number = 10; number < 14; number++) {
            add(&now, number, 512, RESIDENT_ANONYMOUS)->is_huge = knows;
            fault(number, 17, 1, number == 10);
        }
        divide();
        CHECK_INT(pages_of(1), ==, 512);
        CHECK_INT(pages_of(0), ==, 3 * 512);
        CHECK_INT(grown.huge, ==, knows ? 4 * 512 * PAGE : 0);
    }
}

/* The kernel made a huge page of pages that had faulted one by one. */
TEST(a_huge_page_of_many_faults_is_divided_among_them) {
    begin();
    add(&now, 10, 512, RESIDENT_ANONYMOUS)->is_huge = true;
    for (uint32_t page = 0; page < 512; page++)
        fault(10, page, 1, page < 128);
    divide();
    CHECK_INT(pages_of(1), ==, 128);
}

TEST(a_fault_of_a_file_brings_the_pages_around_it) {
    begin();
    add(&now, 10, 64, RESIDENT_FILE);
    for (uint32_t page = 0; page < 64; page += 16)
        fault(10, page, 1, 1);
    divide();
    CHECK_INT(pages_of(1), ==, 64);
    CHECK_INT(samples[0].kind, ==, RESIDENT_FILE);
    CHECK_INT(grown.grown[RESIDENT_FILE], ==, 64 * PAGE);
}

TEST(a_fault_of_shared_memory_may_bring_a_huge_page) {
    begin();
    add(&now, 10, 512, RESIDENT_SHARED);
    fault(10, 5, 1, 1);
    divide();
    CHECK_INT(pages_of(1), ==, 512);
}

TEST(what_no_fault_can_have_brought_is_nobodys) {
    begin();
    add(&now, 10, 512, RESIDENT_ANONYMOUS);
    add(&now, 20, 512, RESIDENT_SHARED);
    fault(10, 0, 1, 1);
    divide();
    CHECK_INT(pages_of(1), <=, 4); /* within chance, a sample may stand for some faults more */
    CHECK_INT(grown.no_fault[RESIDENT_ANONYMOUS], >=, 508 * PAGE);
    CHECK_INT(grown.no_fault[RESIDENT_SHARED], ==, 512 * PAGE);
}

/* 1,024 new pages, and a fault on every 32nd. */
static uint64_t divide_sparse(double missed_samples, uint32_t fault_pages) {
    begin();
    missed = missed_samples;
    now.fault_pages = fault_pages;
    for (uint64_t number = 10; number < 12; number++) {
        add(&now, number, 512, RESIDENT_ANONYMOUS);
        for (uint32_t page = 0; page < 512; page += 32)
            fault(number, page, 1, 1);
    }
    divide();
    return grown.no_fault[RESIDENT_ANONYMOUS] / PAGE;
}

TEST(faults_whose_samples_were_lost_have_brought_pages) {
    CHECK_INT(divide_sparse(1, 1), >, 900);
    CHECK_INT(divide_sparse(32, 1), ==, 0);
}

TEST(a_fault_may_bring_a_large_folio) {
    CHECK_INT(divide_sparse(1, 32), ==, 0);
}

/* A chunk that is mapped, touched and unmapped all the time, and is there at the last look. Next to
 * it, memory grows. One fault in 64 is sampled. */
TEST(memory_that_comes_and_goes_has_no_more_than_its_own_pages) {
    begin();
    for (uint64_t number = 100; number < 164; number++) {
        add(&now, number, 512, RESIDENT_ANONYMOUS);
        for (uint32_t page = (uint32_t)number % 64; page < 512; page += 64)
            fault(number, page, 64, 1);
    }
    add(&now, 200, 512, RESIDENT_ANONYMOUS);
    for (uint32_t i = 0; i < 20000; i++)
        fault(200, i * 7 % 512, 64, 2);
    divide();
    CHECK_INT(pages_of(2), <=, 512 + 512);
    CHECK_INT(pages_of(1), >=, 64 * 512 - 512);
}

static uint64_t next_random(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* 256 MiB, of which one function has touched a quarter, in turns of 64 KiB with another one. */
TEST(samples_divide_growth_as_all_faults_would) {
    for (uint32_t every = 1; every <= 256; every *= 16) {
        begin();
        for (uint64_t number = 0; number < 128; number++) {
            add(&now, 1000 + number, 512, RESIDENT_ANONYMOUS);
            for (uint32_t page = 0; page < 512; page++)
                if (next_random() % every == 0 && count < MANY)
                    fault(1000 + number, page, every, page / 16 % 4 == 0);
        }
        divide();
        double share = (double)pages_of(1) / (128 * 512);
        double deviation = 0.433 / sqrt((double)count); /* of a quarter */
        CHECK(share > 0.25 - 5 * deviation && share < 0.25 + 5 * deviation);
        CHECK_INT(grown.no_fault[RESIDENT_ANONYMOUS], <=, 128 * 512 * PAGE / 20);
    }
}
