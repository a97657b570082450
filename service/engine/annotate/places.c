/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/annotate/places.h"

#include "api/base/array.h"

#include <string.h>

void places_init(struct places *places, struct annotate_answer *answer) {
    *places = (struct places){.answer = answer};
    hash_index_init(&places->index);
}

void places_finish(struct places *places) {
    hash_index_finish(&places->index);
}

static bool is_same(const struct annotate_place *left, const struct annotate_place *right) {
    return left->parent == right->parent && left->line == right->line &&
           strcmp(left->function, right->function) == 0 && strcmp(left->file, right->file) == 0;
}

static sonde_err intern(struct places *places, const struct annotate_place *item,
                        uint32_t *number) {
    struct annotate_answer *answer = places->answer;
    uint32_t name = hash_index_data(&places->index, item->function, strlen(item->function));
    uint64_t where = (uint64_t)item->parent << 32 | item->line;
    uint32_t hash = hash_index_words(&places->index, name, where);
    struct hash_probe probe = hash_probe(hash);
    while ((*number = hash_index_next(&places->index, &probe)) != HASH_INDEX_NONE)
        if (is_same(&answer->places[*number], item))
            return SONDE_OK;
    if (!array_room(&answer->places, &answer->place_capacity, answer->place_count, 1) ||
        !hash_index_add(&places->index, hash, answer->place_count))
        return SONDE_OUT_OF_MEMORY;
    *number = answer->place_count++;
    answer->places[*number] = *item;
    return SONDE_OK;
}

sonde_err places_add(struct places *places, const struct symbol_answer *answer, uint32_t *place) {
    struct symbol_frame unnamed;
    const struct symbol_frame *frames;
    uint32_t count = symbol_answer_frames(answer, &unnamed, &frames);
    sonde_err err = SONDE_OK;
    *place = ANNOTATE_NONE;
    for (uint32_t i = count; i > 0 && !err; i--) {
        const struct symbol_frame *frame = &frames[i - 1];
        const struct annotate_place item = {
            .parent = *place, .function = frame->name, .file = frame->file, .line = frame->line};
        err = intern(places, &item, place);
    }
    return err;
}
