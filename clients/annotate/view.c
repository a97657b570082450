/* SPDX-License-Identifier: Apache-2.0
 *
 * A sample counts once for an address, a line and the function, however often it has them: so every
 * item remembers the last sample that counted. */
#include "clients/annotate/view.h"

#include "api/base/array.h"

#include <stdlib.h>
#include <string.h>

/* ---- places ---- */

static bool is_same(const struct view_place *left, const struct view_place *right) {
    return left->parent == right->parent && left->line == right->line &&
           strcmp(left->function, right->function) == 0 && strcmp(left->file, right->file) == 0;
}

static sonde_err add_place(struct view *view, const struct view_place *item, uint32_t *number) {
    uint32_t name = hash_index_data(&view->place_index, item->function, strlen(item->function));
    uint32_t hash =
        hash_index_words(&view->place_index, name, (uint64_t)item->parent << 32 | item->line);
    struct hash_probe probe = hash_probe(hash);
    while ((*number = hash_index_next(&view->place_index, &probe)) != HASH_INDEX_NONE)
        if (is_same(&view->places[*number], item))
            return SONDE_OK;
    if (!array_room(&view->places, &view->place_capacity, view->place_count, 1) ||
        !hash_index_add(&view->place_index, hash, view->place_count))
        return SONDE_OUT_OF_MEMORY;
    *number = view->place_count++;
    view->places[*number] = *item;
    return SONDE_OK;
}

/* The places keep their numbers, as long as the answer has no two that are equal. */
static sonde_err take_places(struct view *view, const Sonde__V1__Code *code) {
    for (uint32_t i = 0; i < code->n_places; i++) {
        const Sonde__V1__CodePlace *from = code->places[i];
        struct view_place item = {.parent = from->parent - 1,
                                  .function = view_text(code, from->function),
                                  .file = view_text(code, from->file),
                                  .line = from->line};
        uint32_t number;
        if (from->parent > i) /* from a service that is not ours */
            return SONDE_PROTOCOL;
        sonde_err err = add_place(view, &item, &number);
        if (err || number != i)
            return err ? err : SONDE_PROTOCOL;
    }
    return SONDE_OK;
}

static uint32_t checked(const struct view *view, uint32_t plus_one) {
    return plus_one <= view->place_count ? plus_one - 1 : VIEW_NONE; /* 0 is VIEW_NONE, too */
}

sonde_err view_init(struct view *view, const Sonde__V1__Code *code, const char *function) {
    *view = (struct view){.code = code, .function = function};
    hash_index_init(&view->place_index);
    if (!code)
        return SONDE_OK;
    view->instructions = calloc(code->n_instructions + 1, sizeof *view->instructions);
    sonde_err err = view->instructions ? take_places(view, code) : SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < code->n_instructions && !err; i++)
        view->instructions[view->instruction_count++] = (struct view_instruction){
            .code = code->instructions[i], .place = checked(view, code->instructions[i]->place)};
    return err;
}

void view_finish(struct view *view) {
    free(view->places);
    free(view->instructions);
    hash_index_finish(&view->place_index);
    *view = (struct view){0};
}

/* ---- counting ---- */

/* What one of the subject's locations means. */
struct meaning {
    uint32_t place, instruction; /* VIEW_NONE = unknown */
    bool counts;
};

struct counting {
    struct view *view;
    enum view_side side;
    const struct subject *subject;
    struct meaning *meanings;          /* per location of the subject */
    size_t *place_seen, *address_seen; /* the last sample that counted, plus 1 */
    double whole;
};

static uint32_t find_instruction(const struct view *view, uint64_t address) {
    uint32_t low = 0, high = view->instruction_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (view->instructions[middle].code->address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const Sonde__V1__CodeInstruction *found = low > 0 ? view->instructions[low - 1].code : NULL;
    return found && address - found->address < found->size ? low - 1 : VIEW_NONE;
}

static sonde_err place_of_profile(struct counting *counting, const struct sonde_location *location,
                                  uint32_t *place) {
    const struct sonde_profile *profile = counting->subject->profile;
    sonde_err err = SONDE_OK;
    *place = VIEW_NONE;
    for (uint32_t i = location->line_count; i > 0 && !err; i--) {
        const struct sonde_line *line = &location->lines[i - 1];
        const struct sonde_function *function = sonde_profile_function(profile, line->function);
        const struct view_place item = {.parent = *place,
                                        .function = sonde_profile_text(profile, function->name),
                                        .file = sonde_profile_text(profile, function->filename),
                                        .line = line->line > 0 ? (uint32_t)line->line : 0};
        err = add_place(counting->view, &item, place);
    }
    return err;
}

static sonde_err find_meaning(struct counting *counting, uint32_t index, uint32_t first,
                              uint64_t function) {
    const Sonde__V1__Code *code = counting->view->code;
    const struct subject *subject = counting->subject;
    const struct sonde_location *location =
        sonde_profile_location(subject->profile, subject->locations[index]);
    struct meaning *to = &counting->meanings[index];
    *to = (struct meaning){VIEW_NONE, VIEW_NONE, true};
    if (!code || first == VIEW_NONE || first + index >= code->n_addresses)
        return place_of_profile(counting, location, &to->place);
    const Sonde__V1__CodeAddress *address = code->addresses[first + index];
    bool known = address->function > 0 && address->function <= code->n_functions;
    to->counts = !function || (known && code->functions[address->function - 1]->start == function);
    to->place = checked(counting->view, address->place);
    to->instruction = find_instruction(counting->view, address->address);
    /* Without lines, the file was stripped since, or its debug file is not here. */
    bool has_line = to->place != VIEW_NONE && counting->view->places[to->place].line > 0;
    bool knows_line = location->line_count > 0 && location->lines[0].line > 0;
    return has_line || !knows_line || !to->counts
               ? SONDE_OK
               : place_of_profile(counting, location, &to->place);
}

static void count_location(struct counting *counting, uint32_t index, size_t sample, double share,
                           int64_t value, bool is_leaf) {
    struct view *view = counting->view;
    const struct meaning *at = &counting->meanings[index];
    enum view_side side = counting->side;
    struct view_instruction *instruction =
        at->instruction == VIEW_NONE ? NULL : &view->instructions[at->instruction];
    if (instruction && is_leaf) {
        instruction->counts[side].self += share;
        instruction->self[side] += value;
    }
    if (instruction && counting->address_seen[at->instruction] != sample) {
        instruction->counts[side].total += share;
        counting->address_seen[at->instruction] = sample;
    }
    bool innermost = true;
    for (uint32_t place = at->place; place != VIEW_NONE; place = view->places[place].parent) {
        struct view_counts *counts = &view->places[place].counts[side];
        counts->self += is_leaf && innermost ? share : 0;
        counts->total += counting->place_seen[place] != sample ? share : 0;
        counting->place_seen[place] = sample;
        innermost = false;
    }
}

static void count_samples(struct counting *counting) {
    const struct subject *subject = counting->subject;
    struct view_counts *whole = &counting->view->counts[counting->side];
    for (size_t i = 0; i < sonde_profile_sample_count(subject->profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(subject->profile, i);
        int64_t value = sample.values[subject->type];
        double share = (double)value / counting->whole;
        bool is_in = false;
        for (uint32_t j = 0; j < sample.location_count; j++) {
            uint32_t number = subject->address_of[sample.locations[j]];
            if (!number || !counting->meanings[number - 1].counts)
                continue;
            count_location(counting, number - 1, i + 1, share, value, j == 0);
            whole->self += j == 0 ? share : 0;
            is_in = true;
        }
        whole->total += is_in ? share : 0;
    }
}

sonde_err view_count(struct view *view, enum view_side side, const struct subject *subject,
                     uint32_t first, uint64_t function) {
    struct counting counting = {
        .view = view, .side = side, .subject = subject, .whole = subject_whole(subject)};
    counting.meanings = calloc(subject->count + 1, sizeof *counting.meanings);
    sonde_err err = counting.meanings ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < subject->count && !err; i++)
        err = find_meaning(&counting, i, first, function);
    counting.place_seen = calloc(view->place_count + 1, sizeof *counting.place_seen);
    counting.address_seen = calloc(view->instruction_count + 1, sizeof *counting.address_seen);
    if (!counting.place_seen || !counting.address_seen)
        err = err ? err : SONDE_OUT_OF_MEMORY;
    if (!err)
        count_samples(&counting);
    free(counting.meanings);
    free(counting.place_seen);
    free(counting.address_seen);
    return err;
}
