/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recording/profile_ids.h"

#include "service/store/ids.h"
#include "service/store/list.h"

#include <stdlib.h>
#include <string.h>

/* Where a frame's code is. */
struct place {
    const char *build_id, *module, *function;
    uint64_t address;
};

/* Code without a file has no lasting address: its function identifies it, if it has one. */
static sonde_err find_place(struct batch *batch, const struct sonde_profile *profile,
                            const struct sonde_location *location, struct place *place) {
    const struct sonde_mapping *mapping = sonde_profile_mapping(profile, location->mapping);
    const struct sonde_function *function =
        location->line_count
            ? sonde_profile_function(profile, location->lines[location->line_count - 1].function)
            : NULL;
    const char *module = mapping ? sonde_profile_text(profile, mapping->filename) : "";
    const char *build_id = mapping ? sonde_profile_text(profile, mapping->build_id) : "";
    place->function = function ? sonde_profile_text(profile, function->name) : "";
    place->build_id = store_clip(&batch->arena, build_id, STORE_MAX_TEXT);
    place->module = store_clip(&batch->arena, module, STORE_MAX_TEXT);
    if (!place->module || !place->build_id)
        return SONDE_OUT_OF_MEMORY;
    bool has_file = build_id[0] || module[0] == '/' || location->kind == SONDE_FRAME_KERNEL;
    place->address = mapping && location->address >= mapping->start
                         ? location->address - mapping->start + mapping->offset
                         : location->address;
    if (!has_file && place->function[0]) {
        place->module = "";
        place->address = 0;
    }
    return SONDE_OK;
}

/* The quality of the names: 0 none, 1 functions, 2 with file and line. */
static uint32_t version_of(const struct sonde_profile *profile,
                           const struct sonde_location *location) {
    bool has_lines = false;
    for (uint32_t i = 0; i < location->line_count; i++) {
        const struct sonde_function *function =
            sonde_profile_function(profile, location->lines[i].function);
        has_lines |= location->lines[i].line > 0 && function->filename != 0;
    }
    return location->line_count == 0 ? 0 : has_lines ? 2 : 1;
}

static sonde_err add_lines(struct batch *batch, const struct sonde_profile *profile,
                           const struct sonde_location *location, struct store_frame *frame) {
    uint32_t count =
        location->line_count < STORE_MAX_LINES ? location->line_count : STORE_MAX_LINES;
    struct store_line *lines = sonde_arena_alloc(&batch->arena, (count + 1) * sizeof *lines);
    if (!lines)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const struct sonde_line *line = &location->lines[i];
        const struct sonde_function *function = sonde_profile_function(profile, line->function);
        const char *name = sonde_profile_text(profile, function->name);
        const char *file = sonde_profile_text(profile, function->filename);
        bool is_number = line->line > 0 && line->line <= INT32_MAX;
        lines[i].function = store_clip(&batch->arena, name, STORE_MAX_SYMBOL);
        lines[i].file = store_clip(&batch->arena, file, STORE_MAX_TEXT);
        lines[i].line = is_number ? (uint32_t)line->line : 0;
        if (!lines[i].function || !lines[i].file)
            return SONDE_OUT_OF_MEMORY;
    }
    frame->lines = lines;
    frame->line_count = count;
    return SONDE_OK;
}

static sonde_err find_frame(struct batch *batch, const struct sonde_profile *profile,
                            uint32_t number, uint64_t *id) {
    const struct sonde_location *location = sonde_profile_location(profile, number);
    struct place place;
    sonde_err err = find_place(batch, profile, location, &place);
    if (err)
        return err;
    uint32_t version = version_of(profile, location);
    *id = store_frame_id(place.build_id, place.module, place.address, place.function);
    if (!known_add(&batch->frames, *id, version))
        return SONDE_OK;
    struct store_frame *frame = store_list_add(&batch->new_frames);
    if (!frame)
        return SONDE_OUT_OF_MEMORY;
    *frame = (struct store_frame){.id = *id,
                                  .build_id = place.build_id,
                                  .module = place.module,
                                  .address = place.address,
                                  .kind = location->kind,
                                  .version = version};
    return add_lines(batch, profile, location, frame);
}

static sonde_err find_stack(struct batch *batch, const struct record *record,
                            struct profile_ids *ids, size_t number) {
    struct sonde_sample sample = sonde_profile_sample(record->profile, number);
    uint32_t count =
        sample.location_count < STORE_MAX_DEPTH ? sample.location_count : STORE_MAX_DEPTH;
    uint64_t frames[STORE_MAX_DEPTH];
    for (uint32_t i = 0; i < count; i++) {
        uint64_t *id = &ids->frames[sample.locations[i]];
        sonde_err err =
            *id ? SONDE_OK : find_frame(batch, record->profile, sample.locations[i], id);
        if (err)
            return err;
        frames[i] = *id;
    }
    const char *service = record->target->name;
    ids->stacks[number] = store_stack_id(service, frames, count);
    if (!known_add(&batch->stacks, ids->stacks[number], 1))
        return SONDE_OK;
    uint64_t *copy = sonde_arena_alloc(&batch->arena, (count + 1) * sizeof *copy);
    struct store_stack *stack = copy ? store_list_add(&batch->new_stacks) : NULL;
    if (!stack)
        return SONDE_OUT_OF_MEMORY;
    memcpy(copy, frames, count * sizeof *copy);
    *stack = (struct store_stack){
        .service = service, .id = ids->stacks[number], .frames = copy, .frame_count = count};
    return SONDE_OK;
}

sonde_err profile_ids_find(struct batch *batch, const struct record *record,
                           struct profile_ids *ids) {
    size_t samples = sonde_profile_sample_count(record->profile);
    size_t locations = sonde_profile_location_count(record->profile);
    ids->stacks = calloc(samples + 1, sizeof *ids->stacks);
    ids->frames = calloc(locations + 1, sizeof *ids->frames);
    sonde_err err = ids->stacks && ids->frames ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < samples && !err; i++)
        err = find_stack(batch, record, ids, i);
    return err;
}

void profile_ids_finish(struct profile_ids *ids) {
    free(ids->stacks);
    free(ids->frames);
}
