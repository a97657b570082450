/* SPDX-License-Identifier: Apache-2.0
 *
 * The encoder passes over the samples once. Each location becomes frames once per window. Each
 * sample becomes a stack key, [thread, tid, frame numbers], which the dictionary numbers; new
 * entries of the dictionary go into the message. When the message is large enough, it becomes a
 * part, and the next one begins. */
#include "service/rpc/captures/window.h"

#include "api/base/array.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/base/text.h"
#include "service/rpc/targets/target_message.h"

#include <stdlib.h>
#include <string.h>

struct window_mark {
    uint64_t generation;
    Sonde__V1__StackCount *count;
};

/* A dictionary key: must not contain padding. */
struct frame_key {
    uint32_t function, file, line, module;
    uint64_t address;
    uint32_t kind, inlined;
};

struct list {
    void **items;
    size_t count, capacity;
};

struct range {
    uint32_t first, count;
    bool is_known;
};

struct builder {
    struct window_dictionary *dictionary;
    const struct rpc_result *window;
    const struct sonde_profile *profile;
    struct window_parts *parts;
    struct sonde_arena arena; /* of this part */
    struct list strings, frames, stacks, counts;
    size_t bytes; /* approximate size of the part */
    struct range *locations;
    uint32_t *numbers; /* frame numbers of the locations */
    size_t number_count, number_capacity;
    uint32_t *key;
    size_t key_capacity;
    size_t count_index, cpu_index;
    bool has_cpu, is_full, is_short; /* the dictionary is full; out of memory */
    uint64_t lost;
};

void window_dictionary_init(struct window_dictionary *dictionary, size_t limit_bytes) {
    memset(dictionary, 0, sizeof *dictionary);
    dictionary_init(&dictionary->texts, limit_bytes / 3);
    dictionary_init(&dictionary->frames, limit_bytes / 3);
    dictionary_init(&dictionary->stacks, limit_bytes / 3);
}

void window_dictionary_finish(struct window_dictionary *dictionary) {
    dictionary_finish(&dictionary->texts);
    dictionary_finish(&dictionary->frames);
    dictionary_finish(&dictionary->stacks);
    free(dictionary->marks);
}

static void list_add(struct builder *builder, struct list *list, void *item) {
    if (!array_room(&list->items, &list->capacity, list->count, 1)) {
        builder->is_short = true;
        return;
    }
    list->items[list->count++] = item;
}

static uint32_t add_text(struct builder *builder, const char *text) {
    struct dictionary *texts = &builder->dictionary->texts;
    bool is_new;
    uint32_t number = dictionary_add(texts, text, strlen(text), &is_new);
    if (number == DICTIONARY_NONE)
        builder->is_full = true;
    if (is_new) {
        list_add(builder, &builder->strings, (void *)texts->items[number].bytes);
        builder->bytes += texts->items[number].len + 6;
    }
    return number;
}

/* Optional fields hold an index + 1, or 0 for none. */
static uint32_t add_optional_text(struct builder *builder, const char *text) {
    uint32_t number = *text ? add_text(builder, text) : DICTIONARY_NONE;
    return number == DICTIONARY_NONE ? 0 : number + 1;
}

static uint32_t add_frame(struct builder *builder, const struct frame_key *key) {
    bool is_new;
    uint32_t number = dictionary_add(&builder->dictionary->frames, key, sizeof *key, &is_new);
    if (number == DICTIONARY_NONE)
        builder->is_full = true;
    if (!is_new)
        return number;
    Sonde__V1__StreamFrame *frame = sonde_arena_alloc(&builder->arena, sizeof *frame);
    if (!frame) {
        builder->is_short = true;
        return number;
    }
    sonde__v1__stream_frame__init(frame);
    frame->function = key->function;
    frame->file = key->file;
    frame->line = key->line;
    frame->module = key->module;
    frame->address = key->address;
    frame->kind = (Sonde__V1__FrameKind)key->kind;
    frame->inlined = key->inlined;
    list_add(builder, &builder->frames, frame);
    builder->bytes += 40;
    return number;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void fill_frame(struct builder *builder, const struct sonde_location *location,
                       uint32_t line, struct frame_key *key) {
    const struct sonde_profile *profile = builder->profile;
    const struct sonde_function *function = NULL;
    const struct sonde_mapping *mapping = NULL;
    if (line < location->line_count)
        function = sonde_profile_function(profile, location->lines[line].function);
    if (location->mapping)
        mapping = sonde_profile_mapping(profile, location->mapping);
    memset(key, 0, sizeof *key);
    key->function = add_text(builder, function ? sonde_profile_text(profile, function->name) : "");
    if (function) {
        key->file = add_optional_text(builder, sonde_profile_text(profile, function->filename));
        key->line = (uint32_t)location->lines[line].line;
    }
    if (mapping)
        key->module =
            add_optional_text(builder, base_name(sonde_profile_text(profile, mapping->filename)));
    key->address = location->address;
    key->kind = location->kind;
    key->inlined = line + 1 < location->line_count;
}

static void add_number(struct builder *builder, uint32_t number) {
    if (!array_room(&builder->numbers, &builder->number_capacity, builder->number_count, 1)) {
        builder->is_short = true;
        return;
    }
    builder->numbers[builder->number_count++] = number;
}

/* The frames of a location, innermost first. */
static struct range frames_of(struct builder *builder, uint32_t id) {
    struct range *range = &builder->locations[id];
    const struct sonde_location *location = sonde_profile_location(builder->profile, id);
    if (range->is_known || !location)
        return *range;
    range->is_known = true;
    range->first = (uint32_t)builder->number_count;
    for (uint32_t line = 0; line == 0 || line < location->line_count; line++) {
        struct frame_key key;
        fill_frame(builder, location, line, &key);
        if (!builder->is_full)
            add_number(builder, add_frame(builder, &key));
    }
    range->count = (uint32_t)builder->number_count - range->first;
    return *range;
}

static bool key_reserve(struct builder *builder, size_t words) {
    builder->is_short |= !array_room(&builder->key, &builder->key_capacity, 0, words);
    return builder->key_capacity >= words;
}

static uint32_t tid_of(const struct sonde_profile *profile, const struct sonde_sample *sample) {
    for (uint32_t i = 0; i < sample->label_count; i++)
        if (strcmp(sonde_profile_text(profile, sample->labels[i].key), "tid") == 0)
            return (uint32_t)sample->labels[i].num;
    return 0;
}

/* Returns the key's length in words; 0 if memory or the dictionary ran out. */
static size_t make_key(struct builder *builder, const struct sonde_sample *sample) {
    size_t words = 2;
    if (!key_reserve(builder, words))
        return 0;
    builder->key[0] =
        add_optional_text(builder, sonde_sample_label(builder->profile, sample, "thread"));
    builder->key[1] = tid_of(builder->profile, sample);
    for (uint32_t i = 0; i < sample->location_count; i++) {
        struct range range = frames_of(builder, sample->locations[i]);
        if (builder->is_full || !key_reserve(builder, words + range.count))
            return 0;
        if (range.count)
            memcpy(builder->key + words, builder->numbers + range.first,
                   range.count * sizeof *builder->key);
        words += range.count;
    }
    return words;
}

static void add_stack(struct builder *builder, uint32_t number) {
    const struct dictionary_item *item = &builder->dictionary->stacks.items[number];
    const uint32_t *key = (const void *)item->bytes;
    Sonde__V1__StreamStack *stack = sonde_arena_alloc(&builder->arena, sizeof *stack);
    if (!stack) {
        builder->is_short = true;
        return;
    }
    sonde__v1__stream_stack__init(stack);
    stack->thread = key[0];
    stack->tid = key[1];
    stack->n_frames = item->len / sizeof *key - 2;
    stack->frames = (uint32_t *)key + 2;
    list_add(builder, &builder->stacks, stack);
    builder->bytes += 16 + stack->n_frames * 3;
}

static struct window_mark *mark_of(struct builder *builder, uint32_t number) {
    struct window_dictionary *dictionary = builder->dictionary;
    if (number >= dictionary->mark_count) {
        uint32_t count = dictionary->stacks.capacity;
        struct window_mark *marks = realloc(dictionary->marks, count * sizeof *marks);
        if (!marks) {
            builder->is_short = true;
            return NULL;
        }
        memset(marks + dictionary->mark_count, 0, (count - dictionary->mark_count) * sizeof *marks);
        dictionary->marks = marks;
        dictionary->mark_count = count;
    }
    return &dictionary->marks[number];
}

/* Samples of one stack that differ only in other labels (request ids) are added up. */
static void add_count(struct builder *builder, uint32_t number, const struct sonde_sample *sample) {
    struct window_mark *mark = mark_of(builder, number);
    if (!mark)
        return;
    if (mark->generation != builder->dictionary->generation) {
        Sonde__V1__StackCount *count = sonde_arena_alloc(&builder->arena, sizeof *count);
        if (!count) {
            builder->is_short = true;
            return;
        }
        sonde__v1__stack_count__init(count);
        count->stack = number;
        list_add(builder, &builder->counts, count);
        builder->bytes += 24;
        *mark = (struct window_mark){builder->dictionary->generation, count};
    }
    uint64_t count = (uint64_t)sample->values[builder->count_index];
    mark->count->count += count;
    mark->count->cpu_ns += builder->has_cpu ? (uint64_t)sample->values[builder->cpu_index]
                                            : count * builder->window->metadata.period_ns;
}

static void add_sample(struct builder *builder, const struct sonde_sample *sample) {
    size_t words = builder->is_full ? 0 : make_key(builder, sample);
    uint32_t number = DICTIONARY_NONE;
    bool is_new = false;
    if (words)
        number = dictionary_add(&builder->dictionary->stacks, builder->key,
                                words * sizeof *builder->key, &is_new);
    if (number == DICTIONARY_NONE) {
        builder->is_full = true;
        builder->lost += (uint64_t)sample->values[builder->count_index];
        return;
    }
    if (is_new)
        add_stack(builder, number);
    add_count(builder, number, sample);
}

static void begin_part(struct builder *builder) {
    sonde_arena_finish(&builder->arena);
    builder->strings.count = builder->frames.count = 0;
    builder->stacks.count = builder->counts.count = 0;
    builder->bytes = 0;
    builder->dictionary->generation++;
}

static void append_part(struct builder *builder, const Sonde__V1__CpuWindow *message) {
    struct window_parts *parts = builder->parts;
    if (!array_room(&parts->items, &parts->capacity, parts->count, 1)) {
        builder->is_short = true;
        return;
    }
    parts->items[parts->count++] = rpc_pack(&message->base);
}

static void fill_part(const struct builder *builder, Sonde__V1__CpuWindow *message) {
    const struct engine_metadata *metadata = &builder->window->metadata;
    message->sequence = metadata->sequence;
    message->start_unix_ns = metadata->start_unix_ns;
    message->end_unix_ns = metadata->end_unix_ns;
    message->period_ns = metadata->period_ns;
    message->clock = (char *)builder->window->metadata.clock;
    message->strings = (char **)builder->strings.items;
    message->n_strings = builder->strings.count;
    message->frames = (Sonde__V1__StreamFrame **)builder->frames.items;
    message->n_frames = builder->frames.count;
    message->stacks = (Sonde__V1__StreamStack **)builder->stacks.items;
    message->n_stacks = builder->stacks.count;
    message->counts = (Sonde__V1__StackCount **)builder->counts.items;
    message->n_counts = builder->counts.count;
}

static void end_part(struct builder *builder) {
    Sonde__V1__CpuWindow message = SONDE__V1__CPU_WINDOW__INIT;
    fill_part(builder, &message);
    message.more = true;
    append_part(builder, &message);
    begin_part(builder);
}

static void end_window(struct builder *builder, const char *end_reason) {
    struct engine_metadata metadata = builder->window->metadata;
    Sonde__V1__CpuWindow message = SONDE__V1__CPU_WINDOW__INIT;
    fill_part(builder, &message);
    rpc_metadata_add_drop(&metadata, "dictionary_full", builder->lost);
    message.drops =
        rpc_drops(&builder->arena, metadata.drops, metadata.drop_count, &message.n_drops);
    message.truncated = metadata.truncated;
    message.merged = builder->window->merged;
    message.guest_cpu_ns = metadata.guest_cpu_ns;
    message.target_cpu_ns = metadata.target_cpu_ns;
    if (builder->is_full && !end_reason)
        end_reason = "dictionary full";
    message.last = builder->parts->is_last = end_reason != NULL;
    message.end_reason = (char *)(end_reason ? end_reason : "");
    append_part(builder, &message);
}

static void find_types(struct builder *builder) {
    for (size_t i = 0; i < sonde_profile_type_count(builder->profile); i++) {
        const char *type = sonde_profile_type(builder->profile, i).type;
        if (strcmp(type, "samples") == 0)
            builder->count_index = i;
        if (strcmp(sonde_profile_type(builder->profile, i).unit, "nanoseconds") == 0) {
            builder->cpu_index = i;
            builder->has_cpu = true;
        }
    }
}

static void finish(struct builder *builder) {
    sonde_arena_finish(&builder->arena);
    free(builder->strings.items);
    free(builder->frames.items);
    free(builder->stacks.items);
    free(builder->counts.items);
    free(builder->locations);
    free(builder->numbers);
    free(builder->key);
}

sonde_err window_encode(struct window_dictionary *dictionary, const struct rpc_result *window,
                        const char *end_reason, struct window_parts *parts) {
    struct builder builder = {
        .dictionary = dictionary, .window = window, .profile = window->profile, .parts = parts};
    size_t location_count = sonde_profile_location_count(window->profile);
    builder.locations = calloc(location_count + 1, sizeof *builder.locations);
    if (!builder.locations)
        return SONDE_OUT_OF_MEMORY;
    find_types(&builder);
    begin_part(&builder);
    for (size_t i = 0; i < sonde_profile_sample_count(window->profile) && !builder.is_short; i++) {
        struct sonde_sample sample = sonde_profile_sample(window->profile, i);
        add_sample(&builder, &sample);
        if (builder.bytes > WINDOW_PART_BYTES)
            end_part(&builder);
    }
    end_window(&builder, end_reason);
    bool is_short = builder.is_short;
    finish(&builder);
    return is_short ? SONDE_OUT_OF_MEMORY : SONDE_OK;
}
