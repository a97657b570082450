/* SPDX-License-Identifier: Apache-2.0
 *
 * Packs answers that refer to names sent before, and reads them back as a client would. */
#include "service/rpc/symbols/symbol_dictionary.h"

#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/symbol/symbol.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a client has received so far. */
struct known {
    char *strings[100000];
    uint32_t functions[100000]; /* names */
    size_t string_count, function_count, module_count;
    uint32_t resets, messages;
    size_t largest;
};

static struct known known;

static void forget(void) {
    for (size_t i = 0; i < known.string_count; i++)
        free(known.strings[i]);
    known.string_count = known.function_count = known.module_count = 0;
}

/* Checks the names of each address in a part of the answer against `symbols`. */
static size_t read_part(grpc_slice slice, size_t at, const struct engine_symbol *symbols) {
    Sonde__V1__SymbolBatch *part = sonde__v1__symbol_batch__unpack(NULL, GRPC_SLICE_LENGTH(slice),
                                                                   GRPC_SLICE_START_PTR(slice));
    CHECK(part != NULL);
    if (part->reset) {
        forget();
        known.resets++;
    }
    for (size_t i = 0; i < part->n_strings; i++)
        known.strings[known.string_count++] = strdup(part->strings[i]);
    for (size_t i = 0; i < part->n_functions; i++)
        known.functions[known.function_count++] = part->functions[i]->name;
    known.module_count += part->n_modules;
    size_t frame = 0;
    for (size_t i = 0; i < part->n_module; i++, at++) {
        CHECK_INT(part->module[i], <=, known.module_count);
        CHECK_INT(part->frame_count[i], ==,
                  symbols[at].frame_count < 64 ? symbols[at].frame_count : 64);
        for (uint32_t j = 0; j < part->frame_count[i]; j++, frame++) {
            CHECK_INT(part->function[frame], <, known.function_count);
            CHECK_STR(known.strings[known.functions[part->function[frame]]],
                      symbols[at].frames[j].name);
        }
    }
    CHECK_INT(frame, ==, part->n_function);
    known.messages++;
    if (GRPC_SLICE_LENGTH(slice) > known.largest)
        known.largest = GRPC_SLICE_LENGTH(slice);
    sonde__v1__symbol_batch__free_unpacked(part, NULL);
    return at;
}

static void pack_and_read(struct symbol_tables *tables, const struct engine_symbol *symbols,
                          size_t count) {
    struct symbol_parts parts = {0};
    size_t at = 0;
    CHECK_INT(symbol_tables_pack(tables, symbols, count, &parts), ==, SONDE_OK);
    for (size_t i = 0; i < parts.count; i++)
        at = read_part(parts.items[i], at, symbols);
    CHECK_INT(at, ==, count);
    symbol_parts_finish(&parts, 0);
}

/* Makes `count` symbols of two frames each, all with different names. */
static struct engine_symbol *make(size_t count, const char *prefix) {
    struct engine_symbol *symbols = calloc(count, sizeof *symbols);
    for (size_t i = 0; i < count; i++) {
        struct symbol_frame *frames = calloc(2, sizeof *frames);
        char *name = malloc(64);
        snprintf(name, 64, "%s_function_%zu", prefix, i);
        frames[0] = (struct symbol_frame){name, name, "file.c", (uint32_t)i, 0};
        frames[1] = (struct symbol_frame){"outer", "outer", "file.c", 7, i};
        symbols[i] = (struct engine_symbol){.frames = frames,
                                            .frame_count = 2,
                                            .module = "module",
                                            .build_id = "abcd",
                                            .reason = "",
                                            .quality = SYMBOL_FULL,
                                            .is_folded = i % 5 == 0};
    }
    return symbols;
}

static void release(struct engine_symbol *symbols, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free((char *)symbols[i].frames[0].name);
        free((void *)symbols[i].frames);
    }
    free(symbols);
}

static void begin(void) {
    forget();
    known.resets = known.messages = 0;
    known.largest = 0;
}

TEST(names_are_sent_once_and_messages_stay_small) {
    struct symbol_tables tables;
    struct engine_symbol *symbols = make(30000, "once");
    begin();
    symbol_tables_init(&tables, SYMBOL_TABLES_LIMIT);
    pack_and_read(&tables, symbols, 30000);
    CHECK_INT(known.function_count, ==, 30001);
    CHECK_INT(known.module_count, ==, 1);
    CHECK_INT(known.messages, >=, 4);
    CHECK_INT(known.largest, <, 1 << 20);
    size_t strings = known.string_count;
    pack_and_read(&tables, symbols, 30000);
    CHECK_INT(known.string_count, ==, strings);
    CHECK_INT(known.resets, ==, 0);
    symbol_tables_finish(&tables);
    release(symbols, 30000);
}

TEST(full_dictionaries_are_reset_and_no_answer_is_lost) {
    struct symbol_tables tables;
    begin();
    symbol_tables_init(&tables, 1 << 20);
    for (int round = 0; round < 6; round++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "round_%d", round);
        struct engine_symbol *symbols = make(8000, prefix);
        pack_and_read(&tables, symbols, 8000);
        release(symbols, 8000);
    }
    CHECK_INT(known.resets, >=, 2);
    symbol_tables_finish(&tables);
}

TEST(an_empty_batch_has_an_empty_answer) {
    struct symbol_tables tables;
    begin();
    symbol_tables_init(&tables, SYMBOL_TABLES_LIMIT);
    pack_and_read(&tables, NULL, 0);
    CHECK_INT(known.messages, ==, 1);
    symbol_tables_finish(&tables);
}

TEST(long_chains_are_cut_and_bytes_that_are_not_utf8_are_escaped) {
    struct symbol_tables tables;
    struct symbol_frame frames[200];
    for (size_t i = 0; i < 200; i++)
        frames[i] = (struct symbol_frame){"deep", "deep", "", 1, 0};
    struct engine_symbol symbol = {.frames = frames, .frame_count = 200, .module = "od\xff"};
    begin();
    symbol_tables_init(&tables, SYMBOL_TABLES_LIMIT);
    pack_and_read(&tables, &symbol, 1);
    bool is_escaped = false;
    for (size_t i = 0; i < known.string_count; i++)
        is_escaped = is_escaped || strcmp(known.strings[i], "od\\xff") == 0;
    CHECK(is_escaped);
    symbol_tables_finish(&tables);
    forget();
}
