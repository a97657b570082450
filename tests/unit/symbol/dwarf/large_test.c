/* SPDX-License-Identifier: Apache-2.0
 *
 * S13: the line table of a large file is built within the memory limits of the worker and of this
 * process, and every address is resolved. LARGE_MB is the size; large_2gb_test uses more than 2
 * GB. */
#include "tests/unit/check.h"
#include "tests/unit/symbol/dwarf/corpus.h"
#include "tests/unit/symbol/dwarf/large_dwarf.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define SAMPLES         4096u
#define WORKER_PEAK_KIB (256l << 10)
#define OWN_GROWTH_KIB  (32l << 10)
#define WAIT_MS         900000u

static long peak_kib(int who) {
    struct rusage usage;
    CHECK_INT(getrusage(who, &usage), ==, 0);
    return usage.ru_maxrss;
}

static double children_cpu(void) {
    struct rusage usage;
    CHECK_INT(getrusage(RUSAGE_CHILDREN, &usage), ==, 0);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 +
           (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
}

/* Addresses in all functions, at varying offsets. */
static uint32_t function_of(const struct large_dwarf *large, uint32_t sample) {
    return (uint32_t)((uint64_t)sample * (large->functions - 1) / (SAMPLES - 1));
}

static void check_answer(const struct symbol_answer *answer, uint32_t function, uint32_t byte) {
    char name[64];
    bool inlined = byte >= 64 && byte < 96;
    CHECK_INT(answer->quality, ==, SYMBOL_FULL);
    CHECK_INT(answer->frame_count, ==, inlined ? 2 : 1);
    snprintf(name, sizeof name, "function_%08u", function);
    CHECK_STR(answer->frames[inlined].name, name);
    CHECK_INT(answer->frames[0].line, ==, byte / 16 + 1);
    CHECK(strstr(answer->frames[0].file, "/src/unit_"));
    if (inlined) {
        snprintf(name, sizeof name, "inlined_%u", function / 512);
        CHECK_STR(answer->frames[0].name, name);
        CHECK_INT(answer->frames[1].line, ==, function % 1000 + 3);
    }
}

static void check_answers(struct symbol_store *store, const char *path,
                          const struct large_dwarf *large) {
    static struct symbol_query queries[SAMPLES];
    static struct symbol_answer answers[SAMPLES];
    struct symbol_module *module = fixture_module(store, path);
    struct sonde_arena arena = {0};
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint64_t start = (uint64_t)function_of(large, i) * LARGE_DWARF_FUNCTION;
        queries[i] = (struct symbol_query){
            .module = module, .vaddr = LARGE_DWARF_BASE + start + i * 37 % LARGE_DWARF_FUNCTION};
    }
    CHECK_INT(symbol_resolve_wait(store, queries, SAMPLES, WAIT_MS, &arena, answers), ==, SONDE_OK);
    for (uint32_t i = 0; i < SAMPLES; i++)
        check_answer(&answers[i], function_of(large, i), i * 37 % LARGE_DWARF_FUNCTION);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
}

static void wait_for_table(struct symbol_store *store, const char *path) {
    struct symbol_module *module = fixture_module(store, path);
    struct symbol_query query = {.module = module, .vaddr = LARGE_DWARF_BASE};
    struct symbol_answer answer;
    struct sonde_arena arena = {0};
    CHECK_INT(symbol_resolve_wait(store, &query, 1, WAIT_MS, &arena, &answer), ==, SONDE_OK);
    CHECK_INT(answer.quality, ==, SYMBOL_FULL);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
}

TEST(s13_a_large_file_is_converted_in_bounded_memory_and_no_address_is_lost) {
    const char *path = fixture_path("large");
    struct large_dwarf large = large_dwarf_write(path, (uint64_t)LARGE_MB << 20);
    struct symbol_store *store = corpus_store(fixture_path("cache"));
    struct stat table;
    long before = peak_kib(RUSAGE_SELF);
    wait_for_table(store, fixture_path("large"));
    long growth =
        peak_kib(RUSAGE_SELF) - before; /* lookups touch pages of the table, which count as ours */
    check_answers(store, fixture_path("large"), &large);
    symbol_store_destroy(store);
    CHECK_INT(stat(fixture_line("ls -d $PWD/cache/*.lines"), &table), ==, 0);
    printf("%.0f MB of .debug_info: worker %ld MiB and %.2f s of CPU, ourselves %ld MiB more, "
           "table %.3f of it\n",
           (double)large.info_bytes / 1e6, peak_kib(RUSAGE_CHILDREN) >> 10, children_cpu(),
           growth >> 10, (double)table.st_size / (double)large.info_bytes);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK_INT(peak_kib(RUSAGE_CHILDREN), <, WORKER_PEAK_KIB);
    CHECK_INT(growth, <, OWN_GROWTH_KIB);
#endif
}
