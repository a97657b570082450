/* SPDX-License-Identifier: Apache-2.0 */
#include "service/collect/tables.h"

#include "api/base/array.h"

#include <stdlib.h>
#include <string.h>

void tables_init(struct tables *tables) {
    *tables =
        (struct tables){.text_count = 1, .process_count = 1, .frame_count = 1, .stack_count = 1};
    hash_index_init(&tables->text_index);
    hash_index_init(&tables->process_index);
    hash_index_init(&tables->frame_index);
    hash_index_init(&tables->stack_index);
}

static void finish_process(struct table_process *process) {
    free(process->service);
    free(process->instance);
    for (size_t i = 0; i < 2 * process->label_count; i++)
        free(process->labels[i]);
    free(process->labels);
    free(process->mappings);
}

void tables_finish(struct tables *tables) {
    for (uint32_t i = 1; i < tables->text_count; i++)
        free(tables->texts[i].text);
    for (uint32_t i = 1; i < tables->process_count; i++)
        finish_process(&tables->processes[i]);
    for (uint32_t i = 1; i < tables->frame_count; i++)
        free(tables->frames[i].lines);
    for (uint32_t i = 1; i < tables->stack_count; i++)
        free(tables->stacks[i].frames);
    free(tables->texts);
    free(tables->processes);
    free(tables->frames);
    free(tables->stacks);
    hash_index_finish(&tables->text_index);
    hash_index_finish(&tables->process_index);
    hash_index_finish(&tables->frame_index);
    hash_index_finish(&tables->stack_index);
}

/* Room for one more item, zeroed; NULL when out of memory. The caller counts it. */
static void *add_item(void *items, uint32_t count, uint32_t *room, size_t size) {
    void **array = items;
    if (!array_room_sized(items, size, room, count, 1))
        return NULL;
    return memset((char *)*array + count * size, 0, size);
}

static bool duplicate(char **to, const char *from) {
    *to = strdup(from);
    return *to != NULL;
}

/* ---- Texts ---- */

uint32_t tables_text(struct tables *tables, const char *text, bool *is_good) {
    size_t len = strlen(text);
    uint32_t hash = hash_index_data(&tables->text_index, text, len), number;
    struct hash_probe probe = hash_probe(hash);
    if (len == 0)
        return 0;
    while ((number = hash_index_next(&tables->text_index, &probe)) != HASH_INDEX_NONE)
        if (strcmp(tables->texts[number].text, text) == 0)
            return number;
    struct table_text *item =
        add_item(&tables->texts, tables->text_count, &tables->text_room, sizeof *item);
    if (!item || !duplicate(&item->text, text) ||
        !hash_index_add(&tables->text_index, hash, tables->text_count)) {
        if (item)
            free(item->text);
        *is_good = false;
        return 0;
    }
    tables->bytes += len + 1 + sizeof *item;
    return tables->text_count++;
}

/* ---- Processes ---- */

uint32_t tables_find_process(const struct tables *tables, const char *instance) {
    uint32_t hash = hash_index_data(&tables->process_index, instance, strlen(instance)), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&tables->process_index, &probe)) != HASH_INDEX_NONE)
        if (strcmp(tables->processes[number].instance, instance) == 0)
            return number;
    return 0;
}

static bool fill_process(struct table_process *process, const struct store_window *window) {
    process->pid = window->pid;
    process->start_unix_ns = window->start_unix_ns;
    process->labels = calloc(2 * window->label_count + 1, sizeof *process->labels);
    if (!process->labels || !duplicate(&process->service, window->service) ||
        !duplicate(&process->instance, window->instance))
        return false;
    for (uint32_t i = 0; i < window->label_count; i++) {
        process->label_count++;
        if (!duplicate(&process->labels[2 * i], window->labels[i].key) ||
            !duplicate(&process->labels[2 * i + 1], window->labels[i].value))
            return false;
    }
    return true;
}

uint32_t tables_process(struct tables *tables, const struct store_window *window) {
    uint32_t number = tables_find_process(tables, window->instance);
    if (number)
        return number;
    struct table_process *process =
        add_item(&tables->processes, tables->process_count, &tables->process_room, sizeof *process);
    uint32_t hash =
        hash_index_data(&tables->process_index, window->instance, strlen(window->instance));
    if (!process)
        return 0;
    if (!fill_process(process, window) ||
        !hash_index_add(&tables->process_index, hash, tables->process_count)) {
        finish_process(process);
        return 0;
    }
    tables->bytes += sizeof *process + 64 * (1 + process->label_count);
    return tables->process_count++;
}

void tables_add_mapping(struct tables *tables, uint32_t number, const char *build_id,
                        const char *path, uint64_t start, uint64_t end) {
    bool is_good = true;
    struct table_mapping mapping = {.start = start, .end = end};
    mapping.build_id = tables_text(tables, build_id, &is_good);
    mapping.path = tables_text(tables, path, &is_good);
    struct table_process *process = &tables->processes[number];
    for (size_t i = 0; i < process->mapping_count; i++)
        if (memcmp(&process->mappings[i], &mapping, sizeof mapping) == 0)
            return;
    if (!is_good || process->mapping_count == TABLES_MAX_MAPPINGS)
        return;
    struct table_mapping *grown =
        realloc(process->mappings, (process->mapping_count + 1) * sizeof *grown);
    if (!grown)
        return;
    grown[process->mapping_count++] = mapping;
    process->mappings = grown;
    process->stamp = 0;
    tables->bytes += sizeof mapping;
}

/* ---- Frames and stacks ---- */

static uint32_t find_id(const struct hash_index *index, uint64_t id, uint32_t *hash,
                        const void *items, size_t size) {
    uint32_t number;
    *hash = hash_index_words(index, id, 0);
    struct hash_probe probe = hash_probe(*hash);
    while ((number = hash_index_next(index, &probe)) != HASH_INDEX_NONE)
        if (*(const uint64_t *)(const void *)((const char *)items + number * size) == id)
            return number;
    return 0;
}
_Static_assert(offsetof(struct table_frame, id) == 0 && offsetof(struct table_stack, id) == 0,
               "ids are found at the begin of an item");

static bool fill_lines(struct tables *tables, struct table_frame *frame,
                       const struct store_frame *from) {
    bool is_good = true;
    struct table_line *lines = calloc(from->line_count + 1, sizeof *lines);
    for (uint32_t i = 0; i < from->line_count && lines; i++) {
        lines[i].function = tables_text(tables, from->lines[i].function, &is_good);
        lines[i].file = tables_text(tables, from->lines[i].file, &is_good);
        lines[i].line = from->lines[i].line;
    }
    if (!lines || !is_good) {
        free(lines);
        return false;
    }
    free(frame->lines);
    frame->lines = lines;
    frame->line_count = from->line_count;
    tables->bytes += from->line_count * sizeof *lines;
    return true;
}

static bool fill_frame(struct tables *tables, struct table_frame *frame,
                       const struct store_frame *from) {
    bool is_good = true;
    frame->id = from->id;
    frame->address = from->address;
    frame->kind = from->kind;
    frame->version = from->version;
    frame->stamp = 0;
    frame->build_id = tables_text(tables, from->build_id, &is_good);
    frame->module = tables_text(tables, from->module, &is_good);
    return is_good && fill_lines(tables, frame, from);
}

uint32_t tables_frame(struct tables *tables, const struct store_frame *from) {
    uint32_t hash;
    uint32_t number =
        find_id(&tables->frame_index, from->id, &hash, tables->frames, sizeof *tables->frames);
    if (number) {
        struct table_frame *known = &tables->frames[number];
        return from->version <= known->version || fill_frame(tables, known, from) ? number : 0;
    }
    struct table_frame *frame =
        add_item(&tables->frames, tables->frame_count, &tables->frame_room, sizeof *frame);
    if (!frame)
        return 0;
    if (!fill_frame(tables, frame, from) ||
        !hash_index_add(&tables->frame_index, hash, tables->frame_count)) {
        free(frame->lines);
        return 0;
    }
    tables->bytes += sizeof *frame + 16;
    return tables->frame_count++;
}

uint32_t tables_find_stack(const struct tables *tables, uint64_t id) {
    uint32_t hash;
    return find_id(&tables->stack_index, id, &hash, tables->stacks, sizeof *tables->stacks);
}

static uint32_t add_stack(struct tables *tables, uint64_t id, uint32_t *frames, uint32_t count) {
    struct table_stack *stack =
        add_item(&tables->stacks, tables->stack_count, &tables->stack_room, sizeof *stack);
    uint32_t hash = hash_index_words(&tables->stack_index, id, 0);
    if (!stack || !hash_index_add(&tables->stack_index, hash, tables->stack_count)) {
        free(frames);
        return 0;
    }
    *stack = (struct table_stack){.id = id, .frames = frames, .frame_count = count};
    tables->bytes += sizeof *stack + count * sizeof *frames + 32;
    return tables->stack_count++;
}

uint32_t tables_stack(struct tables *tables, const struct store_stack *from) {
    uint32_t hash, number = tables_find_stack(tables, from->id);
    if (number)
        return number;
    uint32_t *frames = malloc((from->frame_count + 1) * sizeof *frames);
    bool is_good = frames != NULL;
    for (uint32_t i = 0; i < from->frame_count && is_good; i++) {
        frames[i] = find_id(&tables->frame_index, from->frames[i], &hash, tables->frames,
                            sizeof *tables->frames);
        is_good = frames[i] != 0;
    }
    if (!is_good) {
        free(frames);
        return 0;
    }
    return add_stack(tables, from->id, frames, from->frame_count);
}

/* ---- Copies ---- */

uint32_t tables_copy_text(struct tables *to, const struct tables *from, uint32_t number,
                          bool *is_good) {
    return number ? tables_text(to, from->texts[number].text, is_good) : 0;
}

static const char *text_of(const struct tables *tables, uint32_t number) {
    return number ? tables->texts[number].text : "";
}

uint32_t tables_copy_process(struct tables *to, const struct tables *from, uint32_t number) {
    const struct table_process *process = &from->processes[number];
    struct store_label labels[STORE_MAX_LABELS];
    struct store_window window = {.service = process->service,
                                  .instance = process->instance,
                                  .pid = process->pid,
                                  .start_unix_ns = process->start_unix_ns,
                                  .labels = labels};
    for (size_t i = 0; i < process->label_count && i < STORE_MAX_LABELS; i++)
        labels[window.label_count++] =
            (struct store_label){process->labels[2 * i], process->labels[2 * i + 1]};
    uint32_t copy = tables_process(to, &window);
    if (!copy)
        return 0;
    to->processes[copy].dropped = process->dropped;
    for (size_t i = 0; i < process->mapping_count; i++)
        tables_add_mapping(to, copy, text_of(from, process->mappings[i].build_id),
                           text_of(from, process->mappings[i].path), process->mappings[i].start,
                           process->mappings[i].end);
    return copy;
}

static uint32_t copy_frame(struct tables *to, const struct tables *from, uint32_t number) {
    const struct table_frame *frame = &from->frames[number];
    struct store_line lines[STORE_MAX_LINES];
    struct store_frame copy = {.id = frame->id,
                               .build_id = text_of(from, frame->build_id),
                               .module = text_of(from, frame->module),
                               .address = frame->address,
                               .kind = frame->kind,
                               .version = frame->version,
                               .lines = lines};
    for (uint32_t i = 0; i < frame->line_count && i < STORE_MAX_LINES; i++)
        lines[copy.line_count++] =
            (struct store_line){text_of(from, frame->lines[i].function),
                                text_of(from, frame->lines[i].file), frame->lines[i].line};
    return tables_frame(to, &copy);
}

uint32_t tables_copy_stack(struct tables *to, const struct tables *from, uint32_t number) {
    const struct table_stack *stack = &from->stacks[number];
    uint32_t copy = tables_find_stack(to, stack->id);
    if (copy)
        return copy;
    uint32_t *frames = malloc((stack->frame_count + 1) * sizeof *frames);
    bool is_good = frames != NULL;
    for (uint32_t i = 0; i < stack->frame_count && is_good; i++) {
        frames[i] = copy_frame(to, from, stack->frames[i]);
        is_good = frames[i] != 0;
    }
    if (is_good)
        return add_stack(to, stack->id, frames, stack->frame_count);
    free(frames);
    return 0;
}
