/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/otlp/frames.h"

#include "service/store/ids.h"

#include <stdlib.h>
#include <string.h>

sonde_err otlp_frames_init(struct otlp_frames *frames, const otlp_dictionary *dictionary,
                           struct sonde_arena *arena) {
    *frames = (struct otlp_frames){.dictionary = dictionary, .arena = arena};
    frames->added.item_size = sizeof(struct store_frame);
    frames->ids = calloc(dictionary->n_location_table + 1, sizeof *frames->ids);
    frames->stacks = calloc(dictionary->n_stack_table + 1, sizeof *frames->stacks);
    return frames->ids && frames->stacks ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

void otlp_frames_finish(struct otlp_frames *frames) {
    free(frames->added.items);
    free(frames->ids);
    free(frames->stacks);
}

sonde_err otlp_frames_charge(struct otlp_frames *frames, size_t count, struct sonde_diag *diag) {
    frames->hashed += count;
    if (frames->hashed <= OTLP_MAX_HASHED)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_TOO_LARGE,
                      "the stacks of one request have more than %zu frames; send fewer profiles at "
                      "once",
                      OTLP_MAX_HASHED);
}

/* ---- One location ---- */

static bool is_hex(const char *text) {
    return text[0] && strspn(text, "0123456789abcdef") == strlen(text);
}

static const char *build_id_of(const otlp_dictionary *dictionary, const otlp_mapping *mapping) {
    const char *id =
        otlp_find_text(dictionary, mapping->attribute_indices, mapping->n_attribute_indices,
                       "process.executable.build_id.gnu");
    return is_hex(id) && strlen(id) <= 64 ? id : "";
}

static enum sonde_frame_kind kind_of(const otlp_dictionary *dictionary,
                                     const otlp_location *location, const char *module) {
    const char *type = otlp_find_text(dictionary, location->attribute_indices,
                                      location->n_attribute_indices, "profile.frame.type");
    if (strcmp(type, "kernel") == 0)
        return SONDE_FRAME_KERNEL;
    if (type[0] && strcmp(type, "native") != 0)
        return SONDE_FRAME_JIT; /* of an interpreter or a virtual machine */
    if (!module[0])
        return SONDE_FRAME_UNKNOWN;
    return strstr(module, ".so") ? SONDE_FRAME_LIBRARY : SONDE_FRAME_APPLICATION;
}

/* The protocol's addresses are inside of the mapping; some senders give file offsets. */
static uint64_t file_offset(const otlp_mapping *mapping, uint64_t address) {
    bool is_inside = address >= mapping->memory_start &&
                     (address < mapping->memory_limit || mapping->memory_limit == 0);
    return is_inside ? address - mapping->memory_start + mapping->file_offset : address;
}

static sonde_err read_lines(struct otlp_frames *frames, const otlp_location *location,
                            struct store_frame *frame) {
    const otlp_dictionary *dictionary = frames->dictionary;
    size_t count = location->n_lines < STORE_MAX_LINES ? location->n_lines : STORE_MAX_LINES;
    struct store_line *lines = sonde_arena_alloc(frames->arena, (count + 1) * sizeof *lines);
    if (!lines)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const otlp_function *function =
            otlp_function_at(dictionary, location->lines[i]->function_index);
        int64_t line = location->lines[i]->line;
        const char *name = function ? otlp_string(dictionary, function->name_strindex) : "";
        const char *file = function ? otlp_string(dictionary, function->filename_strindex) : "";
        if (!name[0])
            continue;
        struct store_line *at = &lines[frame->line_count++];
        at->function = store_clip(frames->arena, name, STORE_MAX_SYMBOL);
        at->file = store_clip(frames->arena, file, STORE_MAX_TEXT);
        at->line = line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
        if (!at->function || !at->file)
            return SONDE_OUT_OF_MEMORY;
        frames->text += strlen(at->function) + strlen(at->file);
        if (frame->version < 2)
            frame->version = at->line && at->file[0] ? 2 : 1;
    }
    frame->lines = lines;
    return SONDE_OK;
}

/* Code without a file has no lasting address: its function identifies it, if it has one. */
static sonde_err read_place(struct otlp_frames *frames, const otlp_location *location,
                            struct store_frame *frame) {
    const otlp_mapping *mapping = otlp_mapping_at(frames->dictionary, location->mapping_index);
    const char *file = mapping ? otlp_string(frames->dictionary, mapping->filename_strindex) : "";
    frame->build_id = mapping ? build_id_of(frames->dictionary, mapping) : "";
    frame->module = store_clip(frames->arena, file, STORE_MAX_TEXT);
    if (!frame->module)
        return SONDE_OUT_OF_MEMORY;
    frame->kind = kind_of(frames->dictionary, location, frame->module);
    frame->address = mapping ? file_offset(mapping, location->address) : location->address;
    bool has_file = frame->build_id[0] || frame->module[0];
    if (!has_file && frame->line_count)
        frame->address = 0;
    return SONDE_OK;
}

static sonde_err add_frame(struct otlp_frames *frames, const otlp_location *location, uint64_t *id,
                           struct sonde_diag *diag) {
    struct store_frame *frame = store_list_add(&frames->added);
    if (!frame)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = read_lines(frames, location, frame);
    if (!err)
        err = read_place(frames, location, frame);
    if (err)
        return err;
    if (frames->text > OTLP_MAX_TEXT)
        return sonde_fail(diag, SONDE_TOO_LARGE,
                          "the names of one request's frames have more than %zu bytes; send fewer "
                          "profiles at once",
                          OTLP_MAX_TEXT);
    frame->id =
        store_frame_id(frame->build_id, frame->module, frame->address,
                       frame->line_count ? frame->lines[frame->line_count - 1].function : "");
    *id = frame->id;
    return SONDE_OK;
}

/* ---- Stacks ---- */

static sonde_err read_stack(struct otlp_frames *frames, const otlp_stack *stack, uint32_t count,
                            uint64_t *ids, struct sonde_diag *diag) {
    for (uint32_t i = 0; i < count; i++) {
        int32_t index = stack->location_indices[i];
        const otlp_location *location = otlp_location_at(frames->dictionary, index);
        static const otlp_location none = OTLP_LOCATION_INIT;
        uint64_t *id = &frames->ids[location ? index : 0];
        sonde_err err = *id ? SONDE_OK : add_frame(frames, location ? location : &none, id, diag);
        if (err)
            return err;
        ids[i] = *id;
    }
    return SONDE_OK;
}

sonde_err otlp_frames_stack(struct otlp_frames *frames, int32_t index, const uint64_t **ids,
                            uint32_t *count, struct sonde_diag *diag) {
    const otlp_stack *stack = otlp_stack_at(frames->dictionary, index);
    size_t depth = stack ? stack->n_location_indices : 0;
    *count = depth < STORE_MAX_DEPTH ? (uint32_t)depth : STORE_MAX_DEPTH;
    *ids = NULL;
    if (*count == 0)
        return SONDE_OK;
    uint64_t **cached = &frames->stacks[index];
    sonde_err err = SONDE_OK;
    if (!*cached) {
        uint64_t *read = sonde_arena_alloc(frames->arena, *count * sizeof *read);
        err = read ? otlp_frames_charge(frames, *count, diag) : SONDE_OUT_OF_MEMORY;
        if (!err)
            err = read_stack(frames, stack, *count, read, diag);
        if (!err)
            *cached = read;
    }
    *ids = *cached;
    return err;
}
