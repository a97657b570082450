/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/memory_report/dump_places.h"
#include "service/engine/report/stacks.h"
#include "service/guest/ring.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

#define MAPS                                  \
    "\nMAPPED_LIBRARIES:\n"                   \
    "1000-2000 r-xp 00000000 00:00 1 /libc\n" \
    "5000-6000 r-xp 00000000 00:00 8 /new\n"  \
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n"

static void update(const struct mapping_lives **lives, uint64_t number, const char *plugin) {
    struct generation *generation = generation_create(number);
    struct symbol_mapping mappings[] = {
        {.start = 0x1000, .end = 0x2000, .inode = 1, .path = "/libc"},
        {.start = 0x5000, .end = 0x6000, .inode = plugin[1] == 'o' ? 7 : 8, .path = plugin}};
    for (int i = 0; i < 2; i++)
        CHECK_INT(generation_add(generation, &mappings[i]), ==, SONDE_OK);
    mapping_lives_update(lives, generation, 2 * (uint32_t)number, true);
    generation_destroy(generation);
}

/* Settles a dump with this stack. The caller finishes the text. */
static struct heap_text settle(const char *stack, const struct mapping_lives *lives) {
    struct heap_text text = {0};
    sonde_buf_printf(&text.copy, "heap_v2/1\n  t*: 1: 8 [0: 0]\n%s\n  t*: 1: 8 [0: 0]\n%s", stack,
                     MAPS);
    text.bytes = sonde_buf_slice(&text.copy);
    CHECK_INT(heap_dump_settle(&text, lives, NULL), ==, SONDE_OK);
    sonde_buf_putc(&text.copy, 0);
    return text;
}

static void check_stack(const char *before, const struct mapping_lives *lives, const char *after,
                        const char *line) {
    struct heap_text text = settle(before, lives);
    char expected[256];
    snprintf(expected, sizeof expected, "\n%s\n  t*: 1: 8 [0: 0]\n", after);
    if (!strstr(text.copy.data, expected))
        printf("%s", text.copy.data);
    CHECK(strstr(text.copy.data, expected) != NULL);
    CHECK(strstr(text.copy.data, line) != NULL);
    heap_text_finish(&text);
}

static const struct mapping_lives *old_then_new(void) {
    const struct mapping_lives *lives = NULL;
    update(&lives, 1, "/old");
    update(&lives, 2, "/new");
    return lives;
}

/* The stand-in of a function in a library of which nothing is known; it follows those of notes. */
#define UNLOADED (0x800000000801 + 0x1000ull * STACK_NOTE_COUNT)

#define OLD "800000101000-800000102000 r-xp 00000000 00:00 7 /old (deleted)\n"

TEST(h19_a_tagged_stack_of_a_closed_library_moves_to_a_place_of_its_own) {
    const struct mapping_lives *lives = old_then_new();
    check_stack("@ 0x5101 0x1101 0x53d1000000000001", lives, "@ 0x800000101101 0x1101", OLD);
    check_stack("@ 0x5101 0x1101 0x53d1000000000002", lives, "@ 0x5101 0x1101", "/new\n");
    mapping_lives_release(lives);
}

TEST(h19_a_stack_without_a_time_is_not_given_to_one_of_two_libraries) {
    const struct mapping_lives *lives = old_then_new();
    char after[64];
    snprintf(after, sizeof after, "@ 0x%llx 0x1101", UNLOADED);
    check_stack("@ 0x5101 0x1101", lives, after, " [unloaded library]\n");
    mapping_lives_release(lives);
}

TEST(a_library_of_an_impossible_size_gets_no_place) {
    const struct mapping_lives *lives = NULL;
    struct generation *generation = generation_create(1);
    struct symbol_mapping huge = {
        .start = 0x5000, .end = 0x7000000000000000, .inode = 7, .path = "/old"};
    CHECK_INT(generation_add(generation, &huge), ==, SONDE_OK);
    mapping_lives_update(&lives, generation, 2, true);
    generation_destroy(generation);
    char after[64];
    snprintf(after, sizeof after, "@ 0x%llx 0x%llx", UNLOADED, UNLOADED);
    check_stack("@ 0x5101 0x5201 0x53d1000000000001", lives, after, " [unloaded library]\n");
    mapping_lives_release(lives);
}

TEST(a_gap_and_an_early_end_become_notes) {
    check_stack("@ 0x1101 0x1201 0x53d1101000000001", NULL, "@ 0x1101 0x800000000800 0x1201",
                " [truncated]\n");
    check_stack("@ 0x1101 0x1201 0x53d2000000000004 0x53d1500000000001", NULL,
                "@ 0x1101 0x1201 0x80000000e800", " [unwind table not loaded yet]\n");
}

TEST(a_dump_without_tags_of_a_process_without_closed_libraries_stays_as_it_is) {
    const struct mapping_lives *lives = NULL;
    update(&lives, 1, "/new");
    check_stack("@ 0x5101 0x1101", lives, "@ 0x5101 0x1101", "[vsyscall]\n");
    check_stack("@ 0x5101 0x1101", NULL, "@ 0x5101 0x1101", "[vsyscall]\n");
    mapping_lives_release(lives);
}
