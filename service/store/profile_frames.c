/* SPDX-License-Identifier: Apache-2.0
 *
 * Stored addresses are offsets in the module's file, so every mapping starts at 0. A pprof file
 * does not store kinds; readers take its first mapping for the program. So the mappings of
 * application frames come first. */
#include "service/store/profile_frames.h"

#include <stdlib.h>
#include <string.h>

struct module {
    const struct store_frame *frame; /* any frame of it: build_id and module */
    struct sonde_mapping entry;
    bool is_application;
    uint32_t id;
};

struct modules {
    struct module *items; /* in order of module, build-id */
    uint32_t count;
};

sonde_err profile_frames_init(struct profile_frames *frames, uint32_t count) {
    frames->frames = calloc(count + 1, sizeof(struct store_frame *));
    frames->locations = calloc(count + 1, sizeof *frames->locations);
    frames->count = count;
    return frames->frames && frames->locations ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

void profile_frames_finish(struct profile_frames *frames) {
    free(frames->frames);
    free(frames->locations);
}

static sonde_err intern(struct sonde_profile *profile, const char *text, uint32_t *id) {
    return sonde_profile_string(profile, text, strlen(text), id);
}

static int by_module(const void *a, const void *b) {
    const struct store_frame *left = ((const struct module *)a)->frame;
    const struct store_frame *right = ((const struct module *)b)->frame;
    int order = strcmp(left->module, right->module);
    return order ? order : strcmp(left->build_id, right->build_id);
}

static bool has_module(const struct store_frame *frame) {
    return frame && (frame->module[0] || frame->build_id[0]);
}

/* A mapping has what any of its frames has. */
static void describe(struct module *module, const struct store_frame *frame) {
    module->is_application |= frame->kind == SONDE_FRAME_APPLICATION;
    module->entry.has_functions |= frame->line_count > 0;
    module->entry.has_inline_frames |= frame->line_count > 1;
    for (uint32_t i = 0; i < frame->line_count; i++) {
        module->entry.has_filenames |= frame->lines[i].file[0] != 0;
        module->entry.has_line_numbers |= frame->lines[i].line != 0;
    }
}

static sonde_err collect_modules(const struct profile_frames *frames, struct modules *modules) {
    uint32_t count = 0;
    modules->items = calloc(frames->count + 1, sizeof *modules->items);
    if (!modules->items)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < frames->count; i++)
        if (has_module(frames->frames[i]))
            modules->items[count++].frame = frames->frames[i];
    qsort(modules->items, count, sizeof *modules->items, by_module);
    for (uint32_t i = 0; i < count; i++) {
        struct module *last = &modules->items[modules->count ? modules->count - 1 : 0];
        const struct store_frame *frame = modules->items[i].frame;
        if (modules->count == 0 || by_module(last, &modules->items[i]) != 0) {
            last = &modules->items[modules->count++];
            *last = (struct module){.frame = frame};
        }
        describe(last, frame);
    }
    return SONDE_OK;
}

static sonde_err add_mappings(struct modules *modules, bool are_applications,
                              struct sonde_profile *profile) {
    sonde_err err = SONDE_OK;
    for (uint32_t i = 0; i < modules->count && !err; i++) {
        struct module *module = &modules->items[i];
        if (module->is_application != are_applications)
            continue;
        err = intern(profile, module->frame->module, &module->entry.filename);
        if (!err)
            err = intern(profile, module->frame->build_id, &module->entry.build_id);
        if (!err)
            err = sonde_profile_add_mapping(profile, &module->entry, &module->id);
    }
    return err;
}

static uint32_t mapping_of(const struct modules *modules, const struct store_frame *frame) {
    struct module wanted = {.frame = frame};
    if (!has_module(frame))
        return 0;
    const struct module *found =
        bsearch(&wanted, modules->items, modules->count, sizeof wanted, by_module);
    return found->id;
}

static sonde_err add_line(struct sonde_profile *profile, const struct store_line *from,
                          struct sonde_line *line) {
    struct sonde_function function = {0};
    sonde_err err = intern(profile, from->function, &function.name);
    if (!err)
        err = intern(profile, from->file, &function.filename);
    function.system_name = function.name;
    line->line = from->line;
    return err ? err : sonde_profile_add_function(profile, &function, &line->function);
}

static sonde_err add_location(struct sonde_profile *profile, const struct store_frame *frame,
                              uint32_t mapping, uint32_t *location) {
    struct sonde_line lines[STORE_MAX_LINES];
    struct sonde_location entry = {
        .mapping = mapping,
        .address = frame->address,
        .line_count = frame->line_count < STORE_MAX_LINES ? frame->line_count : STORE_MAX_LINES,
        .kind = frame->kind <= SONDE_FRAME_NOTE ? frame->kind : SONDE_FRAME_UNKNOWN,
        .lines = lines,
    };
    sonde_err err = SONDE_OK;
    for (uint32_t i = 0; i < entry.line_count && !err; i++)
        err = add_line(profile, &frame->lines[i], &lines[i]);
    return err ? err : sonde_profile_add_location(profile, &entry, location);
}

sonde_err profile_frames_note(struct sonde_profile *profile, const char *text, uint32_t *location) {
    const struct store_line line = {.function = text, .file = ""};
    const struct store_frame frame = {.kind = SONDE_FRAME_NOTE, .lines = &line, .line_count = 1};
    return add_location(profile, &frame, 0, location);
}

sonde_err profile_frames_locate(struct profile_frames *frames, struct sonde_profile *profile) {
    struct modules modules = {0};
    sonde_err err = collect_modules(frames, &modules);
    if (!err)
        err = add_mappings(&modules, true, profile);
    if (!err)
        err = add_mappings(&modules, false, profile);
    for (uint32_t i = 0; i < frames->count && !err; i++) {
        const struct store_frame *frame = frames->frames[i];
        err = frame
                  ? add_location(profile, frame, mapping_of(&modules, frame), &frames->locations[i])
                  : profile_frames_note(profile, "[unknown frame]", &frames->locations[i]);
    }
    free(modules.items);
    return err;
}
