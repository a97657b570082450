/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/history/names.h"

#include "api/base/clock.h"
#include "api/base/container_of.h"
#include "api/hash_index.h"
#include "service/engine/engine.h"
#include "service/locks.h"
#include "service/symbol/symbol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_TRIED  65536 /* frames that are not asked again for some time */
#define PAGE_BYTES 4096u
#define FORGET_S   60 /* a file may have been uploaded or fetched since then */

struct history_names {
    struct history_namer namer;
    struct store *store;
    struct lock lock;
    pthread_cond_t changed;
    uint32_t outstanding; /* questions to the namer */
    bool is_asking;
    int64_t last_s, forgot_s; /* on the monotonic clock */
    /* Frames asked about since forgot_s; only the thread that set is_asking uses them. */
    struct hash_index index;
    uint64_t *tried;
    uint32_t tried_count;
};

/* The frames of one file. Freed by the namer's answer. */
struct question {
    struct history_names *names;
    struct sonde_arena arena;
    struct store_frame *frames;
    size_t count;
};

static sonde_err ask_engine(void *context, const struct engine_symbol_source *source,
                            const uint64_t *addresses, size_t count, engine_on_symbols *on_answer,
                            void *answer_context) {
    return engine_symbolize_files(context, source, addresses, count, false, on_answer,
                                  answer_context, NULL);
}

struct history_namer history_engine_namer(struct engine *engine) {
    return (struct history_namer){ask_engine, engine};
}

sonde_err history_names_create(struct history_namer namer, struct store *store,
                               struct history_names **created, struct sonde_diag *diag) {
    struct history_names *names = calloc(1, sizeof *names);
    uint64_t *tried = calloc(MAX_TRIED, sizeof *tried);
    if (!names || !tried) {
        free(names);
        free(tried);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    }
    names->namer = namer;
    names->store = store;
    names->tried = tried;
    names->last_s = -HISTORY_NAMES_S;
    hash_index_init(&names->index);
    lock_init(&names->lock, LOCK_HISTORY_NAMES);
    pthread_cond_init(&names->changed, NULL);
    *created = names;
    return SONDE_OK;
}

void history_names_destroy(struct history_names *names) {
    if (!names)
        return;
    lock_take(&names->lock);
    while (names->outstanding)
        lock_wait(&names->lock, &names->changed);
    lock_drop(&names->lock);
    hash_index_finish(&names->index);
    pthread_cond_destroy(&names->changed);
    lock_finish(&names->lock);
    free(names->tried);
    free(names);
}

/* ---- Answers, on the namer's workers ---- */

static void question_end(struct question *question) {
    struct history_names *names = question->names;
    sonde_arena_finish(&question->arena);
    free(question);
    lock_take(&names->lock);
    names->outstanding--;
    pthread_cond_broadcast(&names->changed);
    lock_drop(&names->lock);
}

static bool is_storable(const struct symbol_frame *from) {
    return from->name[0] && strlen(from->name) <= STORE_MAX_SYMBOL &&
           strlen(from->file) <= STORE_MAX_TEXT;
}

/* The lines borrow their texts from the symbol: both are needed only until the store has them. */
static bool set_lines(struct question *question, struct store_frame *frame,
                      const struct engine_symbol *symbol) {
    uint32_t count = symbol->frame_count;
    if (count == 0 || count > STORE_MAX_LINES)
        return false;
    struct store_line *lines = sonde_arena_alloc(&question->arena, count * sizeof *lines);
    for (uint32_t i = 0; lines && i < count; i++) {
        const struct symbol_frame *from = &symbol->frames[i];
        if (!is_storable(from))
            return false;
        lines[i] = (struct store_line){from->name, from->file, from->line};
    }
    frame->lines = lines;
    frame->line_count = count;
    frame->version++;
    return lines != NULL;
}

static void on_symbols(void *context, sonde_err err, const struct sonde_diag *diag,
                       const struct engine_symbol *symbols, size_t count) {
    struct question *question = context;
    struct store_put_result result;
    size_t named = 0;
    (void)diag;
    for (size_t i = 0; !err && i < count && i < question->count; i++)
        if (set_lines(question, &question->frames[i], &symbols[i]))
            question->frames[named++] = question->frames[i];
    struct store_batch batch = {.frames = question->frames, .frame_count = named};
    if (named && store_put(question->names->store, &batch, &result, NULL) != SONDE_OK)
        named = 0; /* the next round asks again */
    question_end(question);
}

/* ---- Questions ---- */

static char *dup_text(struct sonde_arena *arena, const char *text) {
    return sonde_arena_dup(arena, text, strlen(text));
}

/* The frames' addresses are offsets in the file. So each page of the file that has frames is a
 * mapping at its own offset. Frames are in the order of their addresses. */
static sonde_err copy_frames(struct question *question, const struct store_frame *frames,
                             uint64_t *addresses, struct engine_symbol_source *source) {
    struct sonde_arena *arena = &question->arena;
    struct engine_symbol_mapping *pages = sonde_arena_alloc(arena, question->count * sizeof *pages);
    question->frames = sonde_arena_alloc(arena, question->count * sizeof *frames);
    if (!question->frames || !pages)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < question->count; i++) {
        struct store_frame *frame = &question->frames[i];
        *frame = frames[i];
        frame->build_id = dup_text(arena, frames[i].build_id);
        frame->module = dup_text(arena, frames[i].module);
        if (!frame->build_id || !frame->module)
            return SONDE_OUT_OF_MEMORY;
        addresses[i] = frame->address;
        uint64_t page = frame->address / PAGE_BYTES * PAGE_BYTES;
        if (source->mapping_count == 0 || pages[source->mapping_count - 1].start != page)
            pages[source->mapping_count++] =
                (struct engine_symbol_mapping){page, page + PAGE_BYTES, page, frame->build_id};
    }
    source->mappings = pages;
    return SONDE_OK;
}

/* Asks about frames of one file. */
static void ask(struct history_names *names, const struct store_frame *frames, size_t count) {
    struct engine_symbol_source source = {.build_id = NULL};
    struct question *question = calloc(1, sizeof *question);
    uint64_t *addresses = calloc(count, sizeof *addresses);
    if (!question || !addresses) {
        free(question);
        free(addresses);
        return;
    }
    question->names = names;
    question->count = count;
    lock_take(&names->lock);
    names->outstanding++;
    lock_drop(&names->lock);
    sonde_err err = copy_frames(question, frames, addresses, &source);
    if (!err)
        err =
            names->namer.ask(names->namer.context, &source, addresses, count, on_symbols, question);
    if (err)
        question_end(question);
    free(addresses);
}

static void forget(struct history_names *names, int64_t now_s) {
    if (names->tried_count < MAX_TRIED && now_s - names->forgot_s < FORGET_S)
        return;
    hash_index_clear(&names->index);
    names->tried_count = 0;
    names->forgot_s = now_s;
}

/* Whether the frame can be named and has not been tried yet; marks it as tried. */
static bool is_new(struct history_names *names, const struct store_frame *frame) {
    uint32_t hash = hash_index_words(&names->index, frame->id, 0), number;
    struct hash_probe probe = hash_probe(hash);
    if (!frame->build_id[0] || names->tried_count == MAX_TRIED)
        return false;
    while ((number = hash_index_next(&names->index, &probe)) != HASH_INDEX_NONE)
        if (names->tried[number] == frame->id)
            return false;
    names->tried[names->tried_count] = frame->id;
    return hash_index_add(&names->index, hash, names->tried_count++);
}

static int by_place(const void *left, const void *right) {
    const struct store_frame *a = left, *b = right;
    int order = strcmp(a->build_id, b->build_id);
    return order ? order : (a->address > b->address) - (a->address < b->address);
}

static void ask_all(struct history_names *names, int64_t now_s) {
    struct sonde_arena arena = {0};
    struct store_frame *frames = NULL;
    size_t found = 0, count = 0, files = 0;
    if (names->store->ops->unnamed(names->store, HISTORY_NAMES_FRAMES, &arena, &frames, &found,
                                   NULL) != SONDE_OK)
        found = 0;
    forget(names, now_s);
    for (size_t i = 0; i < found; i++)
        if (is_new(names, &frames[i]))
            frames[count++] = frames[i];
    if (count)
        qsort(frames, count, sizeof *frames, by_place);
    for (size_t from = 0, to; from < count && files < HISTORY_NAMES_FILES; from = to, files++) {
        for (to = from + 1; to < count && strcmp(frames[from].build_id, frames[to].build_id) == 0;)
            to++;
        ask(names, &frames[from], to - from);
    }
    sonde_arena_finish(&arena);
}

static bool begin(struct history_names *names, int64_t now_s) {
    lock_take(&names->lock);
    bool begins = !names->is_asking && now_s - names->last_s >= HISTORY_NAMES_S;
    if (begins) {
        names->is_asking = true;
        names->last_s = now_s;
    }
    lock_drop(&names->lock);
    return begins;
}

static void wait_for_answers(struct history_names *names) {
    const struct timespec until = clock_wait_end(HISTORY_NAMES_WAIT_MS);
    lock_take(&names->lock);
    names->is_asking = false;
    while (names->outstanding && lock_wait_until(&names->lock, &names->changed, &until))
        continue;
    lock_drop(&names->lock);
}

void history_names_refresh(struct history_names *names, const struct store_stop *stop) {
    int64_t now_s = clock_ns(CLOCK_MONOTONIC) / 1000000000;
    if (!names || store_stop_check(stop, NULL) != SONDE_OK || !begin(names, now_s))
        return;
    ask_all(names, now_s);
    wait_for_answers(names);
}
