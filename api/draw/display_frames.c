/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/display_frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool equal_frame(const void *context, const void *item, const void *key) {
    const struct draw_frame *a = item, *b = key;
    return a->is_thread == b->is_thread && a->kind == b->kind && strcmp(a->name, b->name) == 0 &&
           strcmp(a->module, b->module) == 0;
}

static uint32_t frame_hash(const struct hash_index *index, const struct draw_frame *frame) {
    uint64_t module = hash_index_data(index, frame->module, strlen(frame->module));
    uint64_t name = hash_index_data(index, frame->name, strlen(frame->name));
    uint64_t kind = frame->is_thread + 2 * (uint64_t)frame->kind;
    return hash_index_words(index, module << 32 | name, kind);
}

uint32_t draw_tree_intern(struct draw_tree *tree, const struct draw_frame *frame) {
    uint32_t hash = frame_hash(&tree->frames.index, frame);
    uint32_t number = profile_table_find(&tree->frames, hash, equal_frame, NULL, frame);
    if (number != PROFILE_TABLE_NONE)
        return number;
    const char *name = sonde_arena_dup(&tree->arena, frame->name, strlen(frame->name));
    const char *module = sonde_arena_dup(&tree->arena, frame->module, strlen(frame->module));
    const char *source =
        frame->source ? sonde_arena_dup(&tree->arena, frame->source, strlen(frame->source)) : NULL;
    bool is_copied = name && module && (source || !frame->source);
    struct draw_frame *item = is_copied ? profile_table_add(&tree->frames, hash) : NULL;
    if (!item)
        return PROFILE_TABLE_NONE;
    *item = *frame;
    item->name = item->shown = name;
    item->module = module;
    item->source = source;
    return tree->frames.count - 1;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Names a location without lines by its module and the offset in its file. */
static uint32_t intern_unnamed(struct draw_tree *tree, const struct sonde_mapping *mapping,
                               const struct sonde_location *location, struct draw_frame *frame) {
    char text[64], *name = NULL;
    unsigned long long address = location->address;
    if (!mapping) {
        snprintf(text, sizeof text, address ? "0x%llx" : "[no name]", address);
        frame->name = text;
        return draw_tree_intern(tree, frame);
    }
    address = address - mapping->start + mapping->offset;
    const char *module = frame->module[0] ? frame->module : "[anon]";
    const char *form = module[0] == '[' ? "%s+0x%llx" : "[%s]+0x%llx";
    if (asprintf(&name, form, module, address) < 0)
        return PROFILE_TABLE_NONE;
    frame->name = name;
    uint32_t number = draw_tree_intern(tree, frame);
    free(name);
    return number;
}

static void read_function(const struct sonde_profile *profile, uint32_t id,
                          struct draw_frame *frame) {
    const struct sonde_function *function = sonde_profile_function(profile, id);
    const char *name = sonde_profile_text(profile, function->name);
    const char *source = sonde_profile_text(profile, function->filename);
    frame->name = name[0] ? name : sonde_profile_text(profile, function->system_name);
    frame->source = source[0] ? source : NULL;
    frame->start_line = function->start_line;
}

/* Whether a line is of a function that was inlined into one of its name and file: libc's system
 * calls are such pairs, and one frame says all. */
static bool repeats_caller(const struct sonde_profile *profile,
                           const struct sonde_location *location, uint32_t line) {
    if (line + 1 >= location->line_count)
        return false;
    const struct sonde_function *inlined =
        sonde_profile_function(profile, location->lines[line].function);
    const struct sonde_function *caller =
        sonde_profile_function(profile, location->lines[line + 1].function);
    return inlined->filename != 0 && inlined->name != 0 && inlined->name == caller->name &&
           inlined->filename == caller->filename;
}

/* Appends the frames of a location; false when out of memory. */
static bool add_location(struct draw_tree *tree, const struct sonde_profile *profile,
                         const struct sonde_location *location, uint32_t *ids, uint32_t *count) {
    const struct sonde_mapping *mapping = sonde_profile_mapping(profile, location->mapping);
    struct draw_frame frame = {.kind = location->kind, .module = ""};
    if (mapping)
        frame.module = base_name(sonde_profile_text(profile, mapping->filename));
    for (uint32_t i = location->line_count; i > 0; i--) {
        if (repeats_caller(profile, location, i - 1))
            continue;
        read_function(profile, location->lines[i - 1].function, &frame);
        uint32_t number = frame.name[0] ? draw_tree_intern(tree, &frame)
                                        : intern_unnamed(tree, mapping, location, &frame);
        if (number == PROFILE_TABLE_NONE)
            return false;
        ids[(*count)++] = number;
    }
    if (location->line_count > 0)
        return true;
    ids[(*count)++] = intern_unnamed(tree, mapping, location, &frame);
    return ids[*count - 1] != PROFILE_TABLE_NONE;
}

sonde_err draw_frames_init(struct draw_frames *frames, struct draw_tree *tree,
                           const struct sonde_profile *profile) {
    size_t locations = sonde_profile_location_count(profile), lines = 0;
    for (uint32_t id = 1; id <= locations; id++)
        lines += sonde_profile_location(profile, id)->line_count + 1;
    frames->first = calloc(locations + 2, sizeof *frames->first);
    frames->ids = calloc(lines + 1, sizeof *frames->ids);
    if (!frames->first || !frames->ids)
        return SONDE_OUT_OF_MEMORY;
    uint32_t count = 0;
    for (uint32_t id = 1; id <= locations; id++) {
        frames->first[id] = count;
        if (!add_location(tree, profile, sonde_profile_location(profile, id), frames->ids, &count))
            return SONDE_OUT_OF_MEMORY;
    }
    frames->first[locations + 1] = count;
    return SONDE_OK;
}

void draw_frames_finish(struct draw_frames *frames) {
    free(frames->first);
    free(frames->ids);
}

static const struct sonde_label *find_label(const struct sonde_profile *profile,
                                            const struct sonde_sample *sample, const char *key) {
    for (uint32_t i = 0; i < sample->label_count; i++)
        if (strcmp(sonde_profile_text(profile, sample->labels[i].key), key) == 0)
            return &sample->labels[i];
    return NULL;
}

sonde_err draw_frames_thread(struct draw_tree *tree, const struct sonde_profile *profile,
                             const struct sonde_sample *sample, uint32_t *frame) {
    char text[48];
    const char *name = sonde_sample_label(profile, sample, "thread");
    *frame = PROFILE_TABLE_NONE;
    if (!name[0]) {
        const struct sonde_label *tid = find_label(profile, sample, "tid");
        if (!tid || tid->str)
            return SONDE_OK;
        snprintf(text, sizeof text, "thread %lld", (long long)tid->num);
        name = text;
    }
    struct draw_frame thread = {.name = name, .module = "", .is_thread = true};
    *frame = draw_tree_intern(tree, &thread);
    return *frame == PROFILE_TABLE_NONE ? SONDE_OUT_OF_MEMORY : SONDE_OK;
}
